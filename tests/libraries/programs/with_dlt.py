"""dlt loads topics into DuckDB. Arguments: address, a topic of ten numbers, topics of a hundred records, a folder."""

import itertools
import json
import os
import sys
import time

os.environ |= {"RUNTIME__DLTHUB_TELEMETRY": "false", "DLT_DATA_DIR": sys.argv[-1]}

import dlt
import duckdb
import pytest
from dlt.pipeline.exceptions import PipelineStepFailed
from tests.libraries.topics import COMMITTED, HUNDRED, quickest

import ottla
from ottla.integrations.dlt import topic_resource

address, numbers, *hundreds, folder = sys.argv[1:]


def pipeline(name):
    """The pipeline as a new process would have it."""
    database = dlt.destinations.duckdb(f"{folder}/{name}.duckdb")
    return dlt.pipeline(name, destination=database, dataset_name="kafka", pipelines_dir=f"{folder}/pipelines")


def rows(name, columns="value", table="numbers"):
    with duckdb.connect(f"{folder}/{name}.duckdb") as connection:
        return connection.sql(f"SELECT {columns} FROM kafka.{table} ORDER BY ALL").fetchall()


def resource(**options):
    return topic_resource(address, numbers, name="numbers", **options)


pipeline("append").run(resource())
assert rows("append", 'partition, "offset", decode(value)') == [
    (n % 2, n // 2, str(n)) for n in (*range(0, 10, 2), *range(1, 10, 2))
]
# Without new records nothing is loaded.
pipeline("append").run(resource())
assert len(rows("append")) == 10
with ottla.Producer(address) as producer:
    producer.send_many(numbers, [b"10", b"11"], partitions=[0, 1]).result(20)
pipeline("append").run(resource())
assert sorted(int(value) for (value,) in rows("append")) == list(range(12))

# A run that fails loads its records again in the next one.
failing = pipeline("failing")


def broken(batch):
    raise ValueError("broken")


with pytest.raises(PipelineStepFailed, match="broken"):
    failing.run(resource().add_map(broken))
pipeline("failing").run(resource())
assert len(rows("failing")) == 12

# The state is in the destination, too: another machine goes on.
pipeline("append").drop()
pipeline("append").run(resource())
assert len(rows("append")) == 12

# A limit ends a run early, and the next one goes on behind it.
for _ in range(2):
    pipeline("limited").run(resource(offsets={0: range(6)}, max_poll_records=2).add_limit(1))
assert [value for (value,) in rows("limited")] == [b"0", b"2", b"4", b"6"], rows("limited")

pipeline("merged").run(resource(write_disposition="merge", offsets={0: range(3)}))
assert len(rows("merged")) == 3

with ottla.Admin(address) as admin:
    admin.delete_topics([numbers])
    for _ in range(100):
        if numbers not in admin.list_topics():
            break
        time.sleep(0.1)
    admin.create_topics([ottla.NewTopic(numbers, partitions=2)])
with pytest.raises(PipelineStepFailed, match=r"ends at 0, before offset .* recreated"):
    pipeline("append").run(resource())

report, tries = {}, itertools.count()
for topic in hundreds:
    # The resource itself, with a state of its own each time, and the whole run.
    def read(topic=topic):
        made = topic_resource(address, topic, name=f"{topic}-{next(tries)}", **COMMITTED)
        return [value for batch in made for value in batch["value"].to_pylist()]

    found, seconds = quickest(read)
    assert sorted(found) == HUNDRED
    begin = time.perf_counter()
    pipeline(topic.replace("-", "_")[-20:]).run(topic_resource(address, topic, name="hundred", **COMMITTED))
    whole = time.perf_counter() - begin
    assert [value for (value,) in rows(topic.replace("-", "_")[-20:], table="hundred")] == HUNDRED
    report[topic] = {"resource": seconds, "whole": whole}
print(json.dumps(report))
