"""``python -m crs_lib COMMAND``: run notebooks, sweeps and the rest without leaving the terminal."""

import sys

from crs_lib.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
