"""The command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.judges import side_by_side, suite

parser = argparse.ArgumentParser(prog="python -m tests.judges")
parser.add_argument("name", choices=sorted([*suite.SUITES, side_by_side.NAME]))
parser.add_argument("--tree", type=Path, required=True, help="a checkout of the project, outside of this one")
arguments = parser.parse_args()
tree = arguments.tree.resolve()
sys.exit(side_by_side.run(tree) if arguments.name == side_by_side.NAME else suite.run(arguments.name, tree))
