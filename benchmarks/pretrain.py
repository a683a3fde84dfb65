"""Train the networks that come with the package, on simulations only, and put them where the package has them.

python -m benchmarks.pretrain [Poisson] [NegativeBinomial] [Bernoulli] [Gamma] [StudentT]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import npvi
from npvi.amortized.api import FAMILIES

_FOLDER = Path(npvi.__file__).parent / "amortized" / "pretrained"


def main(names: list[str]) -> None:
    _FOLDER.mkdir(exist_ok=True)
    for name in names or list(FAMILIES):
        started = time.perf_counter()
        recognizer = npvi.fit_network_on_simulations(name, sets=400)
        history = recognizer.history
        recognizer.save(_FOLDER / f"{name.lower()}.network")
        before, after = history["evaluation_without_network"][0], min(history["evaluation"])
        print(f"{name}: loss on points held out {before:.4f} -> {after:.4f}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
