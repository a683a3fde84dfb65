"""NPVI-NN as published: two graph convolutional networks."""
