"""What a release needs beside the code: workflows, forms, citation, recipe and container, each true to the project."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import rockafellian as rk

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Where conda-forge has another name than the package index.
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", GITHUB.glob("workflows/*")),
        ("custom.github-workflows-require-timeout", GITHUB.glob("workflows/*")),
        ("vendor.github-issue-forms", (GITHUB / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "idea.yml"))),
        ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_a_file_for_github_is_what_its_schema_says(schema: str, files: object) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--force-filetype", "yaml", "--builtin-schema", schema]
    checked = subprocess.run([*command, *map(str, files)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_workflows_run_what_the_repository_has() -> None:
    check, publish = (
        yaml.safe_load((GITHUB / "workflows" / f"{name}.yml").read_text()) for name in ("check", "publish")
    )
    assert check["jobs"]["check"]["steps"][-1] == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert {"run": "make dist"} in publish["jobs"]["build"]["steps"]
    assert re.search(r"^dist:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_only_the_job_that_publishes_may_have_a_token_of_the_index() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows" / "publish.yml").read_text())["jobs"]
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "build": None,
        "publish": {"id-token": "write"},
    }
    assert "run" not in {key for step in jobs["publish"]["steps"] for key in step}


def test_the_citation_names_the_authors_of_the_paper_as_the_readme_does() -> None:
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]
    (title, authors) = re.findall(r"^ +(?:title|author) += \{(.+)\},$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert paper["title"] == title
    assert " and ".join(f"{each['family-names']}, {each['given-names']}" for each in paper["authors"]) == authors


def test_the_changelog_begins_with_this_version() -> None:
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] in (
        rk.__version__,
        "Unreleased",
    )


def test_both_distributions_have_the_license() -> None:
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "reproduction" / "LICENSE").read_bytes()


def needs(extra: str) -> set[str]:
    """What an extra needs, with the extras that it names, as conda writes it."""
    found = set()
    for need in PROJECT["optional-dependencies"][extra]:
        if own := re.fullmatch(r"rockafellian\[(.+)\]", need):
            found |= set().union(*map(needs, own[1].split(",")))
        else:
            found.add(conda(need))
    return found


def conda(need: str) -> str:
    name, bound = re.fullmatch(r"([\w.-]+)(>=.+)", need).groups()
    return f"{CONDA_NAMES.get(name, name)} {bound}"


def test_the_recipe_needs_what_the_library_and_its_command_need() -> None:
    text = (ROOT / "recipe" / "recipe.yaml").read_text()
    recipe = yaml.safe_load(text)
    assert recipe["context"] == {"version": rk.__version__, "python_min": PROJECT["requires-python"].removeprefix(">=")}
    python, *others = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert set(others) == {conda(need) for need in PROJECT["dependencies"]} | needs("audit")
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == f"rockafellian = {PROJECT['scripts']['rockafellian']}"


def test_the_container_copies_files_that_exist_and_its_context_has_them() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert all((ROOT / name).exists() for name in copied)
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    assert copied == kept
