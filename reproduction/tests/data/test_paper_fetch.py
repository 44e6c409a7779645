"""Tiny sources, fetched from a server: once, whole, checked, or an error that helps."""

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import FILES, Server, contents, nothing_is_there, serving, sha256, source, tgz

from rockafellian_reproduction.data import fetch
from rockafellian_reproduction.data.sources import SOURCES, Address, File, Form, Package, Source, named


def test_files_come_from_the_address_once_and_from_the_cache_afterwards(
    tiny: Source, server: Server, cache: Path
) -> None:
    assert fetch.where("tiny", cache) is None
    assert fetch.get("tiny", cache=cache) == cache / "tiny"
    assert contents(cache / "tiny") == FILES
    assert fetch.where("tiny", cache) == fetch.get("tiny", cache=cache) == cache / "tiny"
    assert set(server.asked.values()) == {1}
    assert list((cache / ".partial").iterdir()) == []


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ROCKAFELLIAN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetch.cache_folder() == tmp_path / ".cache" / "rockafellian"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert fetch.cache_folder() == tmp_path / "x" / "rockafellian"
    monkeypatch.setenv("ROCKAFELLIAN_CACHE", "~/r")
    assert fetch.cache_folder() == tmp_path / "r"
    assert fetch.cache_folder(tmp_path / "named") == tmp_path / "named"


def test_an_archive_at_an_address_is_checked_and_unpacked(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tgz("inner/", FILES)
    server.files["all.tar.gz"] = archive
    for checksum, works in ((sha256(archive), True), ("0" * 64, False)):
        address = Address(server.url, File("all.tar.gz", checksum, len(archive)), "inner/")
        monkeypatch.setitem(SOURCES, "tiny", source(FILES, address=address))
        if works:
            assert contents(fetch.get("tiny", cache=cache)) == FILES
            shutil.rmtree(cache)
        else:
            with pytest.raises(FileNotFoundError, match=rf"all\.tar\.gz with sha256 {'0' * 64}, got {sha256(archive)}"):
                fetch.get("tiny", cache=cache)
            assert nothing_is_there(cache)


def test_a_changed_file_in_the_cache_is_an_error_with_both_checksums_and_the_fix(
    tiny: Source, server: Server, cache: Path
) -> None:
    folder = fetch.get("tiny", cache=cache)
    (folder / "a.txt").write_bytes(b"the first fi1e")
    with pytest.raises(
        ValueError, match=rf"need .*a\.txt with sha256 .*; delete the folder {folder} and fetch"
    ) as caught:
        fetch.get("tiny", cache=cache)
    assert sha256(FILES["a.txt"]) in str(caught.value)
    assert sha256(b"the first fi1e") in str(caught.value)
    assert set(server.asked.values()) == {1}


def test_a_checksum_may_be_an_md5(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello")
    fetch.check(File("a", "5d41402abc4b2a76b9719d911017c592"), tmp_path / "a")
    with pytest.raises(ValueError, match=r"with md5 0{32}, got 5d41402abc4b2a76b9719d911017c592"):
        fetch.check(File("a", "0" * 32), tmp_path / "a")


def test_a_gz_has_the_checksum_of_its_contents(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    for level in (1, 9):
        path.write_bytes(gzip.compress(b"hello" * 100, level))
        fetch.check(File("a.gz", sha256(b"hello" * 100)), path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"a\.gz is cut short or damaged"):
        fetch.check(File("a.gz", sha256(b"hello" * 100)), path)


@pytest.mark.parametrize("wrong", ["missing", "other", "short", "long"])
def test_a_wrong_download_is_not_kept(tiny: Source, server: Server, cache: Path, wrong: str, monkeypatch) -> None:
    match wrong:
        case "missing":
            del server.files["deep/b.bin"]
        case "other":
            server.files["deep/b.bin"] = b"<html>log in first</html>"
        case "short":
            server.lie = 5
        case "long":
            monkeypatch.setattr(fetch, "MARGIN", 10)
            server.files["deep/b.bin"] *= 1000
    reason = {
        "missing": "HTTP Error 404: Not Found",
        "other": r"deep/b\.bin with sha256 \w+, got \w+: it is damaged or another version",
        "short": "it ended after 14 of 19 bytes",
        "long": "it is larger than 5130 bytes, so it is another file",
    }[wrong]
    with pytest.raises(FileNotFoundError, match=rf"need tiny: tried {server.url} \(.*{reason}.*\)"):
        fetch.get("tiny", cache=cache)
    assert nothing_is_there(cache)


def test_offline_and_without_a_package_the_error_names_files_and_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("PATH", str(tmp_path))
    with serving() as server:
        gone = server.url
    forms = source(FILES, address=Address(gone), package=Package("npm", "tiny-data", "1.0.0", "")).forms
    other = Form("other", (File("c.csv"),), package=Package("debian", "tiny-deb", "", ""))
    monkeypatch.setitem(SOURCES, "tiny", Source("", "", "tiny", (*forms, other)))
    with pytest.raises(FileNotFoundError) as caught:
        fetch.get("tiny", cache=cache)
    message = str(caught.value)
    assert message.startswith(f"need tiny: tried {gone} ([Errno ")
    assert "Connection refused" in message
    assert (
        "; npm package tiny-data 1.0.0 (npm is not installed); debian package tiny-deb (apt-get is not installed). "
        in message
    )
    assert f". Put a.txt and deep/b.bin, or c.csv into {cache / 'tiny'}, or into a folder that you name with" in message
    assert message.endswith("`rockafellian data get tiny --folder DIR`")
    assert "\n" not in message
    assert nothing_is_there(cache)


def test_data_without_an_address_say_so(cache: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"need tissue: it is not public.*Put train/ and test/ into .*tissue"):
        fetch.get("tissue", cache=cache)


def test_a_folder_of_the_user_is_checked_and_used_as_it_is(
    tiny: Source, server: Server, cache: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    (mine / "deep").mkdir(parents=True)
    with pytest.raises(
        FileNotFoundError, match=rf"need a\.txt and deep/b\.bin in {mine} for tiny, but it lacks a\.txt"
    ):
        fetch.get("tiny", mine, cache)
    for name, content in FILES.items():
        (mine / name).write_bytes(content)
    assert fetch.get("tiny", mine, cache) == mine
    (mine / "a.txt").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"need .*mine.a\.txt with sha256 .*; bring another copy"):
        fetch.get("tiny", str(mine), cache)
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        fetch.get("tiny", tmp_path / "nowhere", cache)
    assert not server.asked
    assert not cache.exists()


def test_files_may_be_in_a_subfolder_and_be_a_pattern_or_a_folder(tmp_path: Path, monkeypatch) -> None:
    forms = (Form("one", (File("x/"), File("*.vec")), below="inner"), Form("two", (File("y"),)))
    monkeypatch.setitem(SOURCES, "tiny", Source("", "", "tiny", forms))
    (tmp_path / "inner" / "x").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"need x/ and \*\.vec, or y in .* but it lacks \*\.vec"):
        fetch.find("tiny", tmp_path)
    (tmp_path / "inner" / "a.vec").write_text("")
    assert fetch.find("tiny", tmp_path) == fetch.Found(forms[0], tmp_path / "inner")
    (tmp_path / "inner" / "b.vec").write_text("")  # which of the two?
    with pytest.raises(FileNotFoundError):
        fetch.find("tiny", tmp_path)
    (tmp_path / "y").write_text("")
    assert fetch.find("tiny", tmp_path) == fetch.Found(forms[1], tmp_path)


def test_files_put_into_the_cache_by_hand_are_completed_by_hand(tiny: Source, server: Server, cache: Path) -> None:
    (cache / "tiny").mkdir(parents=True)
    assert fetch.get("tiny", cache=cache)  # an empty folder is in nobody's way
    (cache / "tiny" / "a.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"but it lacks a\.txt; put that there, or delete the folder"):
        fetch.get("tiny", cache=cache)
    assert contents(cache / "tiny") == {"deep/b.bin": FILES["deep/b.bin"]}
    assert server.asked["a.txt"] == 1


def test_a_copy_of_the_users_files_replaces_those_in_the_cache(
    tiny: Source, server: Server, cache: Path, tmp_path, monkeypatch
) -> None:
    fetch.get("tiny", cache=cache)
    other = Form("other", (File("c/"), File("d.txt", sha256(b"d"))), extras=("truth.csv", "absent.csv"))
    monkeypatch.setitem(SOURCES, "tiny", replace(tiny, forms=(*tiny.forms, other)))
    mine = tmp_path / "mine"
    (mine / "c").mkdir(parents=True)
    (mine / "c" / "deep.txt").write_text("c")
    for name, text in (("d.txt", "d"), ("truth.csv", "t"), ("unasked", "u")):
        (mine / name).write_text(text)
    assert fetch.keep("tiny", mine, cache) == cache / "tiny"
    assert contents(cache / "tiny") == {"c/deep.txt": b"c", "d.txt": b"d", "truth.csv": b"t"}
    assert fetch.keep("tiny", cache / "tiny", cache) == cache / "tiny"
    assert list((cache / ".partial").iterdir()) == []
    (mine / "d.txt").write_text("e")
    with pytest.raises(ValueError, match=r"d\.txt with sha256"):
        fetch.keep("tiny", mine, cache)
    assert contents(cache / "tiny")["d.txt"] == b"d"


def test_lines_are_shown_where_there_is_no_terminal(tiny: Source, server: Server, cache: Path, capsys) -> None:
    fetch.get("tiny", cache=cache)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"fetching {server.url}a.txt (0.0 MB)\nfetching {server.url}deep/b.bin (0.0 MB)\n"


def test_progress_can_be_quiet_or_a_bar(tiny: Source, cache: Path, capsys) -> None:
    fetch.get("tiny", cache=cache, progress="quiet")
    assert capsys.readouterr().err == ""
    shutil.rmtree(cache)
    fetch.get("tiny", cache=cache, progress="bar")
    assert "a.txt" in capsys.readouterr().err


def test_another_display_is_refused(tiny: Source, cache: Path) -> None:
    with pytest.raises(ValueError, match="need progress to be one of auto, bar, lines, quiet; got 'loud'"):
        fetch.get("tiny", cache=cache, progress="loud")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"need one of mnist-10, .*, resnet-50; got 'mnist'"):
        named("mnist")


def test_every_file_that_is_fetched_has_a_checksum_and_a_size() -> None:
    for name, found in SOURCES.items():
        for form in found.forms:
            archives = [form.address.archive] if form.address and form.address.archive else []
            for file in (*form.files, *archives):
                assert len(file.checksum) in ((32, 64) if form.address or form.package else (0, 32, 64)), (name, file)
                assert set(file.checksum) <= set("0123456789abcdef")
                assert file.size > 0 or not (form.address or form.package)
        assert name in ("tissue", "distilbert") or any(form.address or form.package for form in found.forms)


def test_no_two_sources_share_a_folder_but_the_two_of_mnist() -> None:
    folders = [found.folder for name, found in SOURCES.items() if name != "mnist-3"]
    assert len(set(folders)) == len(folders)
    assert SOURCES["mnist-3"].forms == SOURCES["mnist-10"].forms
    assert SOURCES["mnist-3"].folder == SOURCES["mnist-10"].folder
