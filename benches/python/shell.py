"""The shell beside kcat, and beside kcat with a program of Python behind it, on real Kafka.

    .venv/bin/python -m benches.python.shell [--only WORD] [--records 5000000] [--repeats 5]

Each measurement is a process of its own, started as a user starts it, so its start-up counts. Repeats are interleaved.
kcat gets the settings that were the fastest for it here, as printed; ottla has its defaults. Processor time is that of
the command and of all that it starts. It prints a table in Markdown: medians, and ottla's ratio to each other way.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from broker import KAFKA, Broker, real_broker  # noqa: E402
from measurement import events  # noqa: E402
from tqdm import tqdm  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS, SIZE = 4, 100
PATIENCE = 600
# Seconds in which the broker deletes the topic of the run before, and makes the files of a new one.
PAUSE = 1
# A consumer that never waits for more, and has room for as much as the broker sends.
READS = "-X queued.min.messages=1000000 -X fetch.message.max.bytes=8388608 -X queued.max.messages.kbytes=262144"
# Batches as large as the topic allows, and a queue that does not fill up at once.
WRITES = "-X linger.ms=20 -X batch.size=1000000 -X batch.num.messages=100000 -X queue.buffering.max.messages=1000000"

# What people write behind `kcat -J`, and the fastest way to columns that was found.
FROM_JSON = """
import json, sys
import pyarrow as pa, pyarrow.parquet as pq
schema = pa.schema([("offset", pa.int64()), ("key", pa.string()), ("value", pa.string())])
with pq.ParquetWriter(sys.argv[1], schema) as out:
    while lines := sys.stdin.buffer.readlines(1 << 26):
        rows = [json.loads(line) for line in lines]
        columns = [[row[name] for row in rows] for name in ("offset", "key", "payload")]
        out.write_table(pa.table(columns, schema=schema))
"""
TABS = r"%o\t%k\t%s\n"
FROM_TABS = """
import sys
import pyarrow.csv as csv, pyarrow.parquet as pq
names = csv.ReadOptions(column_names=["offset", "key", "value"], block_size=1 << 26)
reader = csv.open_csv(sys.stdin.buffer, names, csv.ParseOptions(delimiter="\\t", quote_char=False))
with pq.ParquetWriter(sys.argv[1], reader.schema) as out:
    for batch in reader:
        out.write_batch(batch)
"""


@dataclass
class Way:
    """One way of one task.

    Attributes:
        task: What is done.
        name: By what.
        command: For a shell.
        taken: Seconds, and seconds of processor time, of each repeat.
    """

    task: str
    name: str
    command: str
    taken: list[tuple[float, float]] = field(default_factory=list)


def measure(command: str) -> tuple[float, float]:
    """Seconds of a command, and of the processors for it and all that it started."""
    begin = time.perf_counter()
    process = subprocess.Popen(["/bin/sh", "-c", command], start_new_session=True)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {command}")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime


def ways(broker: Broker, folder: Path, records: int, ottla: str) -> list[Way]:
    """All ways of all tasks."""
    servers, lines = broker.bootstrap, folder / "lines"
    for name, program in (("from_json.py", FROM_JSON), ("from_tabs.py", FROM_TABS)):
        (folder / name).write_text(program)
    with lines.open("w") as out:
        out.writelines(f"{line:<{SIZE}}\n" for line in _orders(records))
    kcat = f"kcat -b {servers} -q"
    read = f"{kcat} -C -t read -o beginning -e {READS}"
    ours = f"{ottla} consume -b {servers} -t read -o :end"
    python = f"{sys.executable} {folder}"
    return [
        Way("consume", "ottla", f"{ours} >/dev/null"),
        Way("consume", "kcat", f"{read} >/dev/null"),
        Way("produce", "ottla", f"{ottla} produce -b {servers} -t written <{lines}"),
        Way("produce", "kcat", f"{kcat} -P -t written {WRITES} <{lines}"),
        Way("produce, lz4", "ottla", f"{ottla} produce -b {servers} -t written --compression lz4 <{lines}"),
        Way("produce, lz4", "kcat", f"{kcat} -P -t written -z lz4 {WRITES} <{lines}"),
        Way("to Parquet", "ottla", f"{ours} --format parquet --columns offset,key,value -O {folder}/ours.parquet"),
        Way("to Parquet", "kcat, JSON, Python", f"{read} -J | {python}/from_json.py {folder}/json.parquet"),
        Way("to Parquet", "kcat, tabs, pyarrow", f"{read} -f '{TABS}' | {python}/from_tabs.py {folder}/tabs.parquet"),
    ]


def _orders(count: int) -> Iterator[str]:
    """Lines such as programs write: some of each compresses well, and some does not."""
    draw = random.Random(1)
    cities = ["Lisboa", "Wien", "Oslo", "Krakow", "Lima", "Pune"]
    for number in range(count):
        ref, user, cents = draw.getrandbits(64), draw.randrange(1_000_000), draw.randrange(100_000)
        city = cities[number % len(cities)]
        yield f'{{"id":{number},"ref":"{ref:016x}","user":"u{user}","cents":{cents},"city":"{city}"}}'


def check(folder: Path, records: int) -> None:
    """Every file that was written has all records."""
    import pyarrow.parquet as pq

    for path in folder.glob("*.parquet"):
        if (found := pq.ParquetFile(path).metadata.num_rows) != records:
            raise SystemExit(f"{path.name} has {found:,} rows of {records:,}")


def table(rows: list[Way], records: int) -> str:
    """The medians."""
    titles = ["task", "by", "records a second", "processor ns a record", "ottla: x as fast", "ottla: x processor time"]
    out = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        ours = next(each for each in rows if each.task == row.task)
        pairs = list(zip(row.taken, ours.taken, strict=True))
        took, used = (statistics.median(column) for column in zip(*row.taken, strict=True))
        faster = statistics.median(theirs[0] / mine[0] for theirs, mine in pairs)
        part = statistics.median(mine[1] / theirs[1] for theirs, mine in pairs)
        ratios = ["", ""] if row is ours else [f"{faster:.2f}", f"{part:.2f}"]
        figures = [f"{records / took:,.0f}", f"{used / records * 1e9:,.0f}", *ratios]
        out.append(f"| {' | '.join([row.task, row.name, *figures])} |")
    return "\n".join(out)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks whose name holds this")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ottla", default=f"{sys.executable} -m ottla", help="the command, of another environment")
    given = parser.parse_args()
    if shutil.which("kcat") is None:
        raise SystemExit("kcat is missing: install Debian's package kcat")
    with real_broker() as broker, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker.fill("read", PARTITIONS, events(SIZE), given.records, "none", 131_072)
        rows = [way for way in ways(broker, folder, given.records, given.ottla) if given.only in way.task]
        with tqdm(total=len(rows) * (given.repeats + 1), desc="measure") as progress:
            # The first round is for the page cache.
            for repeat in range(-1, given.repeats):
                for row in rows if repeat % 2 else rows[::-1]:
                    progress.set_postfix_str(f"{row.task}: {row.name}")
                    if row.task.startswith("produce"):
                        broker.create("written", PARTITIONS)
                        time.sleep(PAUSE)
                    taken = measure(row.command)
                    if row.task.startswith("produce"):
                        broker.delete("written")
                    if repeat >= 0:
                        row.taken.append(taken)
                    progress.update()
        check(folder, given.records)
    print(
        f"\nKafka {KAFKA}, {given.records:,} records of {SIZE} bytes, {PARTITIONS} partitions, {given.repeats} repeats"
    )
    for row in rows:
        print(f"  {row.task}, {row.name}: {row.command.replace(name, 'FOLDER')}")
    print(f"\n{table(rows, given.records)}")


if __name__ == "__main__":
    main()
