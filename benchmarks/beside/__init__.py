"""The same beside other software."""
