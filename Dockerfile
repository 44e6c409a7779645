# The command in a container, for CPUs. Build it from a checkout, with the address of PyTorch's CPU packages if you want to spare the
# gigabytes of CUDA packages that pip's usual build of torch brings on Linux:
#   docker build --build-arg TORCH_CPU_INDEX=ADDRESS --tag rockafellian .
# Then, in the folder of your data:
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/data" rockafellian audit tumors.csv --label diagnosis
FROM python:3.11-slim

ARG TORCH_CPU_INDEX=""
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY .ci/index_readme.py .ci/
COPY src src
RUN PIP_EXTRA_INDEX_URL="$TORCH_CPU_INDEX" PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
    pip install --no-cache-dir ".[audit]"

# Any user may run it: caches go where everybody can write.
ENV HOME=/tmp
USER 1000
WORKDIR /data
ENTRYPOINT ["rockafellian"]
