"""What the paper published, as data."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LENGTH_SCALES", "ORDER_DEVIATION", "Published", "published"]


class Published(NamedTuple):
    """A number of the paper's tables.

    >>> published("bird_counts", "svgp", 200)
    Published(nlpd=2.29, error=0.1, seconds=691.0)
    """

    nlpd: float
    """Negative log density per test row, lower is better."""
    error: float
    """What follows the ±."""
    seconds: float
    """Of training."""


def published(data: str, method: str, size: int) -> Published | None:
    """The paper's number beside ours, or None where it has none.

    Its NPVI-NN is what "gcn" does, and stands beside "npvi-nn" too.

    >>> published("flights", "npvi", 10) is None
    True
    >>> published("bird_counts", "gcn", 10) == published("bird_counts", "npvi-nn", 10)
    True
    """
    by_size = _TABLES[data].get("npvi-nn" if method == "gcn" else method, {})
    return Published(*by_size[size]) if size in by_size else None


#: NLPD, ±, seconds for each data set, method and M or K
_TABLES: dict[str, dict[str, dict[int, tuple[float, float, float]]]] = {
    "bird_counts": {
        "svgp": {200: (2.29, 0.10, 691.0), 1000: (2.28, 0.10, 50e3), 2000: (2.38, 0.10, 50e3)},
        "savigp": {200: (2.26, 0.07, 220.0), 1000: (2.20, 0.07, 939.0), 2000: (2.20, 0.07, 2.7e3)},
        "dgp": {200: (2.05, 0.06, 201.0), 1000: (1.99, 0.06, 212.0), 2000: (1.98, 0.06, 256.0)},
        "npvi": {10: (1.57, 0.04, 23e3), 20: (1.61, 0.04, 15e3), 40: (1.60, 0.04, 50e3)},
        "npvi-nn": {10: (1.78, 0.05, 5.1), 20: (1.79, 0.05, 10.0), 40: (1.79, 0.05, 36.0)},
    },
    "nightlight": {
        "svgp": {200: (0.71, 0.04, 674.0), 1000: (0.34, 0.03, 50e3), 2000: (0.41, 0.03, 50e3)},
        "savigp": {200: (0.72, 0.01, 867.0), 1000: (0.64, 0.02, 11e3), 2000: (0.64, 0.03, 16e3)},
        "dgp": {200: (0.45, 0.01, 1.1e3), 1000: (-0.12, 0.01, 1.3e3), 2000: (-0.24, 0.01, 1.5e3)},
        "npvi": {10: (-0.36, 0.01, 22e3), 20: (-0.20, 0.03, 50e3), 40: (-0.07, 0.02, 50e3)},
        "npvi-nn": {10: (-0.47, 0.01, 17.0), 20: (-0.42, 0.01, 27.0), 40: (-0.46, 0.01, 93.0)},
    },
    "flights": {
        "svgp": {200: (-1.07, 0.04, 43.0), 1000: (-1.01, 0.03, 1.1e3), 2000: (-1.02, 0.05, 3.8e3)},
        "savigp": {200: (-0.90, 0.06, 13e3), 1000: (-0.84, 0.04, 50e3), 2000: (-0.86, 0.07, 50e3)},
        "dgp": {200: (-1.10, 0.002, 770.0), 1000: (-1.04, 0.002, 900.0), 2000: (-1.11, 0.002, 3.3e3)},
        "npvi-nn": {10: (-1.27, 0.002, 34.0), 20: (-1.28, 0.002, 86.0), 40: (-1.27, 0.002, 533.0)},
    },
    "precipitation": {
        "svgp": {200: (-0.64, 0.17, 1.6e3), 1000: (-1.24, 0.12, 34e3), 2000: (-1.26, 0.16, 50e3)},
        "savigp": {200: (-0.29, 0.20, 364.0), 1000: (-0.76, 0.20, 1.5e3), 2000: (-1.12, 0.16, 3.1e3)},
        "dgp": {200: (-1.26, 0.02, 917.0), 1000: (-1.30, 0.02, 1.0e3), 2000: (-1.31, 0.02, 1.2e3)},
        "npvi": {10: (-1.57, 0.03, 37e3), 20: (-1.60, 0.02, 20e3), 40: (-1.55, 0.02, 22e3)},
        "npvi-nn": {10: (-1.48, 0.03, 30.0), 20: (-1.42, 0.02, 50.0), 40: (-1.33, 0.02, 179.0)},
    },
}

#: length scales that were chosen on the bird counts, for each method and M or K
LENGTH_SCALES: dict[str, dict[int, float]] = {
    "svgp": {200: 0.5, 1000: 0.5, 2000: 0.5},
    "savigp": {200: 1.0, 1000: 0.5, 2000: 0.5},
    "dgp": {200: 1.5, 1000: 1.0, 2000: 1.0},
    "npvi": {10: 0.1, 20: 0.1, 40: 0.1},
    "npvi-nn": {10: 0.1, 20: 0.1, 40: 0.1},
}

#: standard deviation of the NLPD over ten random orders of the bird counts' training rows, NPVI-NN at any K
ORDER_DEVIATION = 0.02
