"""Keep constraints.txt and an environment equal: `write` records this environment, `check` compares it."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

PINS = Path(__file__).parents[1] / "constraints.txt"
HEADER = """\
# Every version that takes part in `make demo`, `make test`, `make check` and the benchmarks, direct and indirect, and
# what a CUDA build of torch adds. Written by `make pins` on Python {python}; `make check` compares its environment.
"""


def canonical(name: str) -> str:
    """Return the form in which an index spells a package: lower case, one hyphen for any run of - _ and dots."""
    return re.sub(r"[-_.]+", "-", name).lower()


def public(version: str) -> str:
    """Return a version without its build: 2.13.0+cpu and 2.13.0 are the same release."""
    return version.partition("+")[0]


def installed() -> dict[str, str]:
    """Return the version of every package in this environment but our own."""
    found = {canonical(item.metadata["Name"]): public(item.version) for item in distributions()}
    return {name: version for name, version in found.items() if not name.startswith("rockafellian")}


def read(text: str) -> dict[str, str]:
    """Return the pins of a constraints file."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def differences(environment: Mapping[str, str], pins: Mapping[str, str]) -> list[str]:
    """Return a line for each package whose version is not the pinned one."""
    return [
        f"{name} {version} is installed, constraints.txt has {pins.get(name, 'no pin')}"
        for name, version in sorted(environment.items())
        if pins.get(name) != version
    ]


def cuda_build(torch: str) -> dict[str, str]:
    """Return what pip would install beside a CUDA build of torch, which a CPU build does not show."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    answer = subprocess.run([*command, f"torch==={torch}"], capture_output=True, text=True, check=True)
    metadata = [item["metadata"] for item in json.loads(answer.stdout)["install"]]
    return {canonical(item["name"]): public(item["version"]) for item in metadata}


def main(command: str) -> None:
    """Write the pins, or end with an error that names what differs from them."""
    environment = installed()
    if command == "write":
        pins = {**cuda_build(environment["torch"]), **environment}
        header = HEADER.format(python=".".join(map(str, sys.version_info[:2])))
        PINS.write_text(header + "".join(f"{name}=={version}\n" for name, version in sorted(pins.items())))
    elif found := differences(environment, read(PINS.read_text())):
        sys.exit("\n".join([*found, "To install the pinned versions: make clean check. To pin newer ones: make pins."]))


if __name__ == "__main__":
    main(sys.argv[1])
