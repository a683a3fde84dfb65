"""What the posterior's covariance may be: all covariances, or the paper's."""
