"""Real data: the sets of the benchmarks, and readers of the files that surveys and agencies publish.

`load` gives arrays from the folder that the environment variable ``NPVI_DATA`` names. The functions ``read_...`` turn
originals, as downloaded, into tables; ``npvi data`` in a shell does the same and says where to get them.
"""

from npvi.datasets.bbs import read_bbs
from npvi.datasets.dataset import Dataset, Split
from npvi.datasets.ebird import read_ebird
from npvi.datasets.flights import read_flights, read_nycflights13
from npvi.datasets.loading import load
from npvi.datasets.modis import read_modis
from npvi.datasets.nightlight import read_nightlight
from npvi.datasets.precipitation import read_precipitation

# for other rooms, not for users
from npvi.datasets.sources import Source as Source
from npvi.datasets.text import BrokenFileError

__all__ = [
    "BrokenFileError",
    "Dataset",
    "Split",
    "load",
    "read_bbs",
    "read_ebird",
    "read_flights",
    "read_modis",
    "read_nightlight",
    "read_nycflights13",
    "read_precipitation",
]
