"""Write the tables of likelihoods and kernels into the guide, from what the classes say of themselves.

    python tools/tables.py

`make docs` does it first.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from npvi.kernels import KERNELS
from npvi.likelihoods import LIKELIHOODS

__all__ = ["GUIDE", "main", "tables", "with_tables"]

GUIDE = Path(__file__).parent.parent / "docs" / "guide.md"


def tables() -> dict[str, str]:
    """Each table of the guide, by the name that its marks have."""
    kinds = sorted(
        (cls.about, name, ", ".join(f"`{extra}`" for extra in cls.extras)) for name, cls in LIKELIHOODS.items()
    )
    of_likelihoods = ["| for | names | per row |", "| --- | --- | --- |"]
    for about, group in groupby(kinds, key=lambda kind: kind[0]):
        _, names, extras = zip(*group)
        of_likelihoods.append(
            f"| {about} | {', '.join(f'`{name}`' for name in names)} | {', '.join(sorted({*extras} - {''}))} |"
        )
    of_kernels = ["| name | functions |", "| --- | --- |"]
    of_kernels += [f"| `{name}` | {cls.about} |" for name, cls in sorted(KERNELS.items())]
    return {"likelihoods": "\n".join(of_likelihoods), "kernels": "\n".join(of_kernels)}


def with_tables(text: str) -> str:
    """The guide's text with the tables of today between their marks."""
    for name, table in tables().items():
        marked = rf"(<!-- {name}: tools/tables\.py -->\n).*?(\n<!-- end -->)"
        text, found = re.subn(marked, lambda m, table=table: m[1] + table + m[2], text, flags=re.DOTALL)
        assert found == 1, f"the guide must have one table marked {name!r}, it has {found}"
    return text


def main() -> None:
    """Bring the guide up to date."""
    GUIDE.write_text(with_tables(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
