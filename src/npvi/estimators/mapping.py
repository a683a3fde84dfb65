"""What an estimator answers about a map."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from npvi.maps import predict_grid, predict_polygons

__all__ = ["Maps", "MapsNumbers"]


class Maps:
    """One whose predictions can be mapped."""

    def predict_grid(
        self,
        grid: Any = None,
        quantiles: Any = (),
        exceed: Any = (),
        covariates: Any = None,
        bbox: Any = None,
        axes: tuple[str, str] | None = None,
        crs: Any = None,
        within_reach: bool = False,
        mask: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
    ) -> Any:
        """What the model says of each cell of a grid, as an `xarray.Dataset`: see `npvi.maps.predict_grid`.

        Parameters
        ----------
        grid : size of a cell, two arrays of centres, a DataArray or Dataset as template; some 200 cells across unless
            given.
        quantiles, exceed : to map besides mean and standard deviation: ``quantiles=[0.05, 0.95], exceed=5``.
        covariates : inputs that are no places, by name: DataArrays on the grid, or numbers.
        bbox : left, bottom, right, top; the extent of the data unless given.
        axes : names of the inputs that are x and y, where that isn't clear.
        crs : coordinate system of the inputs, which a model fitted to a GeoDataFrame knows.
        within_reach : leave cells empty that are beyond the reach of the data.
        mask : GeoDataFrame; cells outside of its polygons are left empty.
        exposure, trials, noise_variance : as in `predict_dist`; exposure 1 and one trial unless given.
        """
        check_is_fitted(self)
        row = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        return predict_grid(self, grid, quantiles, exceed, covariates, bbox, axes, crs, within_reach, mask, **row)


class MapsNumbers(Maps):
    """One whose responses can be summed besides."""

    def predict_polygons(
        self,
        polygons: Any,
        cell: Any = None,
        level: float = 0.9,
        of: str = "mean",
        covariates: Any = None,
        axes: tuple[str, str] | None = None,
        crs: Any = None,
        seed: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
    ) -> Any:
        """Totals and means of each polygon of a GeoDataFrame, with intervals: see `npvi.maps.predict_polygons`.

        Parameters
        ----------
        polygons : GeoDataFrame.
        cell : size of the cells that a total is summed over, or a template as in `predict_grid`.
        level : probability of the intervals.
        of : "mean", the expected responses, or "response", with the noise of single responses.
        covariates, axes, crs, exposure, trials, noise_variance : as in `predict_grid`.
        seed : of the draws.
        """
        check_is_fitted(self)
        row = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
        return predict_polygons(self, polygons, cell, level, of, covariates, axes, crs, seed, **row)
