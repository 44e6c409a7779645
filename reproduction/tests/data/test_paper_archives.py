"""Archives made here, whole, cut, damaged and hostile: what is asked for comes out, or nothing and an error."""

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rockafellian_reproduction.data.archives import unpack

CONTENT = {"top/a.txt": b"one", "top/deep/b.bin": bytes(range(256)), "top/c.txt": b"three"}
WANTED = {"top/a.txt": "a.txt", "top/deep/b.bin": "deep/b"}


def member(
    name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for info, content in members or [member(name, content) for name, content in CONTENT.items()]:
            archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return file.getvalue()


def zipped(*members: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members or CONTENT.items():
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def deb(data: bytes | None = None, name: str = "data.tar.xz") -> bytes:
    parts = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", name: lzma.compress(tar()) if data is None else data}
    return b"!<arch>\n" + b"".join(
        f"{part:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        + content
        + b"\n" * (len(content) % 2)
        for part, content in parts.items()
    )


KINDS: dict[str, Callable[[], bytes]] = {
    "a.tar": tar,
    "a.tar.gz": lambda: gzip.compress(tar()),
    "a.tgz": lambda: gzip.compress(tar()),
    "a.zip": zipped,
    "a.whl": zipped,
    "a.deb": deb,
}


def try_to_unpack(folder: Path, name: str, content: bytes, members: dict[str, str] = WANTED, **limits: int) -> None:
    (folder / name).write_bytes(content)
    unpack(folder / name, folder / "out", members, **{"max_bytes": 1 << 20, **limits})


def placed(folder: Path) -> dict[str, bytes]:
    out = folder / "out"
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def refused(folder: Path, name: str, content: bytes, match: str, **limits: int) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        try_to_unpack(folder, name, content, **limits)
    assert name in str(caught.value)
    assert list((folder / "out").iterdir()) == []


@pytest.mark.parametrize("name", KINDS)
def test_wanted_members_are_unpacked_and_nothing_else(tmp_path: Path, name: str) -> None:
    try_to_unpack(tmp_path, name, KINDS[name]())
    assert placed(tmp_path) == {"a.txt": b"one", "deep/b": bytes(range(256))}


def test_a_gz_has_one_member_with_its_own_name(tmp_path: Path) -> None:
    try_to_unpack(tmp_path, "notes.txt.gz", gzip.compress(b"one"), {"notes.txt": "n"})
    assert placed(tmp_path) == {"n": b"one"}


def test_a_gz_has_no_other_member(tmp_path: Path) -> None:
    refused(tmp_path, "other.gz", gzip.compress(b"one"), "need top/a.txt, top/deep/b.bin in .*no such member")


def test_a_deb_may_be_gzipped_or_plain_inside(tmp_path: Path) -> None:
    for data, name in ((gzip.compress(tar()), "data.tar.gz"), (tar(), "data.tar")):
        try_to_unpack(tmp_path, "a.deb", deb(data, name))
        assert placed(tmp_path)["a.txt"] == b"one"


def test_names_may_begin_with_a_dot_and_a_slash(tmp_path: Path) -> None:
    try_to_unpack(tmp_path, "a.tar", tar(member("./", b"", tarfile.DIRTYPE), member("./top/a.txt")), {"top/a.txt": "a"})
    assert placed(tmp_path) == {"a": b"x"}


@pytest.mark.parametrize("name", KINDS)
def test_a_member_that_is_not_there_is_named_and_nothing_is_placed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(KINDS[name]())
    with pytest.raises(ValueError, match=rf"need top/missing in .*{name}, but it has no such member"):
        unpack(tmp_path / name, tmp_path / "out", {"top/a.txt": "a", "top/missing": "m"}, max_bytes=1 << 20)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_is_not_taken_for_a_file(tmp_path: Path) -> None:
    refused(
        tmp_path, "a.tar", tar(member("top/a.txt", b"", tarfile.DIRTYPE), member("top/deep/b.bin")), "no such member"
    )
    refused(tmp_path, "a.zip", zipped(("top/a.txt/", b""), ("top/deep/b.bin", b"")), "no such member")


ESCAPES = ["../x", "/x", "top/../../x", "..", "C:/x", "C:x", "top\\..\\x"]


@pytest.mark.parametrize("bad", ESCAPES)
@pytest.mark.parametrize("kind", ["a.tar", "a.tgz", "a.deb", "a.zip"])
def test_an_archive_with_a_name_that_leaves_the_folder_is_refused_whole(tmp_path: Path, kind: str, bad: str) -> None:
    good = [member(name, content) for name, content in CONTENT.items()]
    inside = tar(*good, member(bad))
    content = {"a.tar": inside, "a.tgz": gzip.compress(inside), "a.deb": deb(lzma.compress(inside))}.get(kind)
    refused(tmp_path, kind, content or zipped(*CONTENT.items(), (bad, b"x")), "need names that stay in the folder")
    assert {path.name for path in tmp_path.iterdir()} == {kind, "out"}


def test_a_name_with_a_zero_is_refused(tmp_path: Path) -> None:
    info, content = member("x")
    info.pax_headers = {"path": "top/a\0b"}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(content))
    refused(tmp_path, "a.tar", file.getvalue(), "need")


@pytest.mark.parametrize(
    "odd",
    [
        member("top/link", b"", tarfile.SYMTYPE, "a.txt"),
        member("top/link", b"", tarfile.SYMTYPE, "/etc/passwd"),
        member("top/link", b"", tarfile.LNKTYPE, "top/a.txt"),
        member("top/a.txt.link", b"", tarfile.LNKTYPE, "../../x"),
        member("top/pipe", b"", tarfile.FIFOTYPE),
        member("top/device", b"", tarfile.CHRTYPE),
        member("top/disk", b"", tarfile.BLKTYPE),
    ],
    ids=lambda odd: f"{odd[0].type!r} {odd[0].linkname}",
)
def test_links_and_devices_are_refused_wherever_they_point(tmp_path: Path, odd: tuple[tarfile.TarInfo, bytes]) -> None:
    good = [member(name, content) for name, content in CONTENT.items()]
    refused(tmp_path, "a.tar", tar(*good, odd), "need files and folders only, but .* a link or device")


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("top/link")
    link.external_attr = 0o120777 << 16
    refused(tmp_path, "a.zip", zipped(*CONTENT.items(), (link, b"/etc/passwd")), "a link or device")


@pytest.mark.parametrize("again", ["top/a.txt", "./top/a.txt", "top//a.txt"])
def test_a_name_that_comes_twice_is_refused(tmp_path: Path, again: str) -> None:
    refused(tmp_path, "a.tar", tar(member("top/a.txt"), member("top/deep/b.bin"), member(again)), "twice")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_in_a_zip_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "a.zip", zipped(*CONTENT.items(), ("top/a.txt", b"other")), "twice")


@pytest.mark.parametrize("name", KINDS)
def test_there_may_be_as_many_members_as_stated_and_no_more(tmp_path: Path, name: str) -> None:
    refused(tmp_path, name, KINDS[name](), "need at most 2 members", max_members=2)
    try_to_unpack(tmp_path, name, KINDS[name](), max_members=3)


BOMB = bytes(5 << 20)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.zip", zipped(("top/a.txt", BOMB), ("top/deep/b.bin", b""))),
        ("a.tar.gz", gzip.compress(tar(member("top/a.txt", BOMB), member("top/deep/b.bin")))),
        ("skipped.tar.gz", gzip.compress(tar(member("top/a.txt"), member("top/deep/b.bin"), member("unasked", BOMB)))),
        ("a.deb", deb(lzma.compress(tar(member("top/a.txt", BOMB), member("top/deep/b.bin"))))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_more_bytes_than_stated_are_refused_while_they_come(tmp_path: Path, name: str, content: bytes) -> None:
    assert len(content) < 100_000
    refused(tmp_path, name, content, "need at most 100000 bytes in .* more came out", max_bytes=100_000)


def test_a_gz_bomb_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="need at most 1000 bytes"):
        try_to_unpack(tmp_path, "a.gz", gzip.compress(BOMB), {"a": "a"}, max_bytes=1000)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_sparse_member_counts_what_it_grows_to(tmp_path: Path) -> None:
    info = tarfile.TarInfo("top/a.txt")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,1",
        "GNU.sparse.size": "9000000",
    }
    info.size = 1
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b"x"))
        archive.addfile(member("top/deep/b.bin")[0], io.BytesIO(b"x"))
    refused(tmp_path, "a.tar", file.getvalue(), "need at most 100000 bytes", max_bytes=100_000)


def test_a_zip_whose_header_understates_a_member_is_refused(tmp_path: Path) -> None:
    content = zipped(("top/a.txt", BOMB), ("top/deep/b.bin", b""))
    refused(tmp_path, "a.zip", content.replace(len(BOMB).to_bytes(4, "little"), (7).to_bytes(4, "little")), "damaged")


@pytest.mark.parametrize("name", [*KINDS, "a.gz"])
def test_a_cut_archive_gives_nothing_and_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    whole = gzip.compress(b"a" * 100) if name == "a.gz" else KINDS[name]()
    members = {"a": "a"} if name == "a.gz" else WANTED
    # Only the empty blocks at the end of a plain tar can go.
    end = len(whole.rstrip(b"\0")) if name == "a.tar" else len(whole)
    for cut in range(0, end, max(1, end // 40)):
        with pytest.raises(ValueError, match=name):
            try_to_unpack(tmp_path, name, whole[:cut], members)
        assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["a.tgz", "a.zip", "a.deb"])
def test_a_flipped_byte_is_noticed(tmp_path: Path, name: str) -> None:
    whole = bytearray(gzip.compress(tar(), 0) if name == "a.tgz" else KINDS[name]())
    place = whole.rindex(bytes(range(100, 120))) if bytes(range(100, 120)) in whole else len(whole) // 2
    whole[place] ^= 1
    with pytest.raises(ValueError, match=name):
        try_to_unpack(tmp_path, name, bytes(whole))
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", [*KINDS, "a.gz"])
def test_another_file_of_that_name_is_refused(tmp_path: Path, name: str) -> None:
    for content in (b"", b"<html>not found</html>" * 50):
        with pytest.raises(ValueError, match=name):
            try_to_unpack(tmp_path, name, content, {"a": "a"})


def test_a_locked_zip_is_refused(tmp_path: Path) -> None:
    content = bytearray(zipped())
    for start in (0, content.index(b"PK\x01\x02") + 2):
        content[start + 6] |= 1
    refused(tmp_path, "a.zip", bytes(content), "encrypted|password|damaged")


def test_a_deb_packed_with_zstd_says_what_to_do(tmp_path: Path) -> None:
    refused(
        tmp_path, "a.deb", deb(b"(zstd)", "data.tar.zst"), r"has data.tar.zst, which is not read here; .*dpkg-deb -x"
    )


def test_a_suffix_that_is_not_known_lists_those_that_are(tmp_path: Path) -> None:
    refused(
        tmp_path, "a.rar", b"Rar!", r"need an archive that ends in one of \.tar\.gz \.tgz \.tar \.zip \.whl \.deb \.gz"
    )
