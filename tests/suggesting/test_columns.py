"""What columns are for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npvi.suggesting.columns import find_places, find_target, numbers_of, roles_of

RNG = np.random.default_rng(0)


def columns(**more):
    base = {"lon": RNG.uniform(-5, 5, 60), "lat": RNG.uniform(40, 50, 60)}
    return base | {name: np.asarray(values, dtype=float) for name, values in more.items()}


@pytest.mark.parametrize("names", [("lon", "lat"), ("Longitude", "LATITUDE"), ("easting", "northing"), ("X", "Y")])
def test_places_are_found_by_their_names_in_whatever_order(names):
    x, y = names
    assert find_places({y: RNG.uniform(size=9), "speed": RNG.uniform(size=9), x: RNG.uniform(size=9)}) == [x, y]


def test_longitudes_that_are_no_degrees_are_places_and_said():
    table = {"lon": np.array([0.0, 5e5]), "lat": np.array([0.0, 4e6]), "z": np.array([1.0, 2.5])}
    found = roles_of(table, "z", table["z"])
    assert found.places == ["lon", "lat"]
    assert "no degrees" in found.reasons["places"]
    assert "no degrees" not in roles_of(columns(z=RNG.normal(size=60)), "z", RNG.normal(size=60)).reasons["places"]


def test_the_target_is_no_place():
    assert find_places({"x": RNG.uniform(size=9), "y": RNG.uniform(size=9)}, target="y") == []


def test_the_target_is_guessed_by_name_then_by_place_in_the_table():
    table = columns(count=RNG.poisson(3, 60), height=RNG.uniform(size=60))
    assert find_target(pd.DataFrame(table), table)[0] == "count"
    del table["count"]
    assert find_target(pd.DataFrame(table), table)[0] == "height"


def test_without_anything_to_model_it_says_so():
    table = columns(id=np.arange(60))
    with pytest.raises(ValueError, match="no column seems to be a response"):
        find_target(pd.DataFrame(table), table)


def test_effort_is_exposure_of_counts_only():
    table = columns(hours=RNG.uniform(1, 4, 60))
    counts = RNG.poisson(3, 60).astype(float)
    assert roles_of(table | {"n": counts}, "n", counts).exposure == "hours"
    heights = RNG.normal(size=60)
    found = roles_of(table | {"z": heights}, "z", heights)
    assert (found.exposure, found.covariates) == (None, ["hours"])


def test_trials_are_never_fewer_than_successes():
    trials = RNG.integers(5, 10, 60).astype(float)
    successes = np.floor(trials * 0.5)
    assert roles_of(columns(trials=trials, seen=successes), "seen", successes).trials == "trials"
    too_many = successes.copy()
    too_many[3] = 20.0
    assert roles_of(columns(trials=trials, seen=too_many), "seen", too_many).trials is None


def test_names_of_rows_constants_and_other_responses_are_no_covariates():
    jan, feb, elevation = RNG.gamma(2.0, size=(3, 60))
    table = columns(rain_jan=jan, rain_feb=feb, elevation=elevation, site_id=RNG.integers(0, 9, 60), same=np.ones(60))
    found = roles_of(table, "rain_jan", jan)
    assert found.covariates == ["elevation"]
    assert all(name in found.reasons["covariates"] for name in ("rain_feb", "site_id", "same"))


def test_missing_values_are_numbers_and_dates_are_not():
    assert np.isnan(numbers_of(pd.Series([1.0, np.inf, None]))[1:]).all()
    assert numbers_of(pd.Series(pd.date_range("2020-01-01", periods=3))) is None
