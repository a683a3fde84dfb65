"""Problems that were findings of the campaign, or did not converge, and that are small enough to stay as they are.

What came of others is tested beside the code that was at fault.
"""

from __future__ import annotations

import pytest
from campaign.cases import part

FINDINGS = {
    "beta-binomial responses of two rows under a wide latent: a minute of nodes": (770930, 87),
    "points nearly equal: the bound's rounding hid all steps": (220118, 398),
    "Laplace noise around a kink far beyond the kernel": (220118, 516),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_problem_works(name):
    seed, number = FINDINGS[name]
    assert part("problems").case(seed, number).run() == "worked"


def test_rows_that_say_nothing_of_f_are_not_counted():
    """Two counts of a hurdle, beside zeros and weights of 0, for three coefficients."""
    assert part("problems").case(620431, 368).run() == "refused: few rows"
