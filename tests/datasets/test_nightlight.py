"""Images of lights at night."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from npvi.datasets import read_nightlight


@pytest.fixture
def world(tmp_path):
    """A map of the world, a pixel per degree, in colours."""
    colours = np.random.default_rng(0).integers(0, 256, (180, 360, 3), dtype=np.uint8)
    Image.fromarray(colours).save(tmp_path / "world.png")
    return tmp_path / "world.png", colours


def test_cells_are_means_of_their_pixels(world):
    path, colours = world
    west, north, _, _ = box = (-125.0, 50.0, -66.0, 24.0)
    table = read_nightlight(path, box=box, shape=(10, 23))
    assert len(table) == 230
    luma = colours @ [0.299, 0.587, 0.114]
    down, right = 26 / 10, 59 / 23
    for row in range(10):
        for column in range(23):
            inside = [
                luma[y, x]
                for y in range(180)
                for x in range(360)
                if north - down * (row + 1) < 89.5 - y <= north - down * row
                and west + right * column <= x - 179.5 < west + right * (column + 1)
            ]
            cell = table.iloc[row * 23 + column]
            assert (cell["row"], cell["col"]) == (row, column)
            assert cell["lat"] == pytest.approx(north - down * (row + 0.5))
            assert cell["lon"] == pytest.approx(west + right * (column + 0.5))
            # whole numbers of grey, rounded pixel by pixel
            assert cell["grey"] == pytest.approx(np.mean(inside), abs=0.51)
    np.testing.assert_allclose(table["light"], np.maximum(table["grey"], 1) / 255)


def test_the_paper_s_pixels(tmp_path):
    # brightness is 150 plus the longitude
    ramp = np.broadcast_to((np.arange(3600) // 10 - 30).clip(0, 255).astype(np.uint8), (1800, 3600))
    Image.fromarray(ramp).save(tmp_path / "ramp.tif")
    table = read_nightlight(tmp_path / "ramp.tif")
    assert len(table) == 56_722
    assert (table["row"].max(), table["col"].max()) == (157, 358)
    # where NASA's image was cut for the published comparison
    assert table["lon"][0] == pytest.approx(-124.918526, abs=1e-5)
    assert table["lat"][0] == pytest.approx(49.668522, abs=1e-5)
    assert table["lon"].iloc[-1] == pytest.approx(-66.581474, abs=1e-5)
    assert table["lat"].iloc[-1] == pytest.approx(24.084959, abs=1e-5)
    np.testing.assert_allclose(table["grey"], 150 + np.floor(table["lon"]), atol=1.0)


def test_kinds_of_images(tmp_path):
    grey = np.arange(32, dtype=np.uint8).reshape(4, 8) * 8
    box = {"box": (-180.0, 90.0, 180.0, -90.0), "shape": (4, 8)}
    for image in (Image.fromarray(grey), Image.fromarray(grey).convert("RGB"), Image.fromarray(grey).convert("RGBA")):
        image.save(tmp_path / "image.png")
        np.testing.assert_array_equal(read_nightlight(tmp_path / "image.png", **box)["grey"], grey.ravel())
    Image.fromarray(grey.astype(np.int32)).save(tmp_path / "deep.tif")
    with pytest.raises(ValueError, match=r"deep\.tif is an image of kind 'I'; expected colours or grey with 8 bits"):
        read_nightlight(tmp_path / "deep.tif", **box)


def test_corners(tmp_path):
    Image.fromarray(np.array([[10, 20], [30, 40]], dtype=np.uint8)).save(tmp_path / "part.png")
    table = read_nightlight(tmp_path / "part.png", corners=(0, 2, 2, 0), box=(1, 2, 2, 0), shape=(2, 1))
    assert table[["lon", "lat", "grey"]].to_numpy().tolist() == [[1.5, 1.5, 20], [1.5, 0.5, 40]]
    with pytest.raises(ValueError, match=r"box must be within the corners of the image, got -125 to -66.5 of 0 to 2"):
        read_nightlight(tmp_path / "part.png", corners=(0, 90, 2, -90), shape=(1, 1))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"box": (10, 50, 5, 40)}, r"box must be west, north, east, south with west < east .*, got \(10, 50, 5, 40\)"),
        ({"corners": (-180, -90, 180, 90)}, r"corners must be west, north, east, south"),
        ({"shape": (0, 5)}, r"shape must be two positive numbers, rows and columns, got \(0, 5\)"),
        ({"shape": (158, 359)}, r"shape asks for \d+ cells where the image has \d+ pixels, .*ask for fewer"),
    ],
)
def test_wrong_arguments(world, options, what):
    with pytest.raises(ValueError, match=what):
        read_nightlight(world[0], **options)


def test_what_is_no_path_is_called_by_name():
    with pytest.raises(TypeError, match="image must be text or a path, got 0"):
        read_nightlight(0)


def test_broken_images(world, tmp_path, monkeypatch):
    path, _ = world
    (tmp_path / "cut.png").write_bytes(path.read_bytes()[:10_000])
    with pytest.raises(ValueError, match=r"cut\.png is not a whole image"):
        read_nightlight(tmp_path / "cut.png")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(ValueError, match=r"text\.png is not an image; expected PNG, JPEG or TIFF"):
        read_nightlight(tmp_path / "text.png")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.png"):
        read_nightlight(tmp_path / "none.png")
    for limit in (50_000, 20_000):  # Pillow warns, and from twice the limit on refuses
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"world\.png has too many pixels to hold; take a smaller version"):
            read_nightlight(path)
