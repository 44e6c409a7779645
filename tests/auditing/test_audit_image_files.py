"""Image files that are large, odd or hostile: read right within little memory, or refused in one line."""

import io
import os
import socket
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import rockafellian.auditing.features.image_files as image_files
from rockafellian.auditing.features.images import Pixels, read_image
from rockafellian.auditing.features.kinds import Images

#: What a process that imports torch and the readers takes, with room for one large image, in MB.
MAX_MEGABYTES = 1000

READS = """
import sys
from pathlib import Path
from rockafellian.auditing.features.images import Pixels
files = [Path(name) for name in sys.argv[1:]]
try:
    Pixels.fit(files)(files)
except ValueError as error:
    print(error)
status = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to tell its memory")


def peak_megabytes(files: list[Path]) -> tuple[str, float]:
    """What a new process prints that reads these files, and the most memory that it held."""
    done = subprocess.run([sys.executable, "-c", READS, *map(str, files)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    *printed, peak = done.stdout.splitlines()
    return "\n".join(printed), int(peak) / 1024


def noise(height: int, width: int, channels: int = 3) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8))


def encoded(image: Image.Image, form: str, **settings: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **settings)
    return buffer.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *extra: bytes, pixels: bytes | None = None) -> bytes:
    """A PNG in RGB with these chunks before its pixels, which are black if none are given."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    content = zlib.compress(bytes(height * (1 + 3 * width)) if pixels is None else pixels)
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def gif(canvas: tuple[int, int], frame: tuple[int, int, int, int]) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", *canvas, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return head + b"," + struct.pack("<HHHHB", *frame, 0) + b"\x02\x02\x4c\x01\x00;"


def tiff(strips: int, width: int = 16, height: int = 12, listed: int = 8) -> bytes:
    """A TIFF without pixels, whose directory says that it has this number of tags."""
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    tags += [(273, 4, strips, 8), (278, 4, 1, 1), (279, 4, strips, 8)]
    return b"II*\0" + struct.pack("<IH", 8, listed) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)


def exif(count: int) -> bytes:
    """EXIF data whose orientation is as many numbers as this."""
    return b"MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHII", 0x0112, 3, count, 26) + bytes(4 + 2 * count)


BLANK = bytes(30_000_000)
HOSTILE: dict[str, Callable[[], bytes]] = {
    "declares 60,000 x 60,000.png": lambda: png(60_000, 60_000, pixels=b""),
    "declares 12,000 x 12,000.png": lambda: png(12_000, 12_000, pixels=b""),
    "declares the largest.png": lambda: png(2**31 - 1, 2**31 - 1, pixels=b""),
    "no width.png": lambda: png(0, 5),
    "large profile.png": lambda: png(16, 12, chunk(b"iCCP", b"x\0\0" + zlib.compress(BLANK))),
    "large text.png": lambda: png(16, 12, chunk(b"zTXt", b"x\0\0" + zlib.compress(BLANK))),
    "many texts.png": lambda: png(16, 12, chunk(b"zTXt", b"x\0\0" + zlib.compress(BLANK[:1_000_000])) * 80),
    "long chunk.png": lambda: png(16, 12, struct.pack(">I", 2**31 - 1) + b"tEXt"),
    "large exif.png": lambda: png(16, 12, chunk(b"eXIf", exif(2_000_000))),
    "huge canvas.gif": lambda: gif((65_535, 65_535), (0, 0, 65_535, 65_535)),
    "frame far outside.gif": lambda: gif((2, 2), (60_000, 60_000, 5, 5)),
    "no pixels.gif": lambda: gif((0, 0), (0, 0, 0, 0)),
    "many strips.tif": lambda: tiff(5_000_000) + bytes(20_000_000),
    "many strips, one tag missing.tif": lambda: tiff(5_000_000, listed=9)[:-4],
    "too many strips.tif": lambda: tiff(2**32 - 1),
    "strips that lie elsewhere.tif": lambda: tiff(100),
    "huge.tif": lambda: tiff(1, 2**31, 2**31),
    "no directory.tif": lambda: b"II*\0" + struct.pack("<IHI", 8, 0, 8),
    "many tags.tif": lambda: b"II+\0\x08\0\0\0" + struct.pack("<QQ", 16, 2**60) + bytes(100),
    "huge.bmp": lambda: (
        b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<Iii", 40, 2**31 - 1, 2**31 - 1) + bytes(28)
    ),
    "huge.ppm": lambda: b"P6 999999999 999999999 255\n",
    "huge.webp": lambda: b"RIFF\xff\xff\xff\xffWEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff" * 6,
    **{
        f"cut.{form}": lambda form=form: (content := encoded(noise(64, 64), form))[: len(content) // 2]
        for form in ("png", "jpeg", "gif", "tiff", "webp", "bmp", "ppm")
    },
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line_with_its_name_and_without_a_warning(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name]())
    for read in (read_image, lambda file: Pixels.fit([file, file])):
        with pytest.raises(ValueError, match=rf"^need an image .* got [^\n]*{name}: [^\n]+; replace the file") as error:
            read(path)
        assert "\n" not in str(error.value)


def test_the_size_of_an_image_that_is_too_large_is_named(tmp_path: Path) -> None:
    for name, size in {"12,000 x 12,000": 12_000, "3600000000": 60_000}.items():
        (tmp_path / "large.png").write_bytes(png(size, size, pixels=b""))
        with pytest.raises(ValueError, match=rf"large\.png: .*{name} pixels"):
            read_image(tmp_path / "large.png")


def test_formats_that_take_more_memory_have_a_lower_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "MAX_BYTES", 5 * 64 * 64)
    for name, settings in {"a.png": {}, "a.jpeg": {}, "b.jpeg": {"progressive": True}, "a.webp": {}}.items():
        noise(64, 64).save(tmp_path / name, **settings)
    assert read_image(tmp_path / "a.png").size == read_image(tmp_path / "a.jpeg").size == (64, 64)
    for name, limit in {"b.jpeg": "3,413", "a.webp": "1,024"}.items():
        with pytest.raises(ValueError, match=rf"{name}: it has 64 x 64 pixels, at least 1 and at most {limit} are"):
            read_image(tmp_path / name)


def test_a_file_of_too_many_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.webp"
    path.write_bytes(b"RIFF\xff\xff\xff\x7fWEBPVP8 ")
    os.truncate(path, 10**12)
    with pytest.raises(ValueError, match=r"a\.webp: it has 1,000,000,000,000 bytes, at most 300,000,000 are read"):
        read_image(path)


def test_a_lack_of_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    noise(8, 8).save(tmp_path / "a.png")
    monkeypatch.setattr(image_files, "_reduced", fail)
    with pytest.raises(ValueError, match=r"a\.png: there is not enough memory to read it; replace"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize(
    "read", [read_image, lambda file: Pixels.fit([file]), lambda file: Images("x").checksum([file])]
)
def test_pipes_sockets_devices_and_folders_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    os.mkfifo("pipe.png")
    Path("folder.png").mkdir()
    Path("link.png").symlink_to("pipe.png")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.png")
        for name in ("pipe.png", "folder.png", "socket.png", "link.png", "/dev/zero"):
            with pytest.raises(ValueError, match=rf"need a regular file, got {name}, which is a "):
                read(Path(name))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\0b.png", r"'a\\x00b\.png'"), ("x" * 5000, r"x{150}\.\.\.x{150}"), ("a\nb.png", r"'a\\nb\.png'")],
)
def test_odd_paths_are_named_in_one_short_line(name: str, shown: str) -> None:
    for read in (read_image, lambda file: Pixels.fit([file])):
        with pytest.raises(ValueError, match=rf"got {shown}: [^\n]+; replace the file") as error:
            read(Path(name))
        assert len(str(error.value)) < 500


def test_paths_may_climb_and_be_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    noise(8, 8).save(tmp_path / "a.png")
    monkeypatch.chdir(tmp_path / "below")
    assert read_image("../a.png").size == read_image(tmp_path / "a.png").size == (8, 8)


@pytest.mark.parametrize("form", ["gif", "webp", "tiff", "png"])
def test_of_many_frames_the_first_is_read(tmp_path: Path, form: str) -> None:
    frames = [Image.new("RGB", (32, 32), color) for color in ("red", *["blue", "green"] * 100)]
    frames[0].save(tmp_path / "a", form, save_all=True, append_images=frames[1:])
    red, green, blue = np.asarray(read_image(tmp_path / "a"))[16, 16].tolist()
    assert red > 250
    assert max(green, blue) < 5


@pytest.mark.parametrize("size", [(1, 100_000), (100_000, 1), (80, 300_000)])
def test_very_long_images_are_read(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.new("L", size, 128).save(tmp_path / "a.png")
    assert max(read_image(tmp_path / "a.png", min_side=64).size) in range(64, 128)
    assert Pixels.fit([tmp_path / "a.png"]).side == 32


@pytest.mark.filterwarnings("error")
def test_a_wrong_suffix_damaged_exif_and_a_bomb_of_pixels_do_no_harm(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    jpeg = encoded(noise(8, 16), "jpeg", exif=turned)
    damaged = jpeg.index(b"Exif\0\0") + 10
    files = {
        "jpeg.png": encoded(noise(8, 16), "jpeg"),
        "exif.jpg": jpeg[:damaged] + b"\xff" * 20 + jpeg[damaged + 20 :],
        "count.jpg": jpeg.replace(struct.pack(">HHI", 0x0112, 3, 1), struct.pack(">HHI", 0x0112, 3, 2**30)),
        "bomb.png": png(16, 8, pixels=BLANK),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert read_image(tmp_path / name).size == (16, 8)


def test_warnings_of_others_are_still_shown(tmp_path: Path) -> None:
    noise(8, 8).save(tmp_path / "a.png")
    read_image(tmp_path / "a.png")
    with pytest.warns(UserWarning, match="of others"):
        warnings.warn("of others", UserWarning, stacklevel=1)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I", "F", "I;16"])
@pytest.mark.parametrize("factor", [1, 3])
def test_an_image_read_in_bands_is_the_same_as_one_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, factor: int
) -> None:
    image = noise(50, 40).convert("L" if mode == "I;16" else mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
    image.save(tmp_path / "a.tiff")
    whole = np.asarray(read_image(tmp_path / "a.tiff", min_side=50 // factor))
    monkeypatch.setattr(image_files, "BAND_PIXELS", 300)
    banded = np.asarray(read_image(tmp_path / "a.tiff", min_side=50 // factor))
    assert whole.shape[:2] == (-(-50 // factor), -(-40 // factor))
    assert (banded == whole).all()


def test_large_files_are_decoded_by_the_calling_thread_and_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{row}.png" for row in range(6)]
    for row, file in enumerate(files):
        side = 40 if row % 2 else 20
        Image.new("L", (side, side), 40 * row).save(file)
    expected = Pixels.fit(files)(files)
    monkeypatch.setattr(image_files, "MAX_BYTES_IN_THREADS", 4 * 30 * 30)
    assert [image_files.takes_much_memory(file) for file in files] == [False, True] * 3
    assert (Pixels.fit(files)(files) == expected).all()


@needs_proc
def test_peak_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    noise(2500, 2667).save(tmp_path / "0.bmp")  # 20 MB
    files = [tmp_path / f"{row}.bmp" for row in range(16)]
    for file in files[1:]:
        os.link(files[0], file)
    (printed, few), (_, many) = peak_megabytes(files[:4]), peak_megabytes(files)
    assert printed == ""
    assert many < few + 60
    assert many < MAX_MEGABYTES


@needs_proc
def test_very_large_images_are_read_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(png(9_400, 9_400))
    for row in range(1, 2):
        os.link(tmp_path / "0.png", tmp_path / f"{row}.png")
    printed, peak = peak_megabytes(sorted(tmp_path.iterdir()))
    assert printed == ""
    assert peak < MAX_MEGABYTES


def test_the_checksum_of_files_depends_on_names_order_and_bytes_but_not_on_their_folder(tmp_path: Path) -> None:
    kind, content = Images("file"), {"a": b"one" * 700_000, "b": b"two" * 700_000}
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        for name, data in content.items():
            (tmp_path / folder / name).write_bytes(data)
    files = [tmp_path / "here" / name for name in content]
    expected = kind.checksum(files)
    assert kind.checksum([tmp_path / "there" / name for name in content]) == expected
    assert kind.checksum(files[::-1]) != expected
    files[0].write_bytes(content["a"][:-1] + b"E")  # of equal size
    assert kind.checksum(files) != expected
    files[0].write_bytes(content["b"])
    files[1].write_bytes(content["a"])  # swapped
    assert kind.checksum(files) != expected
    files[0].rename(files[0].with_name("c"))
    assert kind.checksum([tmp_path / "there" / "a", files[1]]) != kind.checksum([tmp_path / "here" / "c", files[1]])


def test_the_checksum_of_an_array_depends_on_values_type_and_shape() -> None:
    kind, array = Images(None), np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    changed = array.copy()
    changed[1, 2, 3] += 1
    arrays = [array, changed, array[::-1], array.astype(np.int8), array.reshape(3, 2, 8), array[:2]]
    assert len({kind.checksum(each) for each in arrays}) == len(arrays)
    assert kind.checksum(np.asfortranarray(array)) == kind.checksum(array)
