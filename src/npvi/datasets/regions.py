"""Parts of the world, by the codes that the files use."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["CONTIGUOUS", "LOWER_48", "in_region"]

CONTIGUOUS = "contiguous US"

#: two-letter codes of the contiguous states
LOWER_48 = frozenset(
    re.findall(
        "..",
        "ALARAZCACOCTDCDEFLGAIAIDILINKSKYLAMAMDMEMIMNMOMSMTNCNDNENHNJNMNVNYOHOKORPARISCSDTNTXUTVAVTWAWIWVWY",
    )
)


def in_region(region: str) -> Callable[[str, str], bool]:
    """A function of eBird's codes of country and state that says whether they are in a region.

    Parameters
    ----------
    region : str
        "contiguous US", or codes of countries and states with commas between them, such as "US-CA,US-OR,MX".

    Examples
    --------
    >>> inside = in_region("US-CA,MX")
    >>> inside("US", "US-CA"), inside("MX", "MX-SON"), inside("US", "US-OR")
    (True, True, False)
    """
    if region == CONTIGUOUS:
        return lambda country, state: country == "US" and state[3:] in LOWER_48
    codes = frozenset(code.strip() for code in region.split(","))
    for code in codes:
        if not re.fullmatch(r"[A-Z]{2}(-[A-Z0-9]{1,3})?", code):
            raise ValueError(
                f"region must be {CONTIGUOUS!r} or codes of eBird's files, such as 'US-CA,US-OR,MX'; got {code!r}"
            )
    return lambda country, state: country in codes or state in codes
