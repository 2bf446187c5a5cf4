"""Ray reads and writes topics. Arguments: address, a topic of ten numbers, one to write to, and topics of a hundred records."""

import json
import os
import sys

# Without a token, which Ray would store in the home folder.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}

import pytest
import ray
from tests.libraries.topics import COMMITTED, HUNDRED, START, quickest

import ottla
from ottla.integrations.ray import TopicDatasource, read_topic, write_topic

address, numbers, target, *hundreds = sys.argv[1:]
path = {"PYTHONPATH": os.environ["PYTHONPATH"]}
ray.init(
    num_cpus=2, include_dashboard=False, object_store_memory=10**8, log_to_driver=False, runtime_env={"env_vars": path}
)


def values(dataset):
    return b"".join(sorted(row["value"] for row in dataset.take_all())).decode()


assert values(read_topic(address, numbers)) == "0123456789"
assert values(read_topic(address, numbers, override_num_blocks=7)) == "0123456789"
assert values(read_topic(address, numbers, since=START + 4000, until=START + 7000)) == "456"
assert values(read_topic(address, numbers, offsets={1: range(3)})) == "135"
assert read_topic(address, numbers, columns=["offset"]).schema().names == ["offset"]
assert read_topic(address, numbers).count() == 10
assert read_topic(address, numbers, offsets={}).count() == 0

rows = ray.data.from_items([{"key": f"k{n}", "value": f"v{n}"} for n in range(50)])
write_topic(rows, address, target)
found = sorted((r.key, r.value) for r in ottla.read(address, target))
assert found == sorted((b"k%d" % n, b"v%d" % n) for n in range(50)), found

with pytest.raises(ottla.errors.NotFoundError):
    TopicDatasource(address, "no-such-topic")

report = {}
for topic in hundreds:

    def tasks(topic=topic):
        """What a worker does, without the time in which Ray starts it."""
        source = TopicDatasource(address, topic, **COMMITTED)
        return [value for task in source.get_read_tasks(2) for block in task() for value in block["value"].to_pylist()]

    read, seconds = quickest(tasks)
    assert sorted(read) == HUNDRED
    _, whole = quickest(lambda topic=topic: read_topic(address, topic, **COMMITTED).take_all())
    # Ray would make 200 of a source that estimates no size, or one of each row.
    assert read_topic(address, topic, **COMMITTED).materialize().num_blocks() <= 10
    report[topic] = {"tasks": seconds, "whole": whole}
ray.shutdown()
print(json.dumps(report))
