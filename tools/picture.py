"""Draw the picture of the README, `docs/birds.png`: what `examples/plot_bird_counts.py` shows.

python tools/picture.py
"""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib

__all__ = ["main"]

_ROOT = Path(__file__).parent.parent


def main() -> None:
    """Run the example, and keep its picture."""
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.show = lambda *args, **kwargs: None
    runpy.run_path(str(_ROOT / "examples" / "plot_bird_counts.py"))
    plt.gcf().savefig(_ROOT / "docs" / "birds.png", dpi=90)


if __name__ == "__main__":
    main()
