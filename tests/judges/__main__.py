"""The command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.judges import suite

parser = argparse.ArgumentParser(prog="python -m tests.judges")
parser.add_argument("name", choices=sorted(suite.SUITES))
parser.add_argument("--tree", type=Path, required=True, help="a checkout of the project, outside of this one")
arguments = parser.parse_args()
sys.exit(suite.run(arguments.name, arguments.tree.resolve()))
