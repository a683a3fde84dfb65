"""Hyper-parameters: from the data's own scales to those with the largest bound, and what isn't known about them."""
