"""How long it takes."""
