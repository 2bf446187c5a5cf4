"""The command line: `ottla broker`, `topics`, `produce`, `consume`, `decode`, `config`. A module each."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

import ottla
from ottla.cli import arguments, broker, config, consume, decode, produce, topics

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def main(given: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        given: The command line, without the program's name; `sys.argv` if not given.

    Returns:
        The exit code: 0 if all went well, 1 if the command failed, 130 after Ctrl-C. Wrong usage exits with 2.
    """
    options = _parser().parse_args(given)
    try:
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ottla.KafkaError, OSError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla",
        description="Kafka from the command line.",
        epilog=arguments.text(
            """
            try it, in two terminals:
              ottla broker --topic flights:4
              echo hello | ottla produce -t flights
              ottla consume -t flights --beginning --format json --max 1
            """
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ottla {ottla.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (broker, topics, produce, consume, decode, config):
        module.add(commands)
    return parser
