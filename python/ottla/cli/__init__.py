"""The command line: `commands` lists its commands, which are a module each."""

from __future__ import annotations

import gc
import sys

import ottla
from ottla.cli import arguments, commands, streams

TYPE_CHECKING = False  # as in `ottla`: help is printed without `typing`
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
# New objects before Python looks for garbage in them, instead of 700.
YOUNG = 50_000
LEVELS = ("WARNING", "INFO", "DEBUG")


def main(given: Sequence[str] | None = None) -> int:
    """Run a command. Warnings of the loggers `ottla.*` go to standard error; `-v` adds INFO and `-vv` DEBUG.

    Args:
        given: The command line, without the program's name; that of the process if not given.

    Returns:
        The exit code: 0 if all went well, 1 if the command failed, 130 after Ctrl-C, 143 after SIGTERM. Wrong usage
        exits with 2.
    """
    if given is None:
        # Imports make so many objects that Python would look for garbage in them again and again, and there is none.
        gc.set_threshold(YOUNG)
    try:
        return _run(sys.argv[1:] if given is None else list(given))
    finally:
        if given is None:
            # The program ends. Otherwise Python would look for garbage in all modules first, for 20 ms.
            gc.freeze()


def _run(words: Sequence[str]) -> int:
    streams.prepare()
    try:
        options = _parsed(words)
    except BrokenPipeError:
        streams.discard_output()
        return 0
    import logging  # after the parser, which ends the program for `--help`

    from ottla.cli import signals

    logging.basicConfig(
        level=LEVELS[min(arguments.verbose(options), len(LEVELS) - 1)],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    try:
        with signals.terminable():
            options.run(options)
            sys.stdout.flush()
        if options.failures:
            return _failed(options, options.failures)
    except KeyboardInterrupt as error:
        return EXIT_TERMINATED if isinstance(error, signals.Terminated) else EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough.
        streams.discard_output()
        return 0
    except (ottla.KafkaError, OSError) as error:
        failures = getattr(error, "failures", None) or {"": error}
        return _failed(options, {**options.failures, **failures})
    except UnicodeEncodeError as error:
        if not any("\udc80" <= letter <= "\udcff" for letter in error.object):
            raise
        # Python keeps bytes of the command line that the locale has no letters for as such halves of surrogates.
        text = (
            f"{error.object!a} of the command line is not text in this locale's encoding, "
            f"{sys.getfilesystemencoding()}: Kafka's names are UTF-8, so set LC_ALL=C.UTF-8"
        )
        return _failed(options, {"": ottla.errors.ConfigError(text)})
    return 0


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = commands.root(f"ottla {ottla.__version__}", words)
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(2)
    try:
        options, strays = parser.parse_known_args(words)
    except SystemExit as end:
        if not end.code:
            # A reader of the help that has seen enough is no error at the end of Python either.
            sys.stdout.flush()
        raise
    if strays:
        options.parser.refuse(strays)
    arguments.refuse_strays(parser, options)
    arguments.finish(options)
    return options


def _failed(options: argparse.Namespace, failures: Mapping[Any, Exception]) -> int:
    from ottla.cli import output

    try:
        output.report(options, failures)
        sys.stdout.flush()
    except OSError:
        streams.discard_output()
    return EXIT_FAILED
