"""A small data folder in the layout that `npvi.datasets.load` reads, and a command that is tiny."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from npvi.datasets.loading import TABLES

#: the command line with `--quick` of the size of tests
TINY_COMMAND = [
    sys.executable,
    "-c",
    "import npvi.paper.experiments.plan as plan; plan.QUICK = plan.TINY; from npvi.cli import main; main()",
]


def write_tables(folder: Path, *names: str) -> Path:
    """Tables of 160 rows: a smooth surface over the US, seen with some noise."""
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(-120.0, -110.0, 160), rng.uniform(35.0, 42.0, 160)
    level = np.exp(1.0 + np.sin(lon / 2.0) * np.cos(lat / 2.0) + 0.1 * rng.standard_normal(160))
    columns = {
        "bird_counts": {"savannah_sparrow": rng.poisson(level)},
        "nightlight": {"grey": np.clip(10.0 * level, 1.0, 255.0)},
        "precipitation": {"prcp_may": level},
    }
    for name in names:
        path = folder / TABLES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({"lon": lon, "lat": lat, **columns[name]}).to_parquet(path)
    return folder
