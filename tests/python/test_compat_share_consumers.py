"""Share consumers of `ottla.compat.confluent_kafka`, where librdkafka's have a habit of their own."""

from __future__ import annotations

from functools import partial

import pytest

from tests.python import drop_in

pytest.importorskip("confluent_kafka")
BEGIN = """
import logging, sys, time
import ottla
from ottla.compat.confluent_kafka import install; install()
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

servers = {"bootstrap.servers": sys.argv[1]}


def consumer(group, **more):
    kind = ConfigResource.Type.GROUP
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, group, incremental_configs=[entry])
    for future in AdminClient(servers).incremental_alter_configs([resource]).values():
        future.result(30)
    made = ShareConsumer({**servers, "group.id": group, **more})
    made.subscribe(["t"])
    return made


def polled(consumer):
    deadline = time.monotonic() + 30
    while not (messages := consumer.poll(0.2)):
        assert time.monotonic() < deadline, "no records"
    return [message.value().decode() for message in messages]
"""


servers = pytest.fixture(drop_in.one_topic)
printed = partial(drop_in.printed, BEGIN)


def test_a_poll_ends_with_a_batch(servers):
    """KIP-1206: `batch_optimized` takes batches as a whole, although they have more records than `max.poll.records`."""
    program = """
# Each call makes one batch. A producer of confluent-kafka's may close one early, if its flush begins when the topic becomes known.
with ottla.Producer(bootstrap_servers=sys.argv[1], linger_ms=1000) as producer:
    for size in (7, 2, 2):
        producer.send_many("t", [f"{size}{i}" for i in range(size)])
        producer.flush()
whole = consumer("whole", **{"max.poll.records": 3})
print([len(polled(whole)) for _ in range(2)])
whole.close()
exact = consumer("exact", **{"max.poll.records": 3, "share.acquire.mode": "record_limit"})
print([len(polled(exact)) for _ in range(4)])
exact.close()
"""
    assert printed(program, servers) == ["[7, 4]", "[3, 3, 3, 2]"]


def test_debug_logs_responses_by_their_facility(servers):
    program = """
class Seen(logging.Handler):
    def emit(self, record):
        seen.add(record.getMessage().split(" ", 1)[0])

seen = set()
logger = logging.getLogger("app")
logger.setLevel(logging.DEBUG)
logger.propagate = False
logger.addHandler(Seen())
producer = Producer(servers)
producer.produce("t", "1")
producer.flush()
for context in ("msg", "cgrp,fetch"):
    reader = consumer(context, debug=context, logger=logger)
    polled(reader)
    reader.commit_sync(10)
    reader.poll(0.2)
    reader.close()
    print(*sorted(name for name in seen if name.startswith("SHARE")))
"""
    assert printed(program, servers) == ["", "SHAREACK SHAREFETCH SHAREHEARTBEAT"]
