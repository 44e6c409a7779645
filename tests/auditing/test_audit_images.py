import base64
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, PngImagePlugin

from rockafellian.auditing.features.images import (
    EfficientNet,
    Pixels,
    efficientnet_installed,
    median_side,
    read_image,
    thumbnail,
)
from rockafellian.training.checkpoints import load, save


def gradient(height: int = 12, width: int = 16) -> np.ndarray:
    """Red grows to the right, green downwards."""
    image = np.zeros((height, width, 3), np.uint8)
    image[:, :, 0] = np.linspace(0, 255, width)
    image[:, :, 1] = np.linspace(0, 255, height)[:, None]
    return image


def written(path: Path, image: np.ndarray | Image.Image, **settings: object) -> Path:
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **settings)
    return path


def opened(uri: str) -> tuple[str, bytes, Image.Image]:
    head, data = uri.split(",")
    content = base64.b64decode(data)
    return head, content, Image.open(io.BytesIO(content))


@pytest.mark.parametrize("form", ["png", "jpg", "gif", "bmp", "webp", "tif", "ppm"])
def test_the_formats_people_have_are_read(tmp_path: Path, form: str) -> None:
    image = read_image(written(tmp_path / f"a.{form}", gradient()))
    assert image.mode == "RGB"
    assert np.abs(np.asarray(image).astype(int) - gradient()).mean() < 25


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("1", "L"), ("L", "L"), ("P", "RGB"), ("CMYK", "RGB"), ("YCbCr", "RGB"), ("RGBA", "RGB"), ("LA", "RGB")],
)
def test_every_mode_comes_as_gray_or_rgb(tmp_path: Path, mode: str, expected: str) -> None:
    image = read_image(written(tmp_path / "a.tif", Image.fromarray(gradient()).convert(mode)))
    assert image.mode == expected
    assert np.asarray(image).std() > 20


def test_sixteen_bits_are_cut_to_eight(tmp_path: Path) -> None:
    deep = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    image = read_image(written(tmp_path / "a.png", deep))
    assert image.mode == "L"
    assert np.abs(np.asarray(image) - deep / 257).max() <= 1


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    rgba = np.zeros((8, 8, 4), np.uint8)
    rgba[:, :4, 3] = 255
    image = np.asarray(read_image(written(tmp_path / "a.png", rgba)))
    assert image[:, :4].max() == 0
    assert image[:, 4:].min() == 255
    palette = Image.fromarray(gradient()).convert("P")
    corner = palette.getpixel((0, 0))
    image = np.asarray(read_image(written(tmp_path / "b.gif", palette, transparency=corner)))
    assert image[0, 0].tolist() == [255, 255, 255]


def test_images_are_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image = read_image(written(tmp_path / "a.png", gradient(), exif=exif))
    assert image.size == (12, 16)
    assert (np.asarray(image) == np.rot90(gradient(), -1)).all()


def test_of_an_animation_the_first_frame_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert np.asarray(read_image(tmp_path / "a.gif"))[0, 0].tolist() == [255, 0, 0]


def broken(folder: Path) -> dict[str, Path]:
    whole = written(folder / "whole.png", gradient(64, 64)).read_bytes()
    paths = {name: folder / f"{name}.png" for name in ("cut", "text", "empty", "gone", "postscript")}
    paths["cut"].write_bytes(whole[: len(whole) // 2])
    paths["text"].write_text("not an image")
    paths["empty"].touch()
    paths["postscript"].write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EOF\n")
    return paths


@pytest.mark.parametrize("name", ["cut", "text", "empty", "gone", "postscript"])
def test_a_file_that_is_no_whole_image_is_named(tmp_path: Path, name: str) -> None:
    path = broken(tmp_path)[name]
    with pytest.raises(
        ValueError, match=rf"^need an image .* got .*{name}\.png: [^\n]*; replace the file or leave it out$"
    ):
        read_image(path)


def test_an_image_of_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.png", gradient())
    for limit in (100, 50):  # what Pillow warns of, and what it refuses
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"need an image .* got .*a\.png"):
            read_image(path)


def test_small_images_are_shown_as_they_are_and_large_ones_small(tmp_path: Path) -> None:
    head, _, image = opened(thumbnail(Image.fromarray(gradient())))
    assert head == "data:image/png;base64"
    assert (np.asarray(image) == gradient()).all()
    head, content, image = opened(thumbnail(Image.fromarray(gradient(300, 600))))
    assert head == "data:image/jpeg;base64"
    assert image.size == (96, 48)
    assert len(content) < 5000


@pytest.mark.parametrize("size", [(12, 16), (300, 600)])
@pytest.mark.parametrize("form", ["png", "jpg"])
def test_thumbnails_have_no_metadata(tmp_path: Path, size: tuple[int, int], form: str) -> None:
    exif, comments = Image.Exif(), PngImagePlugin.PngInfo()
    exif[0x010E] = "SECRET"
    comments.add_text("Comment", "SECRET")
    settings = {"exif": exif, "icc_profile": b"SECRET" * 40, "comment": b"SECRET"}
    path = written(
        tmp_path / f"a.{form}", gradient(*size), **settings, **({"pnginfo": comments} if form == "png" else {})
    )
    assert b"SECRET" in path.read_bytes()
    _, content, image = opened(thumbnail(read_image(path)))
    assert b"SECRET" not in content
    assert not {"exif", "icc_profile", "comment", "Comment"} & set(image.info)


def test_pixels_are_standardized_in_gray_if_all_images_are(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (20, 10, 10), dtype=np.uint8)
    paths = [written(tmp_path / f"{row}.png", np.stack([image] * 3, 2)) for row, image in enumerate(images)]
    pixels = Pixels.fit(paths)
    assert pixels.describe() == "10 x 10 pixels in gray"
    inputs = pixels(paths)
    assert inputs.shape == (20, 1, 10, 10)
    torch.testing.assert_close(torch.std_mean(inputs, correction=0), (torch.tensor(1.0), torch.tensor(0.0)))
    torch.testing.assert_close(inputs, Pixels.fit(images)(images))


def test_one_colored_image_makes_all_rgb(tmp_path: Path) -> None:
    gray = [written(tmp_path / f"{row}.png", gradient()[:, :, 0]) for row in range(3)]
    pixels = Pixels.fit([*gray, written(tmp_path / "c.png", gradient())])
    assert pixels.describe() == "16 x 16 pixels in RGB"
    inputs = pixels(gray)
    assert inputs.shape == (3, 3, 16, 16)
    assert inputs.dtype == torch.float32


@pytest.mark.parametrize(("side", "expected"), [(5, 8), (28, 28), (32, 32), (200, 32)])
def test_the_side_is_that_of_the_images_within_limits(tmp_path: Path, side: int, expected: int) -> None:
    paths = [written(tmp_path / f"{row}.png", gradient(side, side)) for row in range(3)]
    assert median_side(paths) == side
    assert Pixels.fit(paths).side == expected


@pytest.mark.parametrize("as_array", [False, True])
def test_images_keep_their_proportions_and_lie_in_the_middle(tmp_path: Path, as_array: bool) -> None:
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 40:] = 255
    content = image[None] if as_array else [written(tmp_path / "a.png", image)]
    inputs = Pixels.fit(content)(content)[0]
    assert inputs.shape == (1, 32, 32)
    assert inputs[:, :8].count_nonzero() == inputs[:, 24:].count_nonzero() == 0
    assert inputs[0, 8:24, :15].max() < 0 < inputs[0, 8:24, 17:].min()


def test_arrays_may_have_their_channels_anywhere() -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 9, 9, 3), dtype=np.uint8)
    pixels = Pixels.fit(images)
    expected = pixels(images)
    assert expected.shape == (6, 3, 9, 9)
    assert torch.equal(pixels(np.moveaxis(images, -1, 1)), expected)
    torch.testing.assert_close(pixels((images / 255).astype(np.float32)), expected)
    alpha = np.concatenate([images, np.full((6, 9, 9, 1), 7, np.uint8)], 3)
    assert torch.equal(pixels(alpha), expected)


def test_gray_and_colored_arrays_serve_for_each_other() -> None:
    gray = np.random.default_rng(0).integers(0, 256, (6, 9, 9), dtype=np.uint8)
    colored = np.stack([gray] * 3, -1)
    torch.testing.assert_close(Pixels.fit(gray)(colored), Pixels.fit(gray)(gray))
    red = colored.copy()
    red[0, 0, 0] = (255, 0, 0)
    torch.testing.assert_close(Pixels.fit(red)(gray), Pixels.fit(red)(colored))


@pytest.mark.parametrize(
    "images", [np.zeros((2, 9, 9, 2)), np.zeros((2, 9)), np.zeros((2, 9, 9), complex), np.full((2, 9, 9), np.nan)]
)
def test_arrays_that_are_no_images_are_refused(images: np.ndarray) -> None:
    with pytest.raises(ValueError, match="need images of"):
        Pixels.fit(images)


def test_images_of_any_range_can_be_looked_at() -> None:
    digits = np.arange(64.0).reshape(8, 8) / 4
    image = read_image(digits)
    assert image.mode == "L"
    assert np.asarray(image).min() == 0
    assert np.asarray(image).max() == 255
    assert (np.asarray(read_image(gradient())) == gradient()).all()


def test_progress_is_reported(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    images = np.random.default_rng(0).random((150, 8, 8))
    Pixels.fit(images)(images, progress=lambda done, total: told.append((done, total)))
    assert told == [(64, 150), (128, 150), (150, 150)]


def test_a_broken_file_among_many_is_named(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{row}.png", gradient()) for row in range(5)]
    pixels = Pixels.fit(paths)
    paths[3].write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"got .*3\.png"):
        pixels(paths)


def test_no_images_teach_nothing_and_give_no_inputs() -> None:
    with pytest.raises(ValueError, match="need one image or more, got none"):
        Pixels.fit([])
    assert Pixels(8, (0.5,), (0.1,))([]).shape == (0, 1, 8, 8)


def test_pixels_come_back_from_a_checkpoint(tmp_path: Path) -> None:
    pixels = Pixels.fit(gradient()[None])
    save(tmp_path / "state", pixels.state)
    assert Pixels.from_state(load(tmp_path / "state")) == pixels


@pytest.mark.skipif(not efficientnet_installed(), reason="needs the packages of EfficientNet-Lite0")
def test_efficientnet_gives_a_vector_for_each_image(tmp_path: Path) -> None:
    paths = [written(tmp_path / "a.png", gradient(40, 60)), written(tmp_path / "b.png", 255 - gradient(40, 60))]
    encoder = EfficientNet(side=64)
    vectors = encoder(paths)
    assert vectors.shape == (2, 1280)
    assert not vectors.requires_grad
    assert not torch.allclose(vectors[0], vectors[1], atol=0.1)
    torch.testing.assert_close(
        encoder([np.asarray(Image.open(path)) for path in paths[1:]])[0], vectors[1], atol=0.3, rtol=0
    )
    assert EfficientNet.from_state(encoder.state) == encoder
