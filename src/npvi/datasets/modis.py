"""The land surface temperatures of Heaton et al. (2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npvi.datasets.text import Delimited, PathLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_modis"]

_NAMES = ("Lon", "Lat", "MaskTemp", "TrueTemp")


def read_modis(table: PathLike) -> pd.DataFrame:
    """Temperatures of the competition, with the cells that it trained on.

    Parameters
    ----------
    table : path
        The data frame ``all.sat.temps`` of ``AllSatelliteTemps.RData`` as CSV, written by R's ``write.csv``.

    Returns
    -------
    pandas.DataFrame
        lon, lat, temp_c (degrees Celsius) and is_train, for every cell with a temperature.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "AllSatelliteTemps.csv"
    >>> _ = path.write_text('"Lon","Lat","MaskTemp","TrueTemp"\\n-95.9,37.1,NA,42.4\\n-95.8,37.1,41.8,41.8\\n')
    >>> read_modis(path)["is_train"].tolist()
    [False, True]
    """
    import pandas as pd

    lines = Delimited(table, _NAMES)
    rows = []
    for lon, lat, masked, true in lines:
        if true != "NA":
            if masked != "NA":
                lines.number("MaskTemp", masked)
            place = lines.number("Lon", lon, -180, 180), lines.number("Lat", lat, -90, 90)
            rows.append((*place, lines.number("TrueTemp", true), masked != "NA"))
    return pd.DataFrame(rows, columns=["lon", "lat", "temp_c", "is_train"])
