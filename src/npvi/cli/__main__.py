"""``python -m npvi.cli``."""

from npvi.cli import main

if __name__ == "__main__":
    main()
