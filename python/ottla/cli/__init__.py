"""The command line: `ottla broker`, `topics`, `produce`, `consume`, `decode`, `config`, `ingest`. A module each."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

import ottla
from ottla.cli import arguments, broker, config, consume, decode, ingest, produce, signals, streams, topics

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def main(given: Sequence[str] | None = None) -> int:
    """Run a command. Warnings of the loggers `ottla.*` go to standard error; `-v` adds INFO and `-vv` DEBUG.

    Args:
        given: The command line, without the program's name; `sys.argv` if not given.

    Returns:
        The exit code: 0 if all went well, 1 if the command failed, 130 after Ctrl-C, 143 after SIGTERM. Wrong usage
        exits with 2.
    """
    streams.prepare()
    parser = _parser()
    options = parser.parse_args(given)
    arguments.refuse_strays(parser, options)
    logging.basicConfig(
        level=LEVELS[min(arguments.verbose(options), len(LEVELS) - 1)],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    try:
        with signals.terminable():
            options.run(options)
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        return EXIT_TERMINATED if isinstance(error, signals.Terminated) else EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough.
        streams.discard_output()
        return 0
    except (ottla.KafkaError, OSError) as error:
        return _failed(str(error))
    except UnicodeEncodeError as error:
        if not any("\udc80" <= letter <= "\udcff" for letter in error.object):
            raise
        # Python keeps bytes of the command line that the locale has no letters for as such halves of surrogates.
        return _failed(
            f"{error.object!a} of the command line is not text in this locale's encoding, "
            f"{sys.getfilesystemencoding()}: Kafka's names are UTF-8, so set LC_ALL=C.UTF-8"
        )
    return 0


def _failed(text: str) -> int:
    streams.print_error(f"ottla: {text}")
    try:
        sys.stdout.flush()
    except OSError:
        streams.discard_output()
    return EXIT_FAILED


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

            `ottla COMMAND --help` has examples of each command.
            """
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ottla {ottla.__version__}")
    arguments.verbosity(parser)
    arguments.client(parser)
    parser.set_defaults(takes=())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    for module in (broker, topics, produce, consume, decode, ingest, config):
        module.add(commands)
    return parser
