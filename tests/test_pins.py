import importlib.util
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("pins", ROOT / ".ci" / "pins.py")
pins = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pins)


def test_an_environment_of_the_pinned_versions_has_no_differences() -> None:
    assert pins.differences({"torch": "2.13.0", "six": "1"}, {"torch": "2.13.0", "six": "1", "ray": "2"}) == []


def test_another_version_and_a_package_without_a_pin_are_named() -> None:
    found = pins.differences({"torch": "2.14.0", "new": "1", "six": "1"}, {"torch": "2.13.0", "six": "1"})
    assert found == [
        "new 1 is installed, constraints.txt has no pin",
        "torch 2.14.0 is installed, constraints.txt has 2.13.0",
    ]


def test_names_are_compared_as_an_index_spells_them_and_versions_without_their_build() -> None:
    assert pins.canonical("Typing_Extensions") == pins.canonical("typing.extensions") == "typing-extensions"
    assert pins.read("# all\nPyYAML==6.0.3  # for ray\n\nruamel.yaml==1\n") == {"pyyaml": "6.0.3", "ruamel-yaml": "1"}
    assert pins.public("2.13.0+cpu") == "2.13.0"


def test_this_environment_is_seen_without_our_own_package() -> None:
    environment = pins.installed()
    assert {"torch", "numpy", "pytest"} <= set(environment)
    assert "rockafellian" not in environment


def test_the_file_holds_names_and_versions_and_every_requirement_has_its_pin() -> None:
    text = (ROOT / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(set(names))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [need for extra in project["project"]["optional-dependencies"].values() for need in extra]
    wanted += [need for group in project["dependency-groups"].values() for need in group if isinstance(need, str)]
    wanted += tomllib.loads((ROOT / "reproduction" / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = {pins.canonical(re.match(r"[\w.-]+", need)[0]) for need in wanted}
    needed -= {"rockafellian", "rockafellian-reproduction"}
    assert needed <= set(names)
