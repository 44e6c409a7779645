"""What `make dist` builds installs into an empty environment, runs there, and holds what it should."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import rockafellian as rk

ROOT = Path(__file__).parents[1]
LIBRARY, REPRODUCTION = f"rockafellian-{rk.__version__}", f"rockafellian_reproduction-{rk.__version__}"


def run(*command: str | Path, **options: object) -> str:
    shown = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return shown.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The four files; built as `make dist` builds them."""
    out = tmp_path_factory.mktemp("dist")
    pinned = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), str(ROOT / "constraints.txt"))
    for folder in (ROOT, ROOT / "reproduction"):
        run(sys.executable, "-m", "build", "--outdir", out, folder, env={**os.environ, **pinned})
    return out


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both wheels; what they need comes from this one, behind them on the path."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, *dist.glob("*.whl"))
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "other_packages.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def files(dist: Path, name: str) -> set[str]:
    """The files of a wheel."""
    return set(ZipFile(dist / f"{name}-py3-none-any.whl").namelist())


def members(dist: Path, name: str) -> set[str]:
    """The files of a source archive, below its folder."""
    with tarfile.open(dist / f"{name}.tar.gz") as archive:
        return {member.removeprefix(f"{name}/") for member in archive.getnames()}


def test_both_distributions_have_one_version_and_both_forms(dist: Path) -> None:
    assert {path.name for path in dist.iterdir()} == {
        name for each in (LIBRARY, REPRODUCTION) for name in (f"{each}.tar.gz", f"{each}-py3-none-any.whl")
    }


@pytest.mark.parametrize(
    ("name", "source"),
    [(LIBRARY, ROOT / "src"), (REPRODUCTION, ROOT / "reproduction" / "src")],
    ids=["library", "reproduction"],
)
def test_a_wheel_has_every_file_of_the_package_its_license_and_nothing_else(
    name: str, source: Path, dist: Path
) -> None:
    tracked = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    package = {path for path in tracked if "__pycache__" not in path}
    about = {f"{name}.dist-info/{each}" for each in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    assert files(dist, name) == package | about | {f"{name}.dist-info/licenses/LICENSE"}


def test_the_wheel_of_the_library_is_typed_and_has_the_parts_of_the_page(dist: Path) -> None:
    found = files(dist, LIBRARY)
    assert "rockafellian/py.typed" in found
    assert {"j2", "css", "js"} <= {name.rpartition(".")[2] for name in found if "/report/template/" in name}


def test_a_source_archive_has_its_tests_and_nothing_of_the_other_distribution(dist: Path) -> None:
    library, reproduction = members(dist, LIBRARY), members(dist, REPRODUCTION)
    assert {"LICENSE", "CITATION.cff", "tests/test_distributions.py", "docs/index.md"} <= library
    assert {"LICENSE", "tests/test_paper_commands.py"} <= reproduction
    assert not [name for name in library if name.startswith(("reproduction", "benchmarks"))]
    assert not [name for name in library | reproduction if "__pycache__" in name or "results" in name.split("/")]


def test_links_in_the_readme_of_the_index_lead_to_this_version_in_the_repository(dist: Path) -> None:
    with ZipFile(dist / f"{LIBRARY}-py3-none-any.whl") as wheel:
        text = wheel.read(f"{LIBRARY}.dist-info/METADATA").decode()
    there = f"https://github.com/rockafellian/rockafellian/{{}}/v{rk.__version__}/"
    assert f"]({there.format('raw')}docs/review.png)" in text
    assert f"]({there.format('blob')}docs/results.md#digits)" in text
    assert "](docs/" not in text


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["rockafellian", "--version"], f"{rk.__version__}\n"),
        (["rockafellian", "reproduce", "3", "--scale", "paper", "--list"], "table 3, paper"),
        (["python", "-c", "import rockafellian as rk; print(rk.__file__, rk.RRM())"], "RRM("),
    ],
    ids=["version", "reproduction", "import"],
)
def test_both_wheels_run_in_an_environment_of_their_own(
    arguments: list[str], shown: str, installed: Path, tmp_path: Path
) -> None:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    out = run(installed / "bin" / arguments[0], *arguments[1:], env=clean, cwd=tmp_path)
    assert shown in out
    assert str(ROOT) not in out
