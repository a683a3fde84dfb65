"""Maps: grids and rasters, polygons, tables that know their coordinate system; what to show of a prediction on them.

Models are known by what they answer (`predict_dist`, the names of their inputs). xarray, rioxarray and geopandas, the
extra ``geo``, are imported when they are needed.
"""

from npvi.maps.borders import borders
from npvi.maps.frames import geometry_columns, is_geo_frame, place_names
from npvi.maps.grid import Grid, bands_of, is_xarray, read_raster
from npvi.maps.inputs import Inputs, are_degrees, as_label, inputs_of, training_inputs, with_medians
from npvi.maps.polygons import predict_polygons
from npvi.maps.predicting import predict_grid
from npvi.maps.projections import axis_unit, is_geographic
from npvi.maps.surfaces import check_levels, check_thresholds, described, exceed_name, label_names, surfaces
from npvi.maps.writing import FORMATS, write_map

__all__ = [
    "FORMATS",
    "Grid",
    "Inputs",
    "are_degrees",
    "as_label",
    "axis_unit",
    "bands_of",
    "borders",
    "check_levels",
    "check_thresholds",
    "described",
    "exceed_name",
    "geometry_columns",
    "inputs_of",
    "is_geo_frame",
    "is_geographic",
    "is_xarray",
    "label_names",
    "place_names",
    "predict_grid",
    "predict_polygons",
    "read_raster",
    "surfaces",
    "training_inputs",
    "with_medians",
    "write_map",
]
