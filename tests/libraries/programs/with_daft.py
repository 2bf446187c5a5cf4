"""Daft reads and writes topics. Arguments: address, a topic of ten numbers, one to write to, and topics of a hundred records."""

import datetime as dt
import json
import sys

import daft
import pytest
from tests.libraries.topics import COMMITTED, HUNDRED, START, quickest

import ottla
from ottla.integrations import daft as ours
from ottla.integrations.daft import TopicSink, read_topic

address, numbers, target, *hundreds = sys.argv[1:]
reads = []
read = ours.read


def recording(*args, **options):
    reads.append(options)
    return read(*args, **options)


ours.read = recording


def values(frame):
    return b"".join(sorted(frame.to_pydict()["value"])).decode()


offset, partition = daft.col("offset"), daft.col("partition")
assert values(read_topic(address, numbers)) == "0123456789"
assert values(read_topic(address, numbers, tasks=7)) == "0123456789"
assert values(read_topic(address, numbers, since=START + 4000, until=START + 7000)) == "456"
assert values(read_topic(address, numbers, offsets={1: range(3)})) == "135"
assert values(read_topic(address, numbers).where((offset >= 3) & (partition == 0))) == "68"
assert read_topic(address, numbers).count_rows() == 10
reads.clear()
assert read_topic(address, numbers).where(partition == 1).select("offset").to_pydict() == {"offset": [0, 1, 2, 3, 4]}
assert {name for each in reads for name in each["columns"]} == {"offset", "partition"}, reads
assert len(read_topic(address, numbers).limit(3).to_pydict()["value"]) == 3
assert len(read_topic(address, numbers).where(partition == 1).limit(3).to_pydict()["value"]) == 3
assert read_topic(address, numbers).to_arrow().num_rows == 10
late = daft.lit(dt.datetime.fromtimestamp(START / 1000 + 5, tz=dt.UTC))
assert values(read_topic(address, numbers).where(daft.col("timestamp") >= late)) == "56789"

frame = daft.from_pydict({"key": [f"k{n}" for n in range(50)], "value": [f"v{n}" for n in range(50)]})
assert frame.write_sink(TopicSink(address, target)).to_pydict() == {"rows": [50]}
found = sorted((r.key, r.value) for r in ottla.read(address, target))
assert found == sorted((b"k%d" % n, b"v%d" % n) for n in range(50)), found

with pytest.raises(Exception, match="no-such-topic"):
    read_topic(address, "no-such-topic").collect()

report = {}
for topic in hundreds:
    table, seconds = quickest(lambda topic=topic: read_topic(address, topic, **COMMITTED).to_pydict())
    assert sorted(table["value"]) == HUNDRED
    report[topic] = {"whole": seconds}
print(json.dumps(report))
