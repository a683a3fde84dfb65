"""What a predictor is a sum of, as users say it: terms, formulas, and what they become once there is a table."""

from npvi.terms.base import Setting, TermPart
from npvi.terms.design import Design, check_terms, total_offset
from npvi.terms.field import FieldPart, SurfacePart
from npvi.terms.formula import Formula, FormulaError, parse
from npvi.terms.group import GroupPart
from npvi.terms.linear import LinearPart
from npvi.terms.plain import term_config, term_from_config
from npvi.terms.records import AR1, Field, Group, Linear, Offset, RandomWalk, Smooth, Term, Varying
from npvi.terms.smooth import SmoothPart
from npvi.terms.table import as_frame, names_in, ordered_levels

__all__ = [
    "AR1",
    "Design",
    "Field",
    "FieldPart",
    "Formula",
    "FormulaError",
    "Group",
    "GroupPart",
    "Linear",
    "LinearPart",
    "Offset",
    "RandomWalk",
    "Setting",
    "Smooth",
    "SmoothPart",
    "SurfacePart",
    "Term",
    "TermPart",
    "Varying",
    "as_frame",
    "check_terms",
    "names_in",
    "ordered_levels",
    "parse",
    "term_config",
    "term_from_config",
    "total_offset",
]
