"""One observation model per file."""
