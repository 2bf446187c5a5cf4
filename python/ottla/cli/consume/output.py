"""Where the records go that `consume` has read: a format, and a file or standard output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ottla.cli.consume.decoding import Decoding
from ottla.cli.formats.raw import RawSink
from ottla.cli.formats.rows import Rows
from ottla.cli.formats.sink import Sink
from ottla.errors import ArgumentError

FORMATS = ("raw", "json", "csv", "arrow", "parquet")


@contextmanager
def opened(options: argparse.Namespace, decoding: Decoding) -> Iterator[Sink]:
    """The format that the options choose, on the file that they choose.

    Whatever ends the command, what was written is a whole file, unless its reader left.

    Raises:
        ArgumentError: The options do not fit together, or the file is not one for a terminal.
        OSError: The file cannot be written.
    """
    check(options)
    if options.output is None:
        yield from _closing(sink_of(options, sys.stdout.buffer, decoding))
        return
    with Path(options.output).open("wb") as out:
        yield from _closing(sink_of(options, out, decoding))


def _closing(sink: Sink) -> Iterator[Sink]:
    try:
        yield sink
    except BrokenPipeError:
        raise
    except BaseException:
        sink.close()
        raise
    sink.close()


def check(options: argparse.Namespace) -> None:
    """Refuse options that the format does not have.

    Raises:
        ArgumentError: There is one. The text names it.
    """
    name = options.format
    if options.template is not None and name is not None:
        raise ArgumentError("-f is a format of its own: leave --format out")
    if options.columns and name not in {"csv", "arrow", "parquet"}:
        raise ArgumentError("--columns is for --format csv, arrow and parquet; --without is for json")
    if options.without and name != "json":
        raise ArgumentError("--without is for --format json; --columns is for csv, arrow and parquet")
    if options.separator is not None and name not in {None, "raw"}:
        raise ArgumentError("--separator is for --format raw")
    if name in {"arrow", "parquet"} and options.output is None and sys.stdout.isatty():
        raise ArgumentError(f"{name} is not for a terminal: add --output FILE, or redirect the output")


def sink_of(options: argparse.Namespace, out: IO[bytes], decoding: Decoding) -> Sink:
    """The format that the options choose."""
    if options.template is not None:
        from ottla.cli.formats.template import TemplateSink

        return TemplateSink(out, options.template, decoding.texts if decoding.active else None)
    name = options.format or "raw"
    if name == "json":
        from ottla.cli.formats.envelope import EnvelopeSink

        return EnvelopeSink(out, decoding.objects if decoding.active else None, options.without or ())
    if name == "raw":
        if decoding.active:
            from ottla.cli.formats.template import TemplateSink

            separator = "".join(f"\\x{byte:02x}" for byte in options.separator or b"\n")
            return TemplateSink(out, f"%v{separator}", decoding.texts)
        return RawSink(out, options.separator or b"\n")
    from ottla.cli.formats import table

    table.needed()
    if name == "csv":
        return table.CsvSink(out, _columns(options.columns, lambda rows: table.csv_table(rows, decoding.objects)))
    kind = table.ArrowSink if name == "arrow" else table.ParquetSink
    if decoding.active:
        return kind(out, _columns(options.columns, decoding.table))
    return kind(out, lambda rows: rows.table(options.columns))


def _columns(names: Sequence[str] | None, made: Callable[[Rows], Any]) -> Callable[[Rows], Any]:
    """Only some of the columns that are made."""
    if not names:
        return made

    def chosen(rows: Rows) -> Any:
        table = made(rows)
        if unknown := [name for name in names if name not in table.column_names]:
            raise ArgumentError(f"there is no column {unknown[0]}: {', '.join(table.column_names)}")
        return table.select(names)

    return chosen
