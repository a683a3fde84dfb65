"""Climbs of bounds that bend strongly one way and hardly another."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.learning import bfgs as ascent


def valley(bends, top):
    def function(z):
        return -0.5 * float(bends @ (z - top) ** 2), -bends * (z - top)

    return function


def test_a_guessed_curvature_is_no_reason_to_stop():
    """The first step tells how noise bends, a thousand times as strongly as a length scale does."""
    bends, top = np.array([1000.0, 8.0]), np.array([1.0, 0.0])
    found = ascent.climb(valley(bends, top), np.array([0.0, 2.0]), np.full(2, -9.0), np.full(2, 9.0), enough=0.5)
    assert found.value > -0.5
    assert found.evaluations < 20


def test_a_coordinate_at_its_end_stays_there_to_the_last_place():
    """Once it has left it by rounding, the next step would go through it, and take all others along."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        root = rng.standard_normal((4, 4))
        high = rng.standard_normal(4)
        gradient = rng.standard_normal(4)
        gradient[2] = 4.0
        z = np.array([*(high[:2] - 1.0), high[2], high[3] - 1.0])
        step = ascent.newton_step(root @ root.T, gradient, z, np.full(4, -9.0), high)
        assert step[2] == 0.0
        assert np.all(step[[0, 1, 3]] != 0.0)


def test_along_a_ridge_a_step_is_cut_short_and_across_it_is_whole():
    curvature = np.diag([1e-3, 50.0])
    step = ascent._step(curvature, np.array([500.0, 1.0]))
    assert step[0] == pytest.approx(0.5, rel=1e-2)
    assert 0.9 < step[1] <= 1.0
    np.testing.assert_allclose(ascent._step(curvature, np.array([500.0, 0.01])), [0.5, 0.5])


def test_with_a_known_curvature_a_ridge_takes_few_evaluations():
    bends, top = np.array([1000.0, 0.02]), np.array([1.0, 8.0])
    found = ascent.climb(
        valley(bends, top), np.zeros(2), np.full(2, -9.0), np.full(2, 9.0), enough=0.2, curvature=np.diag(1.0 / bends)
    )
    assert found.evaluations < 8
    assert found.z[0] == pytest.approx(1.0, abs=0.02)


def test_a_scale_lets_what_is_hardly_known_move_with_the_rest():
    """A group of many levels, a surface and a smooth of a few functions: by a common scale a climb ends with the smooth
    where it was, since what is found out of the others' bends says that no step in it promises anything."""
    bends, top = np.array([500.0, 100.0, 30.0, 1.0]), np.array([-0.75, -0.2, 0.1, -0.6])
    box = (np.full(4, -9.0), np.full(4, 9.0))
    plain = ascent.climb(valley(bends, top), np.zeros(4), *box, enough=0.005)
    scaled = ascent.climb(
        valley(bends, top), np.zeros(4), *box, enough=0.005, scale=1.0 / np.array([400.0, 600.0, 60.0, 10.0])
    )
    assert plain.value < -0.1
    assert scaled.value > -0.01
    assert scaled.evaluations <= plain.evaluations + 2
