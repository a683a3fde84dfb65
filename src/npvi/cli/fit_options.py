"""The options of npvi fit, panel by panel of its help."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from npvi.cli.options import described
from npvi.cli.settings import kernel_names, likelihood_names

__all__ = [
    "Checkpoint",
    "Classify",
    "CoefficientScale",
    "Coords",
    "DropMissing",
    "Epochs",
    "Fix",
    "Formula",
    "Grid",
    "Hyper",
    "Inducing",
    "Inputs",
    "Kernel",
    "Learn",
    "LengthScale",
    "Likelihood",
    "Link",
    "MaxIter",
    "Mean",
    "Memory",
    "Method",
    "Neighbors",
    "Network",
    "Noise",
    "Nugget",
    "Optimizer",
    "Order",
    "Plot",
    "Prior",
    "Refine",
    "Rule",
    "Save",
    "Seed",
    "Store",
    "TablePath",
    "Target",
    "Threads",
    "Validation",
    "Variance",
    "VaryingNoise",
    "WeakPriors",
    "Weight",
]

_data = partial(described, panel="Data")
_model = partial(described, panel="Model")
_numbers = partial(described, panel="Numbers of the model")
_search = partial(described, panel="Choosing numbers by validation")
_run = partial(described, panel="Running")

TablePath = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV, TSV or Parquet file with one row per observation; with --store Parquet files, a pattern or folder.",
    ),
]

# -- data -------------------------------------------------------------------------------------------------------------

Target = Annotated[str | None, _data("COLUMN", "Column to model.")]
Inputs = Annotated[str | None, _data("COLUMNS", "Columns to model it by, such as lon,lat.")]
Formula = Annotated[
    str | None,
    _data(
        "TEXT",
        'Instead of both, what the target is a sum of: "count ~ forest + s(depth) + (1|observer) + gp(lon, lat) + '
        'offset(log(hours))".',
    ),
]
Coords = Annotated[
    str | None,
    _data("COLUMNS", "The inputs that say where, such as lon,lat; the others become covariates with a linear effect."),
]
Weight = Annotated[str | None, _data("COLUMN", "Column of weights of the rows.")]
DropMissing = Annotated[bool, _data(None, "Leave out rows with missing values.", "--drop-missing")]

# -- model ------------------------------------------------------------------------------------------------------------

Likelihood = Annotated[
    str | None,
    _model(
        "NAME",
        "What the target is; gaussian unless given. " + likelihood_names(),
        show_default=False,
    ),
]
Classify = Annotated[bool, _model(None, "The target is a label, of any kind.", "--classify")]
Link = Annotated[
    str | None,
    _model("NAME", "Counts: exp or softplus, else the data choose (exp with --formula); 0/1: logit or probit."),
]
Kernel = Annotated[
    str,
    _model("NAME", kernel_names()),
]
Method = Annotated[
    str,
    _model(
        "NAME",
        "full: the best Gaussian posterior; npvi: the paper's, faster, whose variances are too small where "
        "single rows say little; npvi-nn: as npvi, but recognised by a network, with a verdict: how far from full.",
    ),
]
Network = Annotated[
    str,
    _model(
        "NAME|FILE",
        "With --method npvi-nn: sites (trained on patches of the table), pretrained (comes with npvi), gcn "
        "(the paper's), or a file that Recognizer.save wrote.",
    ),
]
Refine = Annotated[int, _model("N", "With --method npvi-nn: finishing sweeps.", min=0, max=3)]
Optimizer = Annotated[
    str,
    _model(
        "NAME",
        "How the posterior of --method npvi is found: closed (by closed forms, fast), sgd (by stochastic "
        "gradients, the paper's AdaGrad) or adam.",
    ),
]
Prior = Annotated[
    str,
    _model(
        "NAME",
        "nngp: each point looks at its neighbours; fitc or nystrom: all points share inducing points, which "
        "follow broad, smooth surfaces only.",
    ),
]
Inducing = Annotated[
    int, _model("N", "Inducing points of --prior fitc and nystrom; more is slower and closer to exact.", min=1)
]
Mean = Annotated[
    str | None, _model("NAME", "Level far from all data: constant (unless given), zero, or linear in the inputs.")
]
CoefficientScale = Annotated[
    str,
    _model(
        "NUMBER", "Prior standard deviation of the covariates' coefficients; or weak (wide, in their units), or flat."
    ),
]
WeakPriors = Annotated[
    bool,
    _model(
        None,
        "Weak priors of length scales and standard deviations, in the data's own units; or maximum likelihood.",
        "--weak-priors/--no-priors",
    ),
]
Hyper = Annotated[
    str,
    _model(
        "HOW",
        "What isn't known of the learned numbers: integrate mixes predictions over some of them, plug-in takes the "
        "best; auto integrates where rows are few.",
    ),
]
VaryingNoise = Annotated[
    bool,
    _model(
        None,
        "Learn how large gaussian or lognormal noise is from place to place; takes ten times as long, or more.",
        "--varying-noise",
    ),
]
Neighbors = Annotated[
    int | None,
    _model(
        "N",
        "Neighbours each point looks at; more is slower and closer to exact. 20, or 40 for up to 10,000 rows with more "
        "than three inputs.",
        min=1,
    ),
]
Rule = Annotated[str, _model("NAME", "How neighbours are chosen: nearest or paper.")]
Order = Annotated[str, _model("NAME", "Order of the points: maximin, grid, nested, random or given.")]

# -- numbers of the model ---------------------------------------------------------------------------------------------

Learn = Annotated[
    bool | None,
    _numbers(
        None,
        "Learn the numbers of the model (unless --grid is given), or take them as they are.",
        "--learn/--no-learn",
    ),
]
Fix = Annotated[
    list[str] | None,
    _numbers(
        "NAME=VALUE",
        "A number that is not learned, such as length_scale=0.5; repeat it for variance=…, nugget=…, noise=… "
        "or a number of the likelihood such as dispersion=….",
    ),
]
LengthScale = Annotated[
    str | None,
    _numbers(
        "NUMBERS",
        "Distance over which values resemble each other, in the units of the inputs; one number, or one per "
        "input such as 0.5,1.0. Like the next three it is where learning starts.",
    ),
]
Variance = Annotated[
    float | None, _numbers("NUMBER", "How much the surface varies (on the scale of the log for counts).", min=0)
]
Noise = Annotated[float | None, _numbers("NUMBER", "Variance of gaussian noise, or of log y for lognormal.", min=0)]
Nugget = Annotated[float | None, _numbers("NUMBER", "Variation of single rows that neighbours don't share.", min=0)]

# -- choosing numbers by validation -----------------------------------------------------------------------------------

Grid = Annotated[
    list[str] | None,
    _search(
        "NAME=VALUES",
        "Values to try instead of learning, such as length_scale=0.05,0.1,0.5; repeat it for variance=…, "
        "nugget=… and noise=….",
    ),
]
Validation = Annotated[float, _search("SHARE", "Share of the rows to validate on.")]

# -- running ----------------------------------------------------------------------------------------------------------

Seed = Annotated[int, _run("N", "Same seed, same result.", min=0)]
Threads = Annotated[int | None, _run("N", "Processor cores to use; all unless given.", min=1)]
MaxIter = Annotated[int, _run("N", "Most iterations.", min=1)]
Epochs = Annotated[int | None, _run("N", "With --optimizer sgd or adam: passes through the table.", min=1)]
Checkpoint = Annotated[
    Path | None,
    _run(
        "FILE",
        "With --optimizer sgd or adam: file that keeps where training is; the same command goes on from it.",
    ),
]
Store = Annotated[
    Path | None,
    _run(
        "FOLDER", "Fit in tiles, for tables larger than memory, and keep the model in this folder; again, it goes on."
    ),
]
Memory = Annotated[str, _run("SIZE", "With --store: what may be taken, such as 4GB.")]
Save = Annotated[Path | None, _run("FILE", "File to save the model to, such as model.npvi.")]
Plot = Annotated[
    Path | None,
    _run(
        "FILE",
        "Picture to write: a map, or where inputs are no places how well rows are predicted.",
    ),
]
