"""A survey whose truth is known, fitted and drawn: `npvi demo`."""

from npvi.demo.survey import DemoResult, run_demo, simulate_survey

__all__ = ["DemoResult", "run_demo", "simulate_survey"]
