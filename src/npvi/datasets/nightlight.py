"""An image of lights at night, as a table of brightness on a coarser grid."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from npvi.checks import check_path
from npvi.datasets.text import PathLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_nightlight"]

Box = tuple[float, float, float, float]

_WORLD: Box = (-180.0, 90.0, 180.0, -90.0)
#: as many pixels as the paper's, and square ones
_SHAPE = (158, 359)
_US: Box = (-125.0, 49.75, -66.5, 49.75 - 58.5 * 158 / 359)


def read_nightlight(
    image: PathLike, *, corners: Box = _WORLD, box: Box = _US, shape: tuple[int, int] = _SHAPE
) -> pd.DataFrame:
    """Brightness of the pixels of an image with straight meridians and parallels, averaged over larger cells.

    Colours become grey (ITU-R 601). A cell's brightness is the mean of the pixels whose centres are in it.

    Parameters
    ----------
    image : path
        PNG, JPEG or TIFF with 8 bits per colour, such as NASA's ``BlackMarble_2016_01deg.jpg``.
    corners : (west, north, east, south)
        The edges of the image in degrees; the whole world unless given.
    box : (west, north, east, south)
        The part wanted; the contiguous US unless given.
    shape : (rows, columns)
        Cells in that part; 158 × 359 unless given, the paper's 56,722 pixels.

    Returns
    -------
    pandas.DataFrame
        row and col (row 0 is north), lon and lat of the centre, grey from 0 to 255, and light, max(grey, 1) / 255,
        which a log-normal likelihood can take.

    Examples
    --------
    >>> import tempfile
    >>> import matplotlib.pyplot as plt
    >>> path = Path(tempfile.mkdtemp()) / "lights.png"
    >>> plt.imsave(path, np.linspace(0, 1, 4 * 8).reshape(4, 8), cmap="gray")
    >>> table = read_nightlight(path, box=(-180, 90, 180, -90), shape=(2, 2))
    >>> table[["lon", "lat", "grey"]].to_numpy().tolist()
    [[-90.0, 45.0, 44.5], [90.0, 45.0, 77.5], [-90.0, -45.0, 176.75], [90.0, -45.0, 210.0]]
    """
    import pandas as pd

    for name, edges in (("corners", corners), ("box", box)):
        if not (edges[0] < edges[2] and edges[3] < edges[1]):
            raise ValueError(f"{name} must be west, north, east, south with west < east and south < north, got {edges}")
    if min(shape) < 1:
        raise ValueError(f"shape must be two positive numbers, rows and columns, got {shape}")
    check_path(image, "image")
    grey = _read_grey(Path(image))
    height, width = grey.shape
    # counted downwards, latitudes grow as longitudes do to the right
    rows = _cells((-corners[1], -corners[3]), height, (-box[1], -box[3]), shape[0])
    columns = _cells((corners[0], corners[2]), width, (box[0], box[2]), shape[1])
    means = _averages(_averages(grey, rows).T, columns).T
    down, right = (box[1] - box[3]) / shape[0], (box[2] - box[0]) / shape[1]
    row, column = (index.ravel() for index in np.indices(shape))
    return pd.DataFrame(
        {
            "row": row,
            "col": column,
            "lon": box[0] + (column + 0.5) * right,
            "lat": box[1] - (row + 0.5) * down,
            "grey": means.ravel(),
            "light": np.maximum(means.ravel(), 1.0) / 255.0,
        }
    )


def _read_grey(path: Path) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as picture:
                if picture.mode not in ("L", "P", "RGB", "RGBA", "CMYK", "YCbCr"):
                    raise ValueError(
                        f"{path} is an image of kind {picture.mode!r}; expected colours or grey with 8 bits"
                    )
                return np.asarray(picture.convert("RGB").convert("L"))
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise ValueError(
            f"{path} has too many pixels to hold; take a smaller version, such as NASA's with 3600 x 1800"
        ) from None
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except UnidentifiedImageError:
        raise ValueError(f"{path} is not an image; expected PNG, JPEG or TIFF") from None
    except OSError as error:
        raise ValueError(f"{path} is not a whole image ({error}); download it again") from error


def _cells(edges: tuple[float, float], pixels: int, wanted: tuple[float, float], n: int) -> NDArray[np.intp]:
    """Where each cell's pixels begin along one side of the image, and where the last one's end."""
    (low, high), (first, last) = edges, wanted
    size = (high - low) / pixels
    if first < low - size / 2 or last > high + size / 2:
        raise ValueError(
            f"box must be within the corners of the image, got {first:g} to {last:g} of {low:g} to {high:g}"
        )
    centres = low + (np.arange(pixels) + 0.5) * size
    starts = np.searchsorted(centres, first + np.arange(n + 1) * (last - first) / n)
    if np.any(np.diff(starts) == 0):
        raise ValueError(
            f"shape asks for {n} cells where the image has {starts[-1] - starts[0]} pixels, so that some get none; "
            "ask for fewer"
        )
    return starts


def _averages(values: NDArray, starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Means of groups of rows."""
    sums = np.add.reduceat(values[: starts[-1]].astype(np.float64), starts[:-1])
    return sums / np.diff(starts)[:, None]
