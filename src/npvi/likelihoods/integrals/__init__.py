"""What follows from log p(y | f) with f ~ N(m, v): expectations, densities, moments, quantiles."""
