"""npvi predict without a table: onto a grid, the cells of a raster, or polygons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npvi.cli.display import say, watching
from npvi.cli.errors import InputError
from npvi.cli.models import columns_of_fit
from npvi.cli.tables import check_output

__all__ = ["Mapping", "covariates_of", "map_model", "numbers_of", "raster_of"]


_WORDS = {"grid": "maps", "polygons": "totals of polygons"}


@dataclass(frozen=True)
class Mapping:
    """What was asked for besides the model and the file to write.

    Attributes
    ----------
    grid : size of a cell.
    bbox : "left,bottom,right,top".
    like : raster whose cells are taken.
    polygons : file of them; `total` for sums over each, else they are where the map is.
    covariates : raster with bands by the names of inputs; `at` has one number for an input, "name=number".
    crs : of the model's inputs, where it doesn't know.
    """

    grid: float | None
    bbox: str | None
    like: Path | None
    polygons: Path | None
    total: bool
    covariates: Path | None
    at: list[str]
    crs: str | None

    @property
    def wanted(self) -> bool:
        """Whether a map was asked for."""
        return any(value not in (None, False, []) for value in vars(self).values())


def numbers_of(text: str | None, option: str, count: int | None = None) -> list[float]:
    """Numbers with commas between them.

    >>> numbers_of("5,10", "--exceed")
    [5.0, 10.0]
    """
    if text is None:
        return []
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers with commas between them, got {text!r}") from None
    if count is not None and len(found) != count:
        raise InputError(f"{option} must be {count} numbers, got {len(found)}: {text!r}")
    return found


def map_model(
    path: Path, output: Path, what: Mapping, interval: float, exceed: list[float], row: dict[str, str | None]
) -> None:
    """Write the map to `output`.

    Parameters
    ----------
    interval : its ends are the quantiles that are mapped.
    row : `exposure` and the like, a number each.
    """
    from npvi.io import load
    from npvi.maps import FORMATS, predict_grid, predict_polygons, write_map

    kind = "polygons" if what.total else "grid"
    if output.suffix.lower() not in FORMATS[kind]:
        raise InputError(f"--output: {_WORDS[kind]} are written to {', '.join(FORMATS[kind])}, got {output}")
    check_output(output, table=False, inputs=[one for one in (path, what.like, what.polygons) if one is not None])
    if what.total and what.polygons is None:
        raise InputError("--total is for polygons: give --polygons FILE")
    if what.like is not None and (what.grid is not None or what.bbox is not None):
        raise InputError("--like says where cells are: leave out --grid and --bbox")
    model = load(path)
    settings: dict[str, Any] = {"crs": what.crs, "covariates": covariates_of(what), **_row(row)}
    polygons = None if what.polygons is None else _polygons(what.polygons)
    cells = what.grid if what.like is None else raster_of(what.like)
    with watching():
        if what.total:
            found = predict_polygons(model, polygons, cells, interval, **settings)
        else:
            ends = [0.5 * (1.0 - interval), 0.5 * (1.0 + interval)]
            box = None if what.bbox is None else numbers_of(what.bbox, "--bbox", 4)
            found = predict_grid(model, cells, ends, exceed, bbox=box, mask=polygons, **settings)
        write_map(found, output, title=_title(found, columns_of_fit(path).get("target")))
    if what.total:
        say(f"{len(found):,} polygons: {output}")
    else:
        across, down = (found.sizes[dim] for dim in reversed(found["mean" if "mean" in found else "label"].dims))
        say(f"{across:,} × {down:,} cells: {output}")


def _row(row: dict[str, str | None]) -> dict[str, float]:
    """Data per row, one number each."""
    found = {}
    for name, text in row.items():
        if text is not None:
            found[name] = numbers_of(text, f"--{name.replace('_', '-')} of a map", 1)[0]
    return found


def covariates_of(what: Mapping) -> dict[str, Any] | None:
    """Inputs that are no places: bands of a raster, and single numbers or labels."""
    found: dict[str, Any] = {}
    if what.covariates is not None:
        from npvi.maps import bands_of

        found |= bands_of(raster_of(what.covariates))
    for text in what.at:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--at must be NAME=VALUE, got {text!r}")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = value
    return found or None


def raster_of(path: Path) -> Any:
    """A raster from a file."""
    from npvi.runtime.extras import needed

    if not path.exists():
        raise InputError(f"there is no file {path}")
    xarray = needed("xarray", "geo", "rasters")
    rioxarray = needed("rioxarray", "geo", "rasters")
    try:
        if path.suffix.lower() in (".nc", ".nc4", ".zarr"):
            return xarray.open_dataset(path, engine="zarr" if path.suffix.lower() == ".zarr" else "h5netcdf")
        return rioxarray.open_rasterio(path, masked=True)
    except Exception as error:  # of GDAL, HDF5 and others
        raise InputError(f"cannot read {path} as a raster: {error}") from error


def _polygons(path: Path) -> Any:
    from npvi.runtime.extras import needed

    if not path.exists():
        raise InputError(f"there is no file {path}")
    geopandas = needed("geopandas", "geo", "polygons")
    try:
        return geopandas.read_parquet(path) if path.suffix.lower() == ".parquet" else geopandas.read_file(path)
    except Exception as error:  # of GDAL, GEOS and pyarrow
        raise InputError(f"cannot read {path} as polygons: {error}") from error


def _title(found: Any, target: str | None) -> str | None:
    """What a picture of a grid says above it: the target's own name, where that is what is shown."""
    if target is None or not hasattr(found, "data_vars") or "label" in found:
        return None
    per = found.attrs.get("per")
    return f"mean of {target}" + ("" if per is None else f", {per}")
