"""`ottla ingest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.cli import arguments, output
from ottla.errors import ConfigError

if TYPE_CHECKING:
    import argparse

CHECKED = output.columns("file", "name", "table", "trigger", "checkpoint")
DONE = output.columns("name", "table", "records:number", "batches:number", "bad:number", "behind:number", "stopped")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "ingest",
        "write topics into a Parquet, Delta or Iceberg table with Spark, configured by a TOML file",
        """
        ottla ingest --example > orders.toml     # a file with comments, to begin with
        ottla ingest --check orders.toml         # checks names and values; needs no broker, starts no Spark
        ottla ingest orders.toml                 # what is there now; with trigger = "30s" until Ctrl-C
        ottla ingest orders.toml --format json   # the outcome as JSON, at the end
        KAFKA_PASSWORD=... ottla ingest orders.toml      # ${KAFKA_PASSWORD} in the file

        The first Ctrl-C, or SIGTERM to this process, lets the running micro-batch end, and the exit status is 0. The
        second ends the job at once, and that micro-batch is done again at the next start. Each record is in the table
        once, however the job ends, as long as one job at a time runs on a checkpoint.

        It needs the extra spark (pip install 'ottla[spark]') and Java 17. docs/spark/ingest.md has the way to
        spark-submit, YARN, Kubernetes, Databricks and EMR.
        """,
    )
    arguments.output(parser)
    parser.add_argument("config", nargs="?", metavar="CONFIG.toml", help="the configuration file")
    parser.add_argument("--check", action="store_true", help="only check the file")
    parser.add_argument("--example", action="store_true", help="print a file with comments, and end")
    parser.set_defaults(run=_ingest, parser=parser)


def _ingest(options: argparse.Namespace) -> None:
    if options.example:
        from ottla.spark.ingest.example import EXAMPLE

        print(EXAMPLE, end="")
        return
    if options.config is None:
        options.parser.error("CONFIG.toml is missing; --example prints one")
    try:
        from ottla.spark import ingest
    except ModuleNotFoundError as error:
        raise ConfigError(f"ottla ingest needs {error.name}: pip install 'ottla[spark]'") from None
    settings = ingest.read_settings(options.config)
    job = {"name": settings.shown(settings.name), "table": settings.shown(str(settings.table))}
    if options.check:
        if options.shown_as == "table":
            print(settings.shown(f"{options.config}: {settings.name} is right, into {settings.table}"))
            return
        places = {"trigger": settings.trigger, "checkpoint": settings.shown(settings.checkpoint)}
        output.show(options, CHECKED, [{"file": options.config, **job, **places}])
        return
    outcome = ingest.run(settings)
    if options.shown_as != "table":
        output.show(options, DONE, [{**job, **outcome._asdict()}])
