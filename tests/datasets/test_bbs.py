"""The Breeding Bird Survey's files."""

from __future__ import annotations

import zipfile

import numpy as np
import pandas as pd
import pytest

from npvi.datasets import BrokenFileError, read_bbs

ROUTES = (
    "CountryNum,StateNum,Route,RouteName,Active,Latitude,Longitude,Stratum,BCR,RouteTypeID,RouteTypeDetailID\n"
    "840,02,001,ST. FLORIAN,1   ,34.867000  ,-87.616000 ,14  ,27  ,1,1\n"
    "840,02,002,MOUNT HOPE,1,34.453,-87.478,14,24,1,1\n"
    "840,02,900,MINI,1,34.5,-87.5,14,24,1,4\n"
    "840,25,001,KEY WEST,1,24.6,-81.8,1,31,1,2\n"
    "840,03,001,NOME,1,64.5,-165.4,99,2,1,1\n"
    "124,04,001,BANFF,1,51.2,-115.6,29,10,1,1\n"
)
WEATHER = (
    "RouteDataID,CountryNum,StateNum,Route,RPID,Year,Month,Day,ObsN,TotalSpp,StartTemp,EndTemp,TempScale,StartTime,RunType\n"
    "1,840,02,001,101,2003,6,15,11,40,60,75,F,0506,1\n"
    "2,840,02,002,101,2003,6,16,12,40,60,75,F,NULL,1\n"
    "3,840,02,001,101,2004,6,15,11,40,60,75,F,0510,0\n"
    "4,840,02,001,102,2005,6,15,11,40,60,75,F,0510,1\n"
    "5,840,02,900,101,2005,6,15,11,40,60,75,F,0510,1\n"
    "6,840,02,001,101,1999,6,15,11,40,60,75,F,0510,1\n"
    "7,840,25,001,101,2004,5,1,13,40,60,75,F,0600,1\n"
    "8,840,03,001,101,2004,6,20,13,40,60,75,F,0300,1\n"
    "9,124,04,001,101,2004,6,20,13,40,60,75,F,0400,1\n"
    "10,840,25,001,101,2009,5,2,13,40,60,75,F,0600,1\n"
)
HEADER = (
    "RouteDataID,CountryNum,StateNum,Route,RPID,Year,AOU,Count10,Count20,Count30,Count40,Count50,StopTotal,"
    "SpeciesTotal\n"
)


def line(state, route, year, bird, total, protocol=101):
    return f"1,840,{state:02d},{route:03d},{protocol},{year},{bird:05d},1,0,0,0,0,1,{total}\n"


ALABAMA = (
    HEADER
    + line(2, 1, 2003, 5420, 7)
    + line(2, 1, 2003, 7610, 30)
    + line(2, 2, 2003, 9990, 5)  # another bird: all ten of ours are zeros
    + line(2, 1, 2004, 5420, 50)
    + line(2, 1, 2005, 5420, 50, protocol=102)
    + line(2, 1, 1999, 5420, 50)
)
FLORIDA = HEADER + line(25, 1, 2004, 5930, 12) + line(25, 1, 2009, 5930, 13)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "Routes.csv").write_text(ROUTES)
    (tmp_path / "Weather.csv").write_text(WEATHER)
    (tmp_path / "Alabama.csv").write_text(ALABAMA)
    with zipfile.ZipFile(tmp_path / "Florida.zip", "w") as archive:
        archive.writestr("Florida.csv", FLORIDA)
    return tmp_path


def read(folder, states=("Alabama.csv", "Florida.zip"), **options):
    return read_bbs(folder / "Routes.csv", folder / "Weather.csv", [folder / state for state in states], **options)


def test_runs_that_count(files):
    table = read(files)
    assert table[["year", "state_num", "route"]].to_numpy().tolist() == [
        [2003, 2, 1],
        [2003, 2, 2],
        [2004, 25, 1],
        [2009, 25, 1],
    ]
    assert table["savannah_sparrow"].tolist() == [7, 0, 0, 0]
    assert table["american_robin"].tolist() == [30, 0, 0, 0]
    assert table["northern_cardinal"].tolist() == [0, 0, 12, 13]
    assert table["day_of_year"].tolist() == [166, 167, 122, 122]
    assert table["start_hour"].tolist()[0] == pytest.approx(5.1)
    assert np.isnan(table["start_hour"][1])
    assert table[["lat", "lon", "bcr"]].iloc[0].tolist() == [34.867, -87.616, 27]
    assert len(table.columns) == 18


def test_states_that_are_left_out_are_not_zeros(files):
    assert read(files, ["Florida.zip"])["state_num"].tolist() == [25, 25]


def test_only_the_contiguous_states(files):
    (files / "Alaska.csv").write_text(HEADER + line(3, 1, 2004, 5420, 40))
    (files / "Alberta.csv").write_text(HEADER + line(4, 1, 2004, 5420, 40).replace(",840,", ",124,"))
    pd.testing.assert_frame_equal(read(files, ["Alabama.csv", "Florida.zip", "Alaska.csv", "Alberta.csv"]), read(files))


def test_other_birds_and_years(files):
    table = read(files, species={"somebody": 9990}, years=[2003])
    assert table["somebody"].tolist() == [0, 5]
    with pytest.raises(ValueError, match="counts have no line for any run that is wanted"):
        read(files, years=[1990])


def test_against_pandas(tmp_path):
    rng = np.random.default_rng(0)
    runs = pd.DataFrame(
        [(state, route, year) for state in (2, 25) for route in range(1, 30) for year in range(2001, 2008)],
        columns=["StateNum", "Route", "Year"],
    ).sample(300, random_state=0)
    runs = runs.assign(RouteDataID=1, CountryNum=840, RPID=101, Month=6, Day=rng.integers(1, 31, 300), StartTime="0500")
    runs["RunType"] = rng.integers(0, 2, 300)
    routes = runs.drop_duplicates(["StateNum", "Route"])[["CountryNum", "StateNum", "Route"]]
    routes = routes.assign(Latitude=30.0, Longitude=-90.0, BCR=1, RouteTypeDetailID=rng.integers(1, 7, len(routes)))
    birds = pd.concat(
        [runs.assign(AOU=bird, SpeciesTotal=rng.integers(1, 99, 300))[rng.random(300) < share]
         for bird, share in ((5420, 0.4), (5460, 0.3), (9990, 1.1))]
    )  # fmt: skip
    runs.to_csv(tmp_path / "Weather.csv", index=False)
    routes.to_csv(tmp_path / "Routes.csv", index=False)
    birds.to_csv(tmp_path / "both.csv", index=False)

    valid = runs[(runs["RunType"] == 1) & runs["Year"].between(2003, 2009)]
    valid = valid.merge(routes[routes["RouteTypeDetailID"].isin([1, 2])])
    wide = birds.pivot_table(index=["Year", "StateNum", "Route"], columns="AOU", values="SpeciesTotal", fill_value=0)
    expected = valid.set_index(["Year", "StateNum", "Route"]).join(wide).sort_index()
    table = read(tmp_path, ["both.csv"])
    assert len(table) == len(expected) > 20
    np.testing.assert_array_equal(table["savannah_sparrow"], expected[5420])
    np.testing.assert_array_equal(table["grasshopper_sparrow"], expected[5460])


def test_runs_without_counts(files):
    (files / "Florida.csv").write_text(HEADER + line(25, 1, 2009, 5930, 13))
    with pytest.warns(UserWarning, match="1 runs have no line in the counts of their state"):
        assert read(files, ["Florida.csv"])["year"].tolist() == [2009]


@pytest.mark.parametrize(
    ("file", "old", "new", "what"),
    [
        ("Routes.csv", "-87.478", "west", "line 3: 'west' in column Longitude, where a number should be"),
        ("Routes.csv", ",24,1,1", ",24,1,7", "line 3: '7' in column RouteTypeDetailID, where '1' or '2'"),
        ("Routes.csv", "RouteTypeDetailID", "Kind", "line 1: no column RouteTypeDetailID; expected CountryNum,"),
        ("Weather.csv", "0506,1", "0506,9", "line 2: '9' in column RunType, where '0' or '1' should be"),
        ("Weather.csv", "0506,1", "0566,1", "line 2: '0566' in column StartTime, where a clock time such as 0506"),
        ("Weather.csv", "2003,6,15", "2003,6,31", "line 2: month '6' and day '31', which are no day of 2003"),
        ("Weather.csv", "F,0506,1", "F,0506", "line 2: the line is cut off: 14 fields, where 15 should be"),
        ("Alabama.csv", ",30\n", ",few\n", "line 3: 'few' in column SpeciesTotal, where a whole number should be"),
        ("Alabama.csv", "05420,1", "SASP,1", "line 2: 'SASP' in column AOU, where a whole number should be"),
    ],
)
def test_broken_files(files, file, old, new, what):
    text = (files / file).read_text()
    assert old in text
    (files / file).write_text(text.replace(old, new, 1))
    with pytest.raises(BrokenFileError) as caught:
        read(files)
    assert f"{file}, {what}" in str(caught.value)
