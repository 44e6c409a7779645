# One environment in .venv serves everything; each target adds what it needs, once, in the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
PIP = -m pip install --quiet --disable-pip-version-check
# Pins hold for the packages and, by the second name, for what pip builds this package with.
PINNED = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
# The package with all that its tests and benchmarks use, and the reproduction.
OURS = --editable ".[text,skorch,lightning,huggingface,keras]" --editable reproduction
TORCH = $(shell sed -n 's/^torch==//p' constraints.txt)
# Tests run in so many processes, a file in one of them.
JOBS ?= 2
PARALLEL = --numprocesses $(JOBS) --dist loadfile

.PHONY: demo test check lint types docs notebooks pinned pins dist coverage test-newest test-oldest fuzz robustness noise-rate ambiguous review natural-errors tweets bench digits adversarial own-data tabular lora scale together streams \
	tables rivals clean

demo: .venv/.installed
	$(BIN)/rockafellian demo

test: .venv/.installed-test
	$(BIN)/python -m pytest $(PARALLEL)

check: lint types pinned docs test

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/python .ci/prose.py

types: .venv/.installed-dev
	$(BIN)/mypy

# The documentation site in site/; a broken link or anchor, or a page that is not in the navigation, fails (not with --quiet).
docs: .venv/.installed-dev docs/cli.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The notebooks in examples/notebooks, run from the Python files beside them, and their pages.
notebooks: .venv/.installed-test
	$(BIN)/python .ci/notebooks.py

docs/cli.md: .venv/.installed-dev $(wildcard src/rockafellian/cli/*.py)
	$(BIN)/python .ci/cli_reference.py

# Is every installed version the one in constraints.txt?
pinned: .venv/.installed-dev
	$(BIN)/python .ci/pins.py check

# Pins the newest versions of all packages. Torch stays, as its newest build may bring CUDA: `make pins TORCH=2.15.0` moves it.
pins: .venv-newest
	.venv-newest/bin/python $(PIP) torch==$(TORCH) hatchling editables $(OURS) --group dev --group rivals "ray[train]"
	.venv-newest/bin/python .ci/pins.py write

# What a release publishes: the wheel and the source archive of both distributions, in dist/.
dist: | .venv
	rm -rf dist
	$(PINNED) $(BIN)/python $(PIP) build
	for folder in . reproduction; do $(PINNED) $(BIN)/python -m build --outdir dist $$folder || exit; done

# The lines and branches of the library that the tests run, in all their processes; recorded. Then its page.
coverage: .venv/.installed-test
	$(BIN)/python benchmarks/covered.py --jobs $(JOBS)

# The tests with the newest versions of all packages, torch included (gigabytes of CUDA packages on Linux).
test-newest: .venv-newest
	.venv-newest/bin/python $(PIP) --upgrade --upgrade-strategy eager $(OURS) --group test
	.venv-newest/bin/python -m pytest $(PARALLEL)

# The tests with the oldest versions that pyproject.toml allows for what it names (uv resolves them; again CUDA packages).
test-oldest:
	rm -rf .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python $(PIP) uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct $(OURS) --group test
	.venv-oldest/bin/python -m pytest $(PARALLEL)

# Fresh hostile files, options, run folders and checkpoints for every command, then killed and competing runs.
CASES ?= 1000
fuzz: .venv/.installed-test
	$(BIN)/python tests/fuzz/fuzz.py --cases $(CASES) --jobs $(JOBS)
	$(BIN)/python tests/fuzz/kills.py

# The same recorded, with large images and many columns: an hour. Then its page.
robustness: .venv/.installed-bench
	$(BIN)/python benchmarks/robustness.py

# The noise rate estimated on clean, dirty and ambiguous data: some minutes. Then its page.
noise-rate: .venv/.installed-bench
	$(BIN)/python benchmarks/noise_rate.py

# Right labels of uncertain outcomes, real tables among them: what is claimed and removed. Then its page.
ambiguous: .venv/.installed-bench
	$(BIN)/python benchmarks/ambiguous.py

# What thirty decisions tell about the noise rate, simulated: half an hour. Then its page.
review: .venv/.installed-rivals
	$(BIN)/python benchmarks/review.py

# Label errors of IMDb's test set that people have confirmed; needs their list, see benchmarks/natural_errors.py.
natural-errors: .venv/.installed-rivals
	$(BIN)/python benchmarks/natural_errors.py

# Tweets labeled by one person each; needs the file, see benchmarks/tweets.py.
tweets: .venv/.installed-rivals
	$(BIN)/python benchmarks/tweets.py

bench: .venv/.installed-bench
	$(BIN)/python benchmarks/reweight.py
	$(BIN)/python benchmarks/training.py

digits: .venv/.installed-bench
	$(BIN)/python benchmarks/digits.py

adversarial: .venv/.installed-bench
	$(BIN)/python benchmarks/adversarial.py

# `rockafellian audit` on real sets, then on a million rows: a quarter of an hour. Then its page.
own-data: .venv/.installed-bench
	$(BIN)/python benchmarks/own_data.py
	$(BIN)/python benchmarks/own_data.py --memory
	$(BIN)/python benchmarks/own_data.py --clean
	$(BIN)/python benchmarks/own_data_speed.py

# RRM around scikit-learn's estimators beside CleanLearning: some minutes. Then its page.
tabular: .venv/.installed-rivals
	$(BIN)/python benchmarks/tabular.py

# LoRA on IMDb through Hugging Face's Trainer, resumed where it was: half an hour. Then its page.
lora: .venv/.installed-rivals
	$(BIN)/python benchmarks/lora.py

# Re-weighting and training in several processes: seconds, bytes, memory; whether results are equal; rows that come once.
scale: .venv/.installed-bench
	$(BIN)/python benchmarks/distributed.py

together: .venv/.installed-bench
	$(BIN)/python benchmarks/together.py

streams: .venv/.installed-bench
	$(BIN)/python benchmarks/streams.py

# Against cleanlab, ELR and others on real data, resumed where it was: an hour of two cores. Then its page.
rivals: .venv/.installed-rivals
	cd benchmarks && ../$(BIN)/python -m rivals --jobs 2

# Every table of the paper that two cores can do, resumed where it was; then the page that compares.
tables: .venv/.installed-bench
	for table in 1 2 3 4 7 8 9 tissue; do $(BIN)/rockafellian reproduce $$table --seeds 3 --jobs 2 || exit; done
	$(BIN)/rockafellian reproduce 1 --ours --seeds 3 --jobs 2
	for reading in "--ours --reading elr-beta=0.9" "--reading elr-beta=0.9" "--reading elr-beta=0.9 --reading reweighted-by=cce" \
		"--reading batches=script"; do $(BIN)/rockafellian reproduce 3 $$reading --seeds 3 --jobs 2 || exit; done
	$(BIN)/rockafellian compare --markdown docs/reproduce.md

clean:
	rm -rf .venv .venv-newest .venv-oldest runs site dist

# What a user has: the command with all that it audits. What a developer has: a dependency group and the reproduction too.
.venv/.installed: pyproject.toml constraints.txt | .venv
	$(PINNED) $(BIN)/python $(PIP) pip
	$(PINNED) $(BIN)/python $(PIP) --editable ".[audit]"
	touch $@

.venv/.installed-%: pyproject.toml reproduction/pyproject.toml constraints.txt | .venv
	$(PINNED) $(BIN)/python $(PIP) pip
	$(PINNED) $(BIN)/python $(PIP) $(OURS) --group $*
	touch $@

.venv:
	$(PYTHON) -m venv .venv

.PHONY: .venv-newest
.venv-newest:
	rm -rf $@
	$(PYTHON) -m venv $@
	$@/bin/python $(PIP) --upgrade pip
