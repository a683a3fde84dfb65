"""NOAA's climate normals."""

from __future__ import annotations

import numpy as np
import pytest

from npvi.datasets import BrokenFileError, read_precipitation

#: lines of the original, with two values changed to codes
NORMALS = (
    "AQC00914000        2116R  2022S  1840S  1780R  1820R  1306R  1274R  1383R  1570S  2003S  2036R  2242R\n"
    "USC00010008         530S   507S   580S   377S   382S   520C   594S   463S   353S   311S   461S   473S\n"
    "USC00010063         503R   529R   525R   478R   548R   483R -7777R   375R   427R   377R -9999    591R\n"
)
STATIONS = (
    "AQC00914000 -14.3167 -170.7667  408.4 AS AASUFOU\n"
    "USC00010008  31.5703  -85.2483  139.0 AL ABBEVILLE                      \n"
    "USC00010063  34.2553  -87.1814 -999.9 AL ADDISON                            HCN 99999\n"
)


@pytest.fixture
def read(tmp_path):
    def run(normals=NORMALS, stations=STATIONS, **options):
        (tmp_path / "mly-prcp-normal.txt").write_text(normals)
        (tmp_path / "allstations.txt").write_text(stations)
        return read_precipitation(tmp_path / "mly-prcp-normal.txt", tmp_path / "allstations.txt", **options)

    return run


def test_months_and_places(read):
    table = read()
    assert table["station"].tolist() == ["USC00010008", "USC00010063"]  # not Samoa
    months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    assert table.columns.tolist()[6:] == [*(f"prcp_{month}" for month in months), "may_flag"]
    first = [5.30, 5.07, 5.80, 3.77, 3.82, 5.20, 5.94, 4.63, 3.53, 3.11, 4.61, 4.73]
    assert table.loc[0, "prcp_jan":"prcp_dec"].tolist() == first
    assert table.loc[1, "prcp_jul"] == 0.0  # less than half a hundredth of an inch
    assert np.isnan(table.loc[1, "prcp_nov"])
    assert table["may_flag"].tolist() == ["S", "R"]
    assert table["lon"].tolist() == [-85.2483, -87.1814]
    assert table["lat"].tolist() == [31.5703, 34.2553]
    assert table["elev_m"][0] == 139.0
    assert np.isnan(table["elev_m"][1])
    assert table["name"].tolist() == ["ABBEVILLE", "ADDISON"]


def test_other_states(read):
    assert read(states={"AS"})["name"].tolist() == ["AASUFOU"]


@pytest.mark.parametrize(
    ("file", "old", "new", "what"),
    [
        (
            "normals",
            "  382S   520C   594S   463S   353S   311S   461S   473S",
            "",
            "line 2: the line is cut off: 45 char",
        ),
        ("normals", " 382S", "3.82S", "line 2: '3.82' in column may, where a whole number should be"),
        ("normals", "-7777R", "-4321R", "line 3: -4321 in jul, where hundredths of an inch or one of -7777, -9999,"),
        ("normals", " 382S", " 382Z", "line 2: 'Z' in column flag of may, where 'C' or 'S' or 'R' or 'P' or 'Q'"),
        ("normals", "USC00010063", "USC99999999", "line 3: station 'USC99999999' is not in "),
        (
            "stations",
            "-85.2483  139.0 AL ABBEVILLE",
            "-85",
            "line 2: the line is cut off: 25 characters, where at least 37",
        ),
        ("stations", " 31.5703", " 31N5703", "line 2: '31N5703' in column latitude, where a number should be"),
        ("stations", " -85.2483", "-285.2483", "line 2: '-285.2483' in column longitude, where a number from -180"),
    ],
)
def test_broken_files(read, file, old, new, what):
    texts = {"normals": NORMALS, "stations": STATIONS}
    assert old in texts[file]
    texts[file] = "\n".join(line.rstrip() for line in texts[file].replace(old, new, 1).splitlines())
    with pytest.raises(BrokenFileError) as caught:
        read(**texts)
    name = {"normals": "mly-prcp-normal.txt", "stations": "allstations.txt"}[file]
    assert f"{name}, {what}" in str(caught.value)
