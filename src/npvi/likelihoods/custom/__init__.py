"""A likelihood of your own, from a function log p(y | f)."""
