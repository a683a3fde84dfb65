"""npvi fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from npvi.cli import fit_options as of
from npvi.cli import settings
from npvi.cli.display import number, say
from npvi.cli.drawing import check_picture, draw_model
from npvi.cli.errors import InputError, guarded
from npvi.cli.fit_formula import FormulaColumns, fit_formula
from npvi.cli.fit_table import Columns, read_rows, split_names
from npvi.cli.fitting import run, save_model, summarise
from npvi.cli.options import Censored, Exposure, NoiseVariance, Trials
from npvi.cli.parts import Given, Parts, check_given, make_likelihood, make_parts
from npvi.cli.tables import check_output
from npvi.cli.tiles import fit_in_tiles

__all__ = ["fit"]


def fit(
    context: typer.Context,
    table: of.TablePath,
    target: of.Target = None,
    inputs: of.Inputs = None,
    formula: of.Formula = None,
    coords: of.Coords = None,
    weight: of.Weight = None,
    drop_missing: of.DropMissing = False,
    exposure: Exposure = None,
    trials: Trials = None,
    noise_variance: NoiseVariance = None,
    censored: Censored = None,
    likelihood: of.Likelihood = None,
    classify: of.Classify = False,
    link: of.Link = None,
    varying_noise: of.VaryingNoise = False,
    kernel: of.Kernel = "matern",
    method: of.Method = "full",
    network: of.Network = "sites",
    refine: of.Refine = 0,
    optimizer: of.Optimizer = "closed",
    prior: of.Prior = "nngp",
    inducing: of.Inducing = 200,
    mean: of.Mean = None,
    coefficient_scale: of.CoefficientScale = "weak",
    weak_priors: of.WeakPriors = True,
    hyper: of.Hyper = "auto",
    learn: of.Learn = None,
    fix: of.Fix = None,
    length_scale: of.LengthScale = None,
    variance: of.Variance = None,
    noise: of.Noise = None,
    nugget: of.Nugget = None,
    neighbors: of.Neighbors = None,
    rule: of.Rule = "nearest",
    order: of.Order = "maximin",
    grid: of.Grid = None,
    validation: of.Validation = 0.125,
    seed: of.Seed = 0,
    threads: of.Threads = None,
    max_iter: of.MaxIter = 200,
    epochs: of.Epochs = None,
    checkpoint: of.Checkpoint = None,
    save: of.Save = None,
    plot: of.Plot = None,
    store: of.Store = None,
    memory: of.Memory = "4GB",
) -> None:
    """Fit a model to a table.

    The numbers of the model are learned from the data, unless you fix them, and shown at the end.

    \b
    [bold]Examples[/bold]
    Counts of a bird at places on a map, with hours of watching:
      npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson \\
          --exposure hours --save birds.npvi
    The same with forest and height as covariates, and the length scale held:
      npvi fit survey.csv --target count --inputs lon,lat,forest,height --coords lon,lat \\
          --likelihood negative_binomial --exposure hours --fix length_scale=0.5
    Seeds that germinated, of those sown:
      npvi fit plots.csv --target germinated --trials sown --inputs x,y --likelihood binomial
    Let validation choose the length scale and the nugget:
      npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson \\
          --grid length_scale=0.1,0.5,2 --grid nugget=0.01,0.1
    Rain, which mountains make hard to predict and plains easy:
      npvi fit rain.csv --target may --inputs lon,lat --likelihood lognormal --varying-noise
    Present or absent, quickly, with numbers of your own:
      npvi fit survey.parquet --target present --inputs lon,lat --classify --no-learn --length-scale 0.5
    A map of what was learned, at once:
      npvi fit survey.csv --target count --inputs lon,lat --likelihood poisson --plot map.png
    A sum of parts, as in R: a smooth of depth, an effect of each observer, a surface:
      npvi fit survey.csv --formula "count ~ forest + s(depth) + (1|observer) + gp(lon, lat)" \\
          --likelihood negative_binomial --save birds.npvi
    One of several species, with a probability for each:
      npvi fit trees.csv --target species --inputs x,y --classify --save trees.npvi
    More rows than memory, from many files; the same command goes on after a failure:
      npvi fit "survey/*.parquet" --target count --inputs lon,lat --likelihood poisson \\
          --store birds.npvi/ --memory 4GB

    \b
    [bold]Exit status[/bold]
    0 fitted (a fit that has not converged says so); 1 the computation failed;
    2 wrong usage or input; 130 interrupted: with --save the last
    good state is kept, and a model that is being written is completed
    """
    with guarded("fit"):
        if save is not None:
            check_output(save, table=False, inputs=[table])
        if formula is not None:
            changed = {
                "--target": target,
                "--inputs": inputs,
                "--coords": coords,
                "--classify": classify or None,
                "--varying-noise": varying_noise or None,
                "--kernel": None if kernel == "matern" else kernel,
                "--method": None if method == "full" else method,
                "--prior": None if prior == "nngp" else prior,
                "--optimizer": None if optimizer == "closed" else optimizer,
                "--mean": mean,
                "--fix": fix,
                "--length-scale": length_scale,
                "--variance": variance,
                "--noise": noise,
                "--nugget": nugget,
                "--neighbors": neighbors,
                "--grid": grid,
                "--plot": plot,
            }
            extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored}
            options = {
                "link": link,
                "learn": learn is not False,
                "coefficient_scale": settings.parse_coefficient_scale(coefficient_scale),
                "hyperprior": "weak" if weak_priors else None,
                "hyper": hyper,
                "random_state": seed,
                "n_jobs": threads,
            }
            columns_of_rows = FormulaColumns(formula, extras, weight, drop_missing)
            fit_formula(table, columns_of_rows, changed, likelihood or "gaussian", options, save)
            return
        if plot is not None:
            check_picture(plot, [table])
        if target is None or inputs is None:
            raise InputError("give --target and --inputs, or --formula")
        if likelihood == "softmax":  # what several labels have in any case
            likelihood, classify = None, True
        name = _likelihood_name(likelihood, classify)
        given = Given(
            None if length_scale is None else settings.parse_numbers(length_scale, "--length-scale"),
            variance,
            noise,
            nugget,
            settings.parse_fixed(fix or []),
        )
        tries = settings.parse_grid(grid or [])
        if tries and learn:
            raise InputError("--grid tries values instead of learning them; leave --learn out")
        learn = not tries if learn is None else learn
        # the cuts of an ordinal likelihood are the level already
        mean = mean or ("zero" if name == "ordinal" else "constant")
        settings.check_choices(
            {"--mean": mean, "--rule": rule, "--order": order, "--method": method, "--optimizer": optimizer}
        )
        gradients = settings.make_optimizer(optimizer, method, epochs, checkpoint)
        settings.check_choices({"--prior": prior})
        settings.check_varying_noise(varying_noise, name, learn, noise_variance)
        noisy = make_likelihood(name, link)
        check_given(given, kernel, noisy)
        if store is not None:
            fit_in_tiles(
                context,
                str(table),
                store,
                memory,
                given,
                noisy,
                kernel,
                name,
                {"target": target, "inputs": inputs, "exposure": exposure, "trials": trials, "link": link},
                {
                    "mean": mean,
                    "learn": learn,
                    "coords": None if coords is None else split_names(coords, "--coords"),
                    "coefficient_scale": settings.parse_coefficient_scale(coefficient_scale),
                    "hyperprior": "weak" if weak_priors else None,
                    "n_neighbors": neighbors or 20,
                    "n_jobs": threads,
                    "random_state": seed,
                    "max_iter": max_iter,
                },
            )
            return
        columns = Columns(
            split_names(inputs, "--inputs"),
            None if coords is None else split_names(coords, "--coords"),
            target,
            {"exposure": exposure, "trials": trials, "noise_variance": noise_variance, "censored": censored},
            weight,
        )
        rows, noisy = read_rows(table, columns, noisy, classify, drop_missing)
        seen = rows.X[columns.coords or columns.inputs].to_numpy()
        parts = make_parts(given, kernel, noisy, name, seen, _codes(rows.y, classify), rows.extras, learn, link is None)
        if not learn:
            _say_what_was_chosen(parts, tries)
        model = _estimator(classify)(
            likelihood=parts.likelihood,
            kernel=parts.kernel,
            nugget=parts.nugget,
            mean=mean,
            method=method,
            network=settings.make_network(network, refine, method),
            refine=refine,
            optimizer=gradients,
            prior=prior,
            n_inducing=inducing,
            learn=learn,
            coords=columns.coords,
            coefficient_scale=settings.parse_coefficient_scale(coefficient_scale),
            hyperprior="weak" if weak_priors else None,
            hyper=hyper,
            n_neighbors="auto" if neighbors is None else neighbors,
            rule=rule,
            order=order,
            random_state=seed,
            n_jobs=threads,
            max_iter=max_iter,
        )
        if varying_noise:
            from npvi.estimators import VaryingNoiseRegressor

            model = VaryingNoiseRegressor(model)
        notes = {"table": table.name, "target": target, "weight": weight, **columns.extras}
        model = run(model, rows, tries, validation, save, notes)
        if save is not None:
            save_model(model, save, notes)
        summarise(model, rows, target, exposure, save)
        if plot is not None:
            draw_model(model, plot, target)


def _likelihood_name(likelihood: str | None, classify: bool) -> str:
    if classify and likelihood not in (None, "bernoulli"):
        raise InputError(f"--classify goes with the bernoulli likelihood (or softmax), not {likelihood}")
    return likelihood or ("bernoulli" if classify else "gaussian")


def _estimator(classify: bool) -> Any:
    from npvi.estimators import GPClassifier, GPRegressor

    return GPClassifier if classify else GPRegressor


def _codes(y: NDArray, classify: bool) -> NDArray[np.float64]:
    return np.unique(y, return_inverse=True)[1].astype(np.float64) if classify else y


def _say_what_was_chosen(parts: Parts, tries: dict[str, list[float]]) -> None:
    chosen = [
        text for text in parts.chosen if not (text.startswith("length scale") and "kernel__length_scale" in tries)
    ]
    if chosen:
        say(f"Taken from the data: {'; '.join(chosen)}.")
    if parts.length_scale is not None and not tries:
        options = ",".join(number(factor * parts.length_scale, 3) for factor in (0.25, 0.5, 1.0, 2.0))
        say(
            "These are only a start: leave --no-learn out, or let validation choose with --grid "
            f"length_scale={options}",
            style="dim",
        )
