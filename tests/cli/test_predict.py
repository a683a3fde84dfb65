"""npvi predict: the columns it adds, the columns it leaves alone, and how it fails."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import special

import npvi as library

PREDICT = "predict birds.npvi test.csv --output {tmp}/out.csv"


@pytest.mark.parametrize("rows", [7, 100_000])
def test_columns_are_added_and_others_stay(npvi, folder, survey, tmp_path, monkeypatch, rows):
    monkeypatch.setattr("npvi.cli.models.ROWS", rows)
    done = npvi(f"{PREDICT} --exposure hours --interval 0.8")
    assert done.exit_code == 0, done.output
    assert "60 rows predicted" in done.stderr
    out = pd.read_csv(tmp_path / "out.csv", dtype={"site": str})
    assert out.columns.tolist() == [*survey.columns, "mean", "std", "lower", "upper", "reach_distance", "prior_share"]
    before = (folder / "test.csv").read_text().splitlines()
    after = (tmp_path / "out.csv").read_text().splitlines()
    assert all(line.startswith(start) for start, line in zip(before, after, strict=True))
    new = survey[240:]
    expected = library.load(folder / "birds.npvi").predict_dist(new[["lon", "lat"]], exposure=new["hours"])
    np.testing.assert_allclose(out["mean"], expected.mean, rtol=1e-7)
    np.testing.assert_allclose(out["std"], expected.std, rtol=1e-7)
    np.testing.assert_array_equal([out["lower"], out["upper"]], expected.interval(0.8))


@pytest.mark.parametrize("rows", [7, 100_000])
@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_parquet(npvi, survey, tmp_path, monkeypatch, rows, source):
    monkeypatch.setattr("npvi.cli.models.ROWS", rows)
    done = npvi(f"predict birds.npvi test.{source} --output {{tmp}}/out.parquet --exposure hours")
    assert done.exit_code == 0, done.output
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert len(out) == 60
    assert out["mean"].dtype == np.float64
    np.testing.assert_allclose(out["lon"], survey["lon"][240:], rtol=1e-12)
    assert out["site"].tolist() == survey["site"][240:].tolist()


def test_classifier(npvi, folder, survey, tmp_path):
    done = npvi("predict present.npvi test.csv --output {tmp}/out.csv --prefix model_")
    assert done.exit_code == 0, done.output
    out = pd.read_csv(tmp_path / "out.csv")
    model = library.load(folder / "present.npvi")
    probabilities = model.predict_proba(survey[["lon", "lat"]][240:])
    assert out["model_label"].tolist() == model.predict(survey[["lon", "lat"]][240:]).tolist()
    np.testing.assert_allclose(out["model_probability"], probabilities.max(axis=1), rtol=1e-6)
    np.testing.assert_allclose(out["model_mean"], probabilities[:, 1], rtol=1e-6)
    assert (out["model_lower"] < out["model_mean"]).all()
    assert (out["model_mean"] < out["model_upper"]).all()
    assert out["model_std"].between(0.0, 0.5).all()


def test_note_about_the_exposure_of_the_fit(npvi):
    said = npvi(PREDICT).stderr
    assert "without --exposure hours every row counts as exposure 1" in said
    assert said.count("counts as exposure 1") == 1  # the library's own warning isn't needed beside it


def test_missing_values(npvi, survey, tmp_path):
    survey.assign(lat=survey["lat"].where(survey.index > 1)).to_csv(tmp_path / "holes.csv", index=False)
    command = "predict birds.npvi {tmp}/holes.csv --output {tmp}/out.csv --exposure hours"
    done = npvi(command)
    assert done.exit_code == 2
    assert "2 of 300 rows" in done.stderr
    assert not (tmp_path / "out.csv").exists()
    done = npvi(f"{command} --drop-missing")
    assert done.exit_code == 0
    assert "298 rows predicted, 2 with missing values left out" in done.stderr


def test_other_names_for_the_inputs(npvi, survey, tmp_path):
    survey.rename(columns={"lon": "x", "lat": "y"}).to_csv(tmp_path / "renamed.csv", index=False)
    command = "predict birds.npvi {tmp}/renamed.csv --output {tmp}/out.csv --exposure hours"
    assert "has no column 'lon'" in npvi(command).stderr
    assert npvi(f"{command} --inputs x,y").exit_code == 0
    assert "has 2 inputs, but --inputs names 1" in npvi(f"{command} --inputs x").stderr


def test_model_without_names(npvi, survey, tmp_path):
    model = library.GPRegressor(n_neighbors=5, learn=False)
    model.fit(survey[["lon", "lat"]].to_numpy(), survey["count"]).save(tmp_path / "m.npvi")
    command = "predict {tmp}/m.npvi test.csv --output {tmp}/out.csv"
    assert "does not know the names of its 2 inputs; give --inputs" in npvi(command).stderr
    assert npvi(f"{command} --inputs lon,lat").exit_code == 0


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("predict birds.npvi test.csv --output nowhere/x.csv", "the folder 'nowhere' does not exist"),
        ("predict birds.npvi test.csv --output {tmp}/x.json", "tables are written to .csv, .tsv or .parquet"),
        ("predict birds.npvi test.csv --output test.csv", "is also an input"),
        ("predict test.csv test.csv --output {tmp}/x.csv", "test.csv is not a model saved by npvi"),
        ("predict birds.npvi test.csv --output {tmp}/x.csv --interval 90", "--interval must be between 0 and 1"),
        ("predict birds.npvi test.csv --output {tmp}/x.csv --exposure minutes", "has no column 'minutes'"),
        ("predict birds.npvi nothing.csv --output {tmp}/x.csv", "there is no file nothing.csv"),
        ("predict warmth.npvi test.csv --output {tmp}/x.csv --exposure hours", "does not go with the Gaussian"),
    ],
)
def test_wrong_usage(npvi, command, text, tmp_path):
    done = npvi(command)
    assert done.exit_code == 2
    assert text in done.stderr
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_columns_that_are_taken(npvi, tmp_path):
    assert npvi(PREDICT).exit_code == 0
    done = npvi("predict birds.npvi {tmp}/out.csv --output {tmp}/again.csv")
    assert "already has a column 'mean'; give the new ones another name with --prefix" in done.stderr


def test_table_without_rows(npvi, tmp_path):
    (tmp_path / "header.csv").write_text("lon,lat\n")
    done = npvi("predict birds.npvi {tmp}/header.csv --output {tmp}/out.csv")
    assert done.exit_code == 2
    assert "has no rows" in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_reach_and_what_a_probability_owes_to_the_nugget(npvi, survey, folder, tmp_path):
    """Columns for how far a row is from the data; std and ends of a probability are those of E[link(f + e) | f]."""
    far = survey[240:].assign(lon=lambda table: table["lon"] + np.where(np.arange(60) < 30, 0.0, 1000.0))
    far.to_csv(tmp_path / "far.csv", index=False)
    fit = "fit survey.csv --target present --classify --inputs lon,lat --neighbors 8 --length-scale 12 --no-learn"
    assert npvi(f"{fit} --nugget 1.5 --save {{tmp}}/m.npvi").exit_code == 0
    done = npvi("predict {tmp}/m.npvi {tmp}/far.csv --output {tmp}/out.parquet")
    assert done.exit_code == 0, done.output
    out = pd.read_parquet(tmp_path / "out.parquet")
    dist = library.load(tmp_path / "m.npvi").predict_dist(far[["lon", "lat"]])
    np.testing.assert_array_equal(out["reach_distance"], dist.reach.distance)
    np.testing.assert_array_equal(out["prior_share"], dist.reach.prior_share)
    assert out["prior_share"][30:].min() > 0.95
    rng = np.random.default_rng(0)
    e = np.sqrt(1.5) * rng.standard_normal(4000)
    f = dist.latent_mean[0] + np.sqrt(dist.latent_var[0]) * rng.standard_normal(2000)
    p = special.expit(f[:, None] + e).mean(axis=1)
    assert out["mean"][0] == pytest.approx(p.mean(), abs=0.02)
    assert out["std"][0] == pytest.approx(p.std(), abs=0.02)
    assert out["lower"][0] == pytest.approx(np.quantile(p, 0.05), abs=0.03)
    assert out["upper"][0] == pytest.approx(np.quantile(p, 0.95), abs=0.03)


def test_parquet_with_a_column_twice(npvi, survey, tmp_path):
    twice = pd.concat([survey, survey[["lat"]]], axis=1)
    pq.write_table(
        pa.Table.from_arrays([pa.array(twice.iloc[:, k]) for k in range(8)], names=twice.columns.tolist()),
        tmp_path / "twice.parquet",
    )
    done = npvi("predict birds.npvi {tmp}/twice.parquet --output {tmp}/out.csv --exposure hours")
    assert done.exit_code == 2
    assert "more than one column 'lat'" in done.stderr


@pytest.mark.parametrize("command", ["fit {tmp}/twice.csv --target b --inputs a", "suggest {tmp}/twice.csv"])
def test_csv_with_a_column_twice(npvi, tmp_path, command):
    """pandas calls the second "a.1"; the first was taken without a word."""
    (tmp_path / "twice.csv").write_text("a,a,b\n" + "".join(f"{i},{2 * i},{i % 5}\n" for i in range(50)))
    done = npvi(command)
    assert done.exit_code == 2
    assert "has more than one column 'a': rename or remove all but one" in done.stderr


def test_csv_where_a_column_that_is_not_used_is_there_twice(npvi, tmp_path):
    (tmp_path / "twice.csv").write_text("a,b,c,c\n" + "".join(f"{i},{i % 5},1,2\n" for i in range(50)))
    done = npvi("fit {tmp}/twice.csv --target b --inputs a --no-learn")
    assert done.exit_code == 0, done.stderr


def test_csv_with_more_fields_than_names(npvi, survey, tmp_path):
    header, *lines = survey.to_csv(index=False).splitlines()
    (tmp_path / "wide.csv").write_text("\n".join([header, *(f"{line},more" for line in lines)]))
    done = npvi("predict birds.npvi {tmp}/wide.csv --output {tmp}/out.csv --exposure hours")
    assert done.exit_code == 2
    assert "more fields than there are names of columns, 7" in done.stderr


def test_parquet_that_names_a_type_that_is_none(npvi, survey, tmp_path):
    survey[["lon", "lat", "hours"]].to_parquet(tmp_path / "odd.parquet")
    table = pq.read_table(tmp_path / "odd.parquet")
    said = table.schema.metadata[b"pandas"].replace(b'"float64"', b'"floav64"')
    pq.write_table(table.replace_schema_metadata({b"pandas": said}), tmp_path / "odd.parquet")
    done = npvi("predict birds.npvi {tmp}/odd.parquet --output {tmp}/out.csv --exposure hours")
    assert done.exit_code == 2
    assert "cannot read" in done.stderr
    assert "floav64" in done.stderr


def test_parquet_whose_notes_of_pandas_are_damaged(npvi, folder, tmp_path):
    table = pq.read_table(folder / "test.parquet")
    notes = {
        **table.schema.metadata,
        b"pandas": table.schema.metadata[b"pandas"].replace(b"pandas_type", b"qandas_type"),
    }
    pq.write_table(table.replace_schema_metadata(notes), tmp_path / "odd.parquet")
    done = npvi("score birds.npvi {tmp}/odd.parquet --exposure hours")
    assert done.exit_code in (1, 2)
    assert "as a Parquet file" in done.stderr
    assert "unexpectedly" not in done.stderr


def test_yes_and_no_of_a_text_file_are_the_numbers_that_they_were_in_the_fit(npvi, tmp_path):
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"x": rng.uniform(size=40), "wet": rng.uniform(size=40) < 0.5})
    table["y"] = table["x"] + 3.0 * table["wet"] + 0.1 * rng.standard_normal(40)
    table.to_csv(tmp_path / "table.csv", index=False)
    done = npvi("fit {tmp}/table.csv --formula y~x+wet --save {tmp}/wet.npvi")
    assert done.exit_code == 0, done.output
    done = npvi("predict {tmp}/wet.npvi {tmp}/table.csv --output {tmp}/out.csv")
    assert done.exit_code == 0, done.output
    expected = library.load(tmp_path / "wet.npvi").predict(table)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["mean"], expected, rtol=1e-6)
