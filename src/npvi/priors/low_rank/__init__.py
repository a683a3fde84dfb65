"""Priors whose points have all in common that goes through inducing points (FITC, Nyström)."""
