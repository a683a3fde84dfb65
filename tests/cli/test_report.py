"""npvi report."""

from __future__ import annotations

import html

import pytest
from sklearn.preprocessing import StandardScaler

from npvi import GPRegressor, Pipeline
from npvi.kernels import Matern32


def test_page_of_a_model_and_of_test_rows(npvi, tmp_path):
    done = npvi("report birds.npvi --grid 10 --exceed 2 -o {tmp}/alone.html")
    assert done.exit_code == 0, done.output
    assert "report: " in done.stderr
    alone = (tmp_path / "alone.html").read_text(encoding="utf-8")
    assert "each predicted from all others" in alone
    done = npvi("report birds.npvi --data test.csv --grid 10 -o {tmp}/tested.html", "--title", "Birds <3 & more")
    assert done.exit_code == 0, done.output
    assert "taken as exposure" in done.stderr
    tested = (tmp_path / "tested.html").read_text(encoding="utf-8")
    assert "60 rows that the model hasn&#x27;t seen" in tested or "60 rows that the model hasn't seen" in tested
    assert html.escape("Birds <3 & more") in tested


def test_labels(npvi, tmp_path):
    done = npvi("report present.npvi --data test.csv --grid 10 -o {tmp}/page.html")
    assert done.exit_code == 0, done.output
    assert "probability of yes" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_pipelines_take_the_columns_of_the_table(npvi, survey, tmp_path):
    gp = GPRegressor(kernel=Matern32(0.5), learn=False, n_neighbors=8)
    scaled = Pipeline([("scale", StandardScaler()), ("gp", gp)])
    scaled.fit(survey[["lon", "lat"]][:240], survey["temperature"][:240]).save(tmp_path / "scaled.npvi")
    for options in ("", "--data test.csv"):
        done = npvi(f"report {{tmp}}/scaled.npvi {options} --target temperature --grid 10 -o {{tmp}}/page.html")
        assert done.exit_code == 0, done.output
        text = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "rows of lon, lat. Before it came StandardScaler." in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-o {tmp}/page.pdf", "--output must end in .html"),
        ("-o {tmp}/no/page.html", "does not exist"),
        ("--data no.csv -o {tmp}/page.html", "no.csv"),
        ("--exposure hours -o {tmp}/page.html", "--exposure names a column of a table: give --data"),
        ("--grid 1e-9 -o {tmp}/page.html", "GB for each number"),
        ("--like no.tif --grid 1 -o {tmp}/page.html", "leave out --grid"),
        ("--exceed many -o {tmp}/page.html", "--exceed must be numbers"),
        ("--at year=3 -o {tmp}/page.html", "has no input 'year'"),
        ("--data survey.csv --target nothing -o {tmp}/page.html", "nothing"),
    ],
)
def test_what_cannot_be_is_said(npvi, tmp_path, options, words):
    done = npvi(f"report birds.npvi {options}")
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split()), done.output
    assert not list(tmp_path.iterdir())
