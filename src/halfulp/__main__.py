"""``python -m halfulp``: the command line."""

import sys

from halfulp.cli import main

if __name__ == "__main__":
    sys.exit(main())
