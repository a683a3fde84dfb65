"""What reproduces the paper and nothing else needs: its rivals and its experiments."""
