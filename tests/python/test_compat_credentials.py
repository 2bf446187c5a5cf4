"""`set_sasl_credentials` of clients that have brokers: what authenticates from then on uses the new credentials."""

from __future__ import annotations

import pytest

from tests.python import drop_in

pytest.importorskip("confluent_kafka.aio")
BEGIN = """
import asyncio, sys, time
from ottla.compat.confluent_kafka import install; install()
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.aio import AIOConsumer, AIOProducer
from ottla.testing import Broker

mechanism = sys.argv[1]
broker = Broker(
    topics={"t": 1},
    listeners=[f"SASL_PLAINTEXT mechanisms={mechanism}"],
    users={"alice": "right"},
    config={"connections.max.reauth.ms": int(sys.argv[2])},
).start()
config = {
    "bootstrap.servers": broker.bootstrap_servers,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": mechanism,
    "sasl.username": "alice",
    "sasl.password": "wrong",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
grouped = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
right = {"sasl.password": "right"}


def wait_until(ready, what):
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline, what


def delivered(producer, value):
    reports = []
    producer.produce("t", value, on_delivery=lambda error, message: reports.append(error))
    wait_until(lambda: reports or producer.poll(0.1) and reports, "a delivery report")
    return reports[0]


def received(consumer):
    message = consumer.poll(0.1)
    return message is not None and message.error() is None
"""


def printed(program, mechanism, reauthentication=0):
    return drop_in.printed(BEGIN, program, mechanism, reauthentication)


MECHANISMS = pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])


@MECHANISMS
def test_a_client_that_was_rejected_goes_on_with_other_credentials(mechanism):
    program = """
admin = AdminClient(config)
try:
    admin.list_topics(timeout=5)
except KafkaException as error:
    print("admin", error.args[0].name())
admin.set_sasl_credentials("alice", "right")
print("admin", sorted(admin.list_topics(timeout=30).topics))

producer = Producer({**config, "message.timeout.ms": 2000})
print("producer", delivered(producer, "1") is not None)
producer.set_sasl_credentials("alice", "right")
print("producer", delivered(producer, "2"))

errors = []
consumer = Consumer({**grouped, "error_cb": lambda error: errors.append(error.code())})
consumer.assign([TopicPartition("t", 0, 0)])
wait_until(lambda: received(consumer) or errors, "an error")
print("consumer", KafkaError._AUTHENTICATION in errors)
consumer.set_sasl_credentials("alice", "right")
wait_until(lambda: received(consumer), "a record for a consumer")
consumer.close()

errors = []
share = ShareConsumer({**grouped, "group.id": "s", "error_cb": lambda error: errors.append(error.code())})
share.subscribe(["t"])
wait_until(lambda: share.poll(0.1) and errors, "an error")
print("share consumer", KafkaError._AUTHENTICATION in errors)
share.set_sasl_credentials("alice", "right")
wait_until(lambda: delivered(producer, "3") or any(m.error() is None for m in share.poll(0.1)), "a record of the group")
share.close()

async def main():
    producer = AIOProducer(config)
    await producer.set_sasl_credentials("alice", "right")
    message = await (await producer.produce("t", "4"))
    print("asynchronous producer", message.error())
    await producer.close()
    consumer = AIOConsumer(grouped)
    await consumer.set_sasl_credentials("alice", "right")
    await consumer.assign([TopicPartition("t", 0, message.offset())])
    print("asynchronous consumer", (await consumer.poll(30)).value())
    await consumer.close()

asyncio.run(main())
"""
    assert printed(program, mechanism) == [
        "admin _AUTHENTICATION",
        "admin ['t']",
        "producer True",
        "producer None",
        "consumer True",
        "share consumer True",
        "asynchronous producer None",
        "asynchronous consumer b'4'",
    ]


@MECHANISMS
def test_connections_stay_until_they_authenticate_again(mechanism):
    program = """
errors = []
producer = Producer({**config, **right, "message.timeout.ms": 2000, "error_cb": lambda e: errors.append(e.code())})
print(delivered(producer, "1"))
producer.set_sasl_credentials("alice", "wrong")
print(delivered(producer, "2"), errors)
broker.disconnect("Produce")
print(delivered(producer, "3") is not None, KafkaError._AUTHENTICATION in errors)
producer.set_sasl_credentials("alice", "right")
print(delivered(producer, "4"))
"""
    assert printed(program, mechanism) == ["None", "None []", "True True", "None"]


def test_a_session_that_is_renewed_takes_the_new_credentials():
    program = """
errors = []
producer = Producer({**config, **right, "message.timeout.ms": 2000, "error_cb": lambda e: errors.append(e.code())})
print(delivered(producer, "1"))
producer.set_sasl_credentials("mallory", "right")
wait_until(lambda: delivered(producer, "2") and KafkaError._AUTHENTICATION in errors, "a refusal")
producer.set_sasl_credentials("alice", "right")
print(delivered(producer, "3"))
"""
    assert printed(program, "SCRAM-SHA-256", reauthentication=1000) == ["None", "None"]


def test_credentials_are_two_strings():
    program = """
for client in (AdminClient(config), Producer(config), Consumer(grouped), ShareConsumer(grouped)):
    for wrong in ((None, "p"), ("u", 7), ("u", "p" + chr(0))):
        try:
            client.set_sasl_credentials(*wrong)
        except (TypeError, ValueError) as error:
            print(type(error).__name__, end=" ")
    print(client.set_sasl_credentials("u", "p"))
"""
    assert printed(program, "PLAIN") == ["TypeError TypeError ValueError None"] * 4
