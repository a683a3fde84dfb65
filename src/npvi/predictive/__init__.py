"""The distribution of new responses: of one model, of several, of labels, where the noise varies; sums of many."""
