"""The eBird Basic Dataset, on small files in its form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npvi.datasets import BrokenFileError, read_ebird

COMMON = "COMMON NAME", "SCIENTIFIC NAME"
#: as in the release of 2024, in its order; the files end their lines in a tab
OBSERVED = [
    "GLOBAL UNIQUE IDENTIFIER",
    "LAST EDITED DATE",
    "TAXONOMIC ORDER",
    "CATEGORY",
    "COMMON NAME",
    "SCIENTIFIC NAME",
    "OBSERVATION COUNT",
    "COUNTRY",
    "COUNTRY CODE",
    "STATE",
    "STATE CODE",
    "LOCALITY",
    "LATITUDE",
    "LONGITUDE",
    "OBSERVATION DATE",
    "TIME OBSERVATIONS STARTED",
    "SAMPLING EVENT IDENTIFIER",
    "DURATION MINUTES",
    "EFFORT DISTANCE KM",
    "NUMBER OBSERVERS",
    "ALL SPECIES REPORTED",
    "GROUP IDENTIFIER",
    "SPECIES COMMENTS",
]
SAMPLED = [name for name in OBSERVED if name not in (*COMMON, "CATEGORY", "TAXONOMIC ORDER", "OBSERVATION COUNT")]
SAVANNAH = {"COMMON NAME": "Savannah Sparrow", "SCIENTIFIC NAME": "Passerculus sandwichensis"}
ROBIN = {"COMMON NAME": "American Robin", "SCIENTIFIC NAME": "Turdus migratorius"}


def checklist(number, **changes):
    """A complete checklist in Texas in February 2014."""
    return {
        "SAMPLING EVENT IDENTIFIER": f"S{number}",
        "GROUP IDENTIFIER": "",
        "ALL SPECIES REPORTED": "1",
        "COUNTRY CODE": "US",
        "STATE CODE": "US-TX",
        "LATITUDE": "30.25",
        "LONGITUDE": "-97.75",
        "OBSERVATION DATE": "2014-02-10",
        "TIME OBSERVATIONS STARTED": "07:30:00",
        "DURATION MINUTES": "60",
        "EFFORT DISTANCE KM": ".805",
        "NUMBER OBSERVERS": "2",
        "LOCALITY": 'Bob\'s "pond"',
        **changes,
    }


def seen(row, count, bird=SAVANNAH):
    return {**row, **bird, "OBSERVATION COUNT": str(count)}


def write(path, names, rows):
    lines = ["\t".join(names) + "\t", *("\t".join(row.get(name, "") for name in names) + "\t" for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def read(tmp_path):
    def run(observations, lists, **options):
        return read_ebird(
            write(tmp_path / "ebd_US.txt", OBSERVED, observations),
            write(tmp_path / "ebd_US_sampling.txt", SAMPLED, lists),
            **options,
        )

    return run


def test_what_is_not_reported_was_not_there(read):
    lists = [checklist(11), checklist(12), checklist(13)]
    table = read([seen(lists[1], 5), seen(lists[0], 3, ROBIN)], lists)
    assert table.columns.tolist() == [
        "checklist",
        "lon",
        "lat",
        "year",
        "day_of_year",
        "start_hour",
        "minutes",
        "distance_km",
        "observers",
        "count",
    ]
    assert dict(zip(table["checklist"], table["count"])) == {"S12": 5, "S11": 0, "S13": 0}
    assert table.iloc[0, 1:].tolist() == [-97.75, 30.25, 2014, 41, 7.5, 60.0, 0.805, 2.0, 5]


def test_what_is_left_out(read):
    lists = [
        checklist(1),
        checklist(2, **{"ALL SPECIES REPORTED": "0"}),
        checklist(3, **{"OBSERVATION DATE": "2014-03-01"}),
        checklist(4, **{"OBSERVATION DATE": "2011-02-01"}),
        checklist(5, **{"STATE CODE": "US-HI"}),
        checklist(6, **{"COUNTRY CODE": "MX", "STATE CODE": "MX-SON"}),
        checklist(7, **{"STATE CODE": "US-DC"}),
    ]
    table = read([seen(row, 9) for row in lists], lists)
    assert table["checklist"].tolist() == ["S1", "S7"]
    everything = {"months": range(1, 13), "years": range(1900, 2100)}
    assert read([seen(row, 9) for row in lists], lists, **everything)["checklist"].tolist() == ["S1", "S3", "S4", "S7"]
    table = read([seen(row, 9) for row in lists], lists, region="MX,US-HI")
    assert table["checklist"].tolist() == ["S5", "S6"]


def test_birds_without_a_number_are_neither_many_nor_none(read):
    lists = [checklist(1), checklist(2), checklist(3)]
    table = read([seen(lists[0], "X"), seen(lists[1], 4)], lists)
    assert dict(zip(table["checklist"], table["count"])) == {"S2": 4, "S3": 0}


def test_subspecies_are_added_up(read):
    row = checklist(1)
    group = {**SAVANNAH, "CATEGORY": "issf", "SUBSPECIES COMMON NAME": "Savannah Sparrow (Ipswich)"}
    assert read([seen(row, 4), seen(row, 2, group)], [row])["count"].tolist() == [6]


def test_a_shared_checklist_is_one(read):
    shared = {"GROUP IDENTIFIER": "G77"}
    lists = [checklist(30, **shared), checklist(20, LATITUDE="31", **shared), checklist(10)]
    table = read([seen(lists[0], 8), seen(lists[1], 7)], lists)
    assert table["checklist"].tolist() == ["G77", "S10"]
    assert table["count"].tolist() == [7, 0]  # of the first copy, S20
    assert table["lat"].tolist() == [31.0, 30.25]
    assert len(read([seen(lists[2], 8)], lists)) == 2


@pytest.mark.parametrize("species", ["savannah sparrow", "Passerculus sandwichensis"])
def test_either_name(read, species):
    row = checklist(1)
    assert read([seen(row, 4)], [row], species=species)["count"].tolist() == [4]


def test_unknown_effort(read):
    empty = ("TIME OBSERVATIONS STARTED", "DURATION MINUTES", "EFFORT DISTANCE KM", "NUMBER OBSERVERS")
    row = checklist(1, **dict.fromkeys(empty, ""))
    table = read([seen(row, 1)], [row])
    assert table[["start_hour", "minutes", "distance_km", "observers"]].isna().all(axis=None)


def survey(rng, n):
    """Random checklists, a third of them shared by two, and what was seen on them."""
    lists, observations = [], []
    for number in range(n):
        changes = {
            "OBSERVATION DATE": f"{rng.integers(2010, 2018)}-0{rng.integers(1, 4)}-1{rng.integers(10)}",
            "STATE CODE": str(rng.choice(["US-TX", "US-AK", "US-CA"])),
            "ALL SPECIES REPORTED": str(rng.choice(["0", "1"], p=[0.2, 0.8])),
            "GROUP IDENTIFIER": f"G{number}" if rng.random() < 0.3 else "",
        }
        copies = [checklist(100_000 + number, **changes)]
        if changes["GROUP IDENTIFIER"]:
            copies.append(checklist(500_000 + number, **changes))
        lists += copies
        if rng.random() < 0.3:
            observations += [seen(row, "X" if rng.random() < 0.2 else rng.integers(1, 20)) for row in copies]
        if rng.random() < 0.5:
            observations += [seen(row, 2, ROBIN) for row in copies]
    order = rng.permutation(len(lists))
    return observations, [lists[place] for place in order]


def by_pandas(observations, lists):
    """The same selection, all at once and without the program's code."""
    tables = []
    for rows in (pd.DataFrame(lists), pd.DataFrame(observations)):
        day = pd.to_datetime(rows["OBSERVATION DATE"])
        rows = rows[(day.dt.month == 2) & day.dt.year.between(2012, 2016) & rows["STATE CODE"].ne("US-AK")]
        rows = rows[rows["ALL SPECIES REPORTED"] == "1"]
        group = rows["GROUP IDENTIFIER"]
        rows = rows.assign(checklist=group.where(group != "", rows["SAMPLING EVENT IDENTIFIER"]))
        tables.append(rows.sort_values("SAMPLING EVENT IDENTIFIER"))
    all_lists, birds = tables
    birds = birds[birds["COMMON NAME"] == "Savannah Sparrow"].drop_duplicates("checklist")
    counts = birds.set_index("checklist")["OBSERVATION COUNT"]
    filled = all_lists.drop_duplicates("checklist").set_index("checklist").index.to_series().map(counts).fillna("0")
    return filled[filled != "X"].astype(int).sort_index()


def test_against_pandas(read):
    observations, lists = survey(np.random.default_rng(0), 6000)
    expected = by_pandas(observations, lists)
    assert (expected > 0).sum() > 100
    table = read(observations, lists, zeros=None)
    pd.testing.assert_series_equal(
        table.set_index("checklist")["count"].sort_index(), expected, check_names=False, check_index_type=False
    )
    some = read(observations, lists, zeros=50, seed=1)
    assert (some["count"] == 0).sum() == 50
    assert (some["count"] > 0).sum() == (expected > 0).sum()
    assert set(some["checklist"]) <= set(expected.index)


def test_the_draw_does_not_depend_on_the_order_of_lines(read):
    observations, lists = survey(np.random.default_rng(1), 500)
    table = read(observations, lists, zeros=20)
    pd.testing.assert_frame_equal(table, read(observations[::-1], lists[::-1], zeros=20))
    assert set(table["checklist"]) != set(read(observations, lists, zeros=20, seed=1)["checklist"])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"OBSERVATION DATE": "10 Feb 2014"}, "'10 Feb 2014' in column OBSERVATION DATE, where a date such as"),
        ({"ALL SPECIES REPORTED": "yes"}, "'yes' in column ALL SPECIES REPORTED, where '0' or '1' should be"),
        (
            {"SAMPLING EVENT IDENTIFIER": "17"},
            "'17' in column SAMPLING EVENT IDENTIFIER, where a code such as S10137630",
        ),
        ({"SAMPLING EVENT IDENTIFIER": "Sx"}, "'x' in column SAMPLING EVENT IDENTIFIER, where a whole number"),
        ({"LATITUDE": "130.5"}, "'130.5' in column LATITUDE, where a number from -90 to 90 should be"),
        ({"LONGITUDE": "W97"}, "'W97' in column LONGITUDE, where a number should be"),
        ({"DURATION MINUTES": "an hour"}, "'an hour' in column DURATION MINUTES, where a number"),
        ({"TIME OBSERVATIONS STARTED": "noon"}, "'noon' in column TIME OBSERVATIONS STARTED, where a whole number"),
    ],
)
def test_broken_lists(read, change, what):
    with pytest.raises(BrokenFileError) as caught:
        read([seen(checklist(1), 1)], [checklist(1), checklist(2, **change)])
    assert f"ebd_US_sampling.txt, line 3: {what}" in str(caught.value)


def test_broken_observations(read, tmp_path):
    with pytest.raises(BrokenFileError, match=r"ebd_US\.txt, line 2: 'ten' in column OBSERVATION COUNT, where a whole"):
        read([seen(checklist(1), "ten")], [checklist(1)])
    lists = write(tmp_path / "lists.txt", SAMPLED, [checklist(1)])
    with pytest.raises(BrokenFileError, match=r"lists\.txt, line 1: no column COMMON NAME; expected SAMPLING"):
        read_ebird(lists, lists)
    whole = write(tmp_path / "whole.txt", OBSERVED, [seen(checklist(n), 1) for n in (1, 2)]).read_text()
    (tmp_path / "cut.txt").write_text(whole[:-60])
    with pytest.raises(BrokenFileError, match=r"cut\.txt, line 3: the line is cut off: \d+ fields, where 23 should be"):
        read_ebird(tmp_path / "cut.txt", lists)


def test_wrong_arguments(read):
    row = checklist(1)
    with pytest.raises(
        ValueError, match=r"species must be in .*, which has no 'Savanna Sparow'; did you mean 'Savannah S"
    ):
        read([seen(row, 1)], [row], species="Savanna Sparow")
    with pytest.raises(ValueError, match=r"no 'Emu'; it has American Robin, Turdus migratorius"):
        read([seen(row, 1, ROBIN)], [row], species="Emu")
    with pytest.raises(ValueError, match=r"region must be 'contiguous US' or codes .*; got 'Texas'"):
        read([seen(row, 1)], [row], region="Texas")


def test_files_of_two_downloads(read):
    with pytest.warns(UserWarning, match=r"1 of 2 checklists with the species are not in .*same download"):
        table = read([seen(checklist(1), 1), seen(checklist(2), 1)], [checklist(2), checklist(3)])
    assert table["checklist"].tolist() == ["S2", "S3"]
