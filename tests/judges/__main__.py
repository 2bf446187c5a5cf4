"""The command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.judges import side_by_side
from tests.judges.suite import HEADER, HERE, Verdict, allowlist, run
from tests.judges.suites import SUITES

ALL = "all"


def judge(name: str, tree: Path | None, repository: str) -> Verdict:
    """Run what has the name.

    Args:
        name: A suite, or the examples.
        tree: The checkout of its repository.
        repository: The repository's name, or "" if the source distribution has the tests.
    """
    if repository and (tree is None or not tree.is_dir()):
        allowed = allowlist((HERE / f"{name}.txt").read_text())
        why = f"{name}: no source distribution has its tests; name a checkout of {repository} by --tree or --trees"
        return Verdict.without_tests(f"| `{name}` | not here | {repository} |", allowed, why)
    return run(name, tree) if name in SUITES else side_by_side.run(tree)


def main() -> int:
    """Run the suites, print their table, and return the status of the command."""
    repositories = {name: suite.repository for name, suite in SUITES.items()}
    repositories[side_by_side.NAME] = side_by_side.REPOSITORY
    parser = argparse.ArgumentParser(prog="python -m tests.judges")
    parser.add_argument("name", choices=[ALL, *sorted(repositories)])
    places = parser.add_mutually_exclusive_group()
    places.add_argument("--tree", type=Path, help="a checkout of the suite's repository, outside of this project")
    places.add_argument("--trees", type=Path, help="a folder of checkouts that have the names of their repositories")
    arguments = parser.parse_args()
    verdicts = []
    for name in sorted(repositories) if arguments.name == ALL else [arguments.name]:
        tree = arguments.tree or (arguments.trees and repositories[name] and arguments.trees / repositories[name])
        verdicts.append(judge(name, tree.resolve() if tree else None, repositories[name]))
        print(verdicts[-1].row, flush=True)
    problems = [line for verdict in verdicts for line in verdict.problems]
    print("\n".join([HEADER, *(verdict.row for verdict in verdicts), *problems]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
