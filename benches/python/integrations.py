"""How fast libraries read a topic through ottla.integrations, beside their own readers of Kafka where they have one.

    .venv/bin/python -m benches.python.integrations [--only READER ...] [--records 1000000]

Each measurement is a process of its own, which reads the embedded broker: a hundred records, plain and in transactions,
as the first and the shortest of five reads and as the least processor time of one, and a million records of 100 bytes
in four partitions, as the shortest of `--repeats`. No read begins later than a minute after the first one. The library
is imported and, for Ray, started before. It prints a table in Markdown. The reader of dlt's verified sources is
measured if VERIFIED_SOURCES in the environment names a checkout of that repository.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMITTED = {"isolation_level": "read_committed"}
# In the environment: a checkout of dlt-hub/verified-sources.
SOURCES = "VERIFIED_SOURCES"
# Seconds after which no further read of a measurement begins.
SPAN = 60
# Seconds of a measurement.
LIMIT = 170


def ottla_batch(address, topic):
    import ottla

    return lambda: len(ottla.read(address, topic, **COMMITTED))


def ottla_stream(address, topic):
    import ottla

    return lambda: sum(batch.num_rows for batch in ottla.read(address, topic, stream=True, **COMMITTED))


def confluent(address, topic):
    """The loop that people write by hand: messages as objects."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    def read():
        settings = {"group.id": "g", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": address, **settings})
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(4)])
        rows = ends = 0
        while ends < 4:
            for message in consumer.consume(10_000, 0.05):
                if message.error():
                    ends += 1
                    continue
                rows += 1
                message.value()
        consumer.close()
        return rows

    return read


def polars(address, topic):
    import ottla

    return lambda: len(ottla.scan(address, topic, **COMMITTED).collect())


def duckdb(address, topic):
    import duckdb as library

    from ottla.integrations.duckdb import view

    made = view(library.connect(), "topic", address, topic, **COMMITTED)
    return lambda: made.aggregate("count(value), max(octet_length(value))").fetchall()[0][0]


def pandas(address, topic):
    from ottla.integrations.pandas import read_topic

    return lambda: len(read_topic(address, topic, **COMMITTED))


def ray(address, topic):
    from ottla.integrations.ray import read_topic

    start_ray()
    return lambda: sum(
        len(b["value"]) for b in read_topic(address, topic, **COMMITTED).iter_batches(batch_format="pyarrow")
    )


def ray_tasks(address, topic):
    """What Ray's workers do, without Ray, which takes longer than that to hand tasks out."""
    from ottla.integrations.ray import TopicDatasource

    def read():
        tasks = TopicDatasource(address, topic, **COMMITTED).get_read_tasks(2)
        return sum(len(block["value"]) for task in tasks for block in task())

    return read


def ray_own(address, topic):
    library = start_ray()
    return lambda: sum(
        len(b["value"])
        for b in library.data.read_kafka(topic, bootstrap_servers=address).iter_batches(batch_format="pyarrow")
    )


def ray_range(_address, topic):
    """What Ray takes for as many numbers, which it reads from nowhere."""
    library = start_ray()
    count = 1_000_000 if topic == "million" else 100
    return lambda: sum(len(b["id"]) for b in library.data.range(count).iter_batches(batch_format="pyarrow"))


def start_ray():
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    import ray as library

    path = {"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}}
    library.init(num_cpus=2, include_dashboard=False, object_store_memory=10**9, log_to_driver=False, runtime_env=path)
    library.data.DataContext.get_current().enable_progress_bars = False
    return library


def daft(address, topic):
    from ottla.integrations.daft import read_topic

    return lambda: read_topic(address, topic, **COMMITTED).to_arrow().num_rows


def daft_own(address, topic):
    import daft as library

    def read():
        frame = library.read_kafka(
            bootstrap_servers=address, topics=[topic], group_id="g", start="earliest", end="latest"
        )
        return frame.to_arrow().num_rows

    return read


def dlt(address, topic):
    """The resource alone: what a destination takes to load the rows is its own."""
    from itertools import count

    from ottla.integrations.dlt import topic_resource

    names = count()
    return lambda: sum(b.num_rows for b in topic_resource(address, topic, name=f"t{next(names)}", **COMMITTED))


def dlt_own(address, topic):
    """The resource that `dlt init kafka` copies into a project."""
    from itertools import count

    from confluent_kafka import Consumer

    sys.path.append(os.environ[SOURCES])
    from sources.kafka import kafka_consumer

    groups = count()

    def read():
        settings = {"group.id": f"{topic}-{next(groups)}", "auto.offset.reset": "earliest"}
        return sum(1 for _ in kafka_consumer(topic, Consumer({"bootstrap.servers": address, **settings})))

    return read


# By name: the extra whose environment it runs in (None is that of the tests), a title, and whether it is the library's
# own reader.
READERS = {
    "ottla_batch": (None, "`ottla.read`", False),
    "ottla_stream": (None, "`ottla.read(stream=True)`", False),
    "confluent": (None, "a loop over confluent-kafka", True),
    "polars": (None, "polars, `ottla.scan`", False),
    "duckdb": (None, "DuckDB, `view`", False),
    "pandas": (None, "pandas, `read_topic`", False),
    "daft": ("daft", "Daft, `read_topic`", False),
    "daft_own": ("daft", "Daft, its own `read_kafka`", True),
    "dlt": ("dlt", "dlt, `topic_resource`", False),
    "dlt_own": ("dlt", "dlt, the `kafka_consumer` of its verified sources", True),
    "ray_tasks": ("ray", "Ray Data, the read tasks of `read_topic` alone", False),
    "ray": ("ray", "Ray Data, `read_topic`", False),
    "ray_range": ("ray", "Ray Data, `range`: numbers from nowhere", False),
    "ray_own": ("ray", "Ray Data, its own `read_kafka`", True),
}


def measure(name, address, topic, repeats):
    """The times of the first and of the shortest of some reads, the least processor time, and the rows of one."""
    read = globals()[name](address, topic)
    times, processor = [], []
    while len(times) < repeats and sum(times) < SPAN:
        begin, used = time.perf_counter(), time.process_time()
        rows = read()
        times.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
    print(json.dumps({"rows": rows, "first": times[0], "seconds": min(times), "processor": min(processor)}))


def child(name, address, topic, repeats, limit=LIMIT):
    """Measure in a process of its own; None if it does not end in time."""
    from tests.libraries.environments import python_of

    extra, _, own = READERS[name]
    python = python_of(extra) if extra else Path(sys.executable)
    if own and extra:
        uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, "confluent-kafka"]
        subprocess.run(uv, check=True, timeout=300)
    command = [python, "-m", "benches.python.integrations", "--measure", name, address, topic, str(repeats)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}"}
    pipes = {"capture_output": True, "text": True}
    try:
        done = subprocess.run(command, env=environment, check=False, timeout=limit, cwd=ROOT, **pipes)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        sys.stderr.write(done.stderr[-3000:])
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=READERS, default=list(READERS), help="the readers to measure")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=4)
    arguments = parser.parse_args()
    if arguments.measure:
        name, address, topic, repeats = arguments.measure
        measure(name, address, topic, int(repeats))
        return
    from tests.libraries.topics import fill

    import ottla
    from ottla.testing import Broker

    with Broker() as broker:
        address = broker.bootstrap_servers
        with ottla.Admin(address) as admin:
            admin.create_topics([ottla.NewTopic(name, partitions=4) for name in ("plain", "transactional", "million")])
        fill(address, "plain", transactional=False)
        fill(address, "transactional", transactional=True)
        with ottla.Producer(address) as producer:
            for start in range(0, arguments.records, 100_000):
                rows = min(100_000, arguments.records - start)
                producer.send_many(
                    "million", [b"%0100d" % n for n in range(rows)], partitions=[n % 4 for n in range(rows)]
                )
        print(
            "| reader | 100 plain: first / shortest / processor, ms | 100 in transactions | rows/s of a million |",
            flush=True,
        )
        print("|---|---|---|---|", flush=True)
        for name, (_, title, _own) in READERS.items():
            if name not in arguments.only or (name == "dlt_own" and SOURCES not in os.environ):
                continue
            cells = []
            for topic, repeats in (("plain", 5), ("transactional", 5), ("million", arguments.repeats)):
                found = child(name, address, topic, repeats)
                if found is None:
                    cells.append(f"not within {LIMIT} s")
                elif topic == "million":
                    cells.append(f"{found['rows'] / found['seconds']:,.0f}")
                else:
                    cells.append(
                        " / ".join(f"{found[each] * 1000:,.0f}" for each in ("first", "seconds", "processor"))
                        + (f", {found['rows']} rows" if found["rows"] != 100 else "")
                    )
            print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
