"""Maps as files: images of numbers, arrays, tables, pictures."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from npvi.checks import check_path
from npvi.maps.frames import is_geo_frame
from npvi.runtime.extras import needed
from npvi.runtime.files import UnwritableError, check_writable, replacing

__all__ = ["FORMATS", "write_map"]


def write_map(found: Any, path: Any, **picture: Any) -> None:
    """Write what `predict_grid` or `predict_polygons` returns to a file that is whole or not there.

    Parameters
    ----------
    found : Dataset of a grid, or GeoDataFrame of polygons.
    path : its suffix says what becomes of it. Grids: .tif (a cloud-optimised GeoTIFF, a band per variable), .nc, .zarr
        (a folder), .parquet or .csv (a row per cell that has values); polygons: .geojson, .gpkg, .parquet, .csv; both:
        .png, a picture.
    **picture : for `npvi.plot.map`.
    """
    check_path(path)
    if not (hasattr(found, "data_vars") or is_geo_frame(found)):
        raise ValueError(f"found must be what predict_grid or predict_polygons returns, got {type(found).__name__}")
    path = Path(path)
    kind = path.suffix.lower()
    formats = _OF_GRIDS if hasattr(found, "data_vars") else _OF_POLYGONS
    if kind not in formats:
        raise ValueError(f"path: {path.name!r} must end in one of {', '.join(formats)}")
    if kind == ".zarr":
        _to_zarr(found, path)
        return
    check_writable(path)
    with tempfile.TemporaryDirectory(prefix="npvi-") as folder:
        made = Path(folder) / f"map{kind}"
        _check_room(found, path, Path(folder).parent)
        try:
            formats[kind](found, made, **(picture if kind == ".png" else {}))
        except OSError as error:
            raise UnwritableError(path, error) from error
        with replacing(path) as file, open(made, "rb") as source:
            while block := source.read(2**24):
                file.write(block)


def _check_room(found: Any, path: Path, folder: Path) -> None:
    """Raise where a grid may not fit into the folder that it is written in first: GDAL and HDF5 don't end well there,
    and writers of Zarr go on after one of them has failed, so that nobody can tidy up behind them."""
    if not hasattr(found, "data_vars"):
        return
    free = shutil.disk_usage(folder).free
    if found.nbytes > free:
        words = (
            f"the map has up to {found.nbytes / 1e6:,.1f} MB, and {free / 1e6:,.1f} MB are free in the folder {folder}"
        )
        raise UnwritableError(path, OSError(words))


def _to_tif(found: Any, path: Path) -> None:
    needed("rioxarray", "geo", "GeoTIFF files")
    y, x = next(iter(found.data_vars.values())).dims
    bands = found.to_array("band").astype(np.float64).rio.set_spatial_dims(x_dim=x, y_dim=y)
    if found.rio.crs is not None:
        bands = bands.rio.write_crs(found.rio.crs)
    bands.attrs = {"long_name": tuple(str(name) for name in found.data_vars)}
    bands.rio.write_nodata(np.nan).rio.to_raster(path, driver="COG", compress="DEFLATE")


def _to_netcdf(found: Any, path: Path) -> None:
    needed("h5netcdf", "geo", "NetCDF files")
    encoding = {name: {**variable.encoding, "zlib": True} for name, variable in found.data_vars.items()}
    found.to_netcdf(path, engine="h5netcdf", encoding=encoding)


def _to_zarr(found: Any, path: Path) -> None:
    needed("zarr", "geo", "Zarr stores")
    if path.exists():
        raise UnwritableError(path, FileExistsError(17, "there is one already, and a folder isn't replaced"))
    check_writable(path)
    _check_room(found, path, path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.npvi-tmp")
    try:
        found.to_zarr(temporary, mode="w", zarr_format=2, consolidated=True)  # which every reader of today knows
        os.replace(temporary, path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UnwritableError(path, error) from error


def _table(found: Any) -> Any:
    """A row per cell that has values."""
    wanted = [name for name, variable in found.data_vars.items() if variable.ndim == 2]
    return found[wanted].drop_vars("spatial_ref", errors="ignore").to_dataframe().dropna(how="all").reset_index()


def _to_png(found: Any, path: Path, **picture: Any) -> None:
    from matplotlib.figure import Figure

    from npvi.maps.drawing import figure_size
    from npvi.maps.drawing import map as plot_map

    figure = Figure(figsize=figure_size(found), layout="compressed")  # of no window, which nobody would close
    plot_map(found, ax=figure.add_subplot(), **picture)
    figure.savefig(path, dpi=150, bbox_inches="tight")


_OF_GRIDS: dict[str, Callable[..., None]] = {
    ".tif": _to_tif,
    ".tiff": _to_tif,
    ".nc": _to_netcdf,
    ".zarr": _to_zarr,
    ".parquet": lambda found, path: _table(found).to_parquet(path, index=False),
    ".csv": lambda found, path: _table(found).to_csv(path, index=False, float_format="%.8g"),
    ".png": _to_png,
}
_OF_POLYGONS: dict[str, Callable[..., None]] = {
    ".geojson": lambda found, path: found.to_crs("EPSG:4326").to_file(path, driver="GeoJSON"),
    ".gpkg": lambda found, path: found.to_file(path, driver="GPKG"),
    ".parquet": lambda found, path: found.to_parquet(path),
    ".csv": lambda found, path: found.drop(columns=found.geometry.name).to_csv(path, index=False, float_format="%.8g"),
    ".png": _to_png,
}
FORMATS = {"grid": tuple(_OF_GRIDS), "polygons": tuple(_OF_POLYGONS)}
"""Suffixes of the files that maps are written to."""
