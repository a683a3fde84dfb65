"""Gaussian processes with any noise on large data."""

__version__ = "0.1.0"
