"""`python -m ottla` is the command line."""

import sys

from ottla.cli import main

if __name__ == "__main__":
    sys.exit(main())
