"""A survey whose truth is known, fitted and drawn: `npvi demo`."""
