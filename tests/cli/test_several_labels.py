"""A column with three labels, from fit to score."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from npvi.io.persistence import load

FIT = (
    "fit {tmp}/trees.csv --target kind --inputs lon,lat --neighbors 8 --length-scale 12 --no-learn --save {tmp}/m.npvi"
)


@pytest.fixture(params=[["few", "many", "none"], [1, 5, 3]], ids=["text", "numbers"])
def table(request, survey, tmp_path):
    kind = np.array(request.param)[np.digitize(survey["count"], [1, 4])]
    table = survey.assign(kind=kind)
    table[:240].to_csv(tmp_path / "trees.csv", index=False)
    table[240:].to_csv(tmp_path / "new.csv", index=False)
    return table


@pytest.mark.parametrize("how", ["--classify", "--likelihood softmax"])
def test_fit_predict_and_score(npvi, table, tmp_path, how):
    done = npvi(f"{FIT} {how}")
    assert done.exit_code == 0, done.output
    names = sorted(set(table["kind"]))
    assert ", ".join(map(str, names)) in done.stdout
    assert f"constant mean[{names[0]}]" in done.stdout
    model = load(tmp_path / "m.npvi")
    assert model.classes_.tolist() == names

    done = npvi("predict {tmp}/m.npvi {tmp}/new.csv --output {tmp}/out.csv")
    assert done.exit_code == 0, done.output
    out = pd.read_csv(tmp_path / "out.csv")
    columns = [f"p_{name}" for name in names]
    assert out.columns.tolist()[-7:] == [*columns, "label", "probability", "reach_distance", "prior_share"]
    places = table[["lon", "lat"]][240:]
    np.testing.assert_allclose(out[columns], model.predict_proba(places), rtol=1e-7)
    assert out["label"].tolist() == model.predict(places).tolist()
    np.testing.assert_allclose(out["probability"], out[columns].max(axis=1))

    done = npvi("score {tmp}/m.npvi {tmp}/new.csv --json")
    assert done.exit_code == 0, done.output
    scores = json.loads(done.stdout)
    labels = table["kind"][240:]
    assert scores["accuracy"] == pytest.approx(model.score(places, labels))
    assert scores["mean_log_density"] == pytest.approx(model.log_score(places, labels))
    assert 0.0 < scores["brier"] < 1.0
    assert "summed over the labels" in npvi("score {tmp}/m.npvi {tmp}/new.csv").stdout
    assert npvi("info {tmp}/m.npvi").exit_code == 0


def test_what_cannot_be_done(npvi, table, tmp_path):
    assert npvi(f"{FIT} --classify").exit_code == 0
    done = npvi("diagnose {tmp}/m.npvi {tmp}/new.csv")
    assert done.exit_code == 2
    assert "this one has 3 labels" in done.output
    table[240:].assign(kind="77").to_csv(tmp_path / "new.csv", index=False)
    done = npvi("score {tmp}/m.npvi {tmp}/new.csv")
    assert done.exit_code == 2
    assert "holds '77', but the model only knows" in done.output
