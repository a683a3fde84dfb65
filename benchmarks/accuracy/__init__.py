"""How right it is."""
