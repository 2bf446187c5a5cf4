"""Outages and passing denials: after the first contact polls return empty batches, and records come again."""

import logging
import socket
import threading
import time

import pytest

import ottla
from ottla import TopicPartition, errors
from ottla.testing import Broker
from tests.ports import held_port
from tests.waiting import PATIENCE
from tests.wire import Connection

# Processor seconds that a loop over failing polls may use in a second. A loop without pauses uses all of it.
IDLE = 0.5


def beaten(api, consumer, least, seconds=PATIENCE):
    """Poll until so many records came."""
    found, end = [], time.monotonic() + seconds
    while len(found) < least:
        assert time.monotonic() < end, f"{len(found)} of {least} records within {seconds} s"
        found += [record.value for record in api(consumer.poll(0.2))]
    return found


def reader_of(api, address, kind, topic="t", **options):
    """A consumer that reads the topic: by assignment, or in a group."""
    if kind == "assigned":
        consumer = api.module.Consumer(address, auto_offset_reset="earliest", **options)
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer
    consumer = api.module.Consumer(
        address,
        group_id=f"{topic}-{kind}-{api.name}",
        group_protocol=kind,
        auto_offset_reset="earliest",
        **({} if kind == "consumer" else {"session_timeout_ms": 30_000}),
        **options,
    )
    consumer.subscribe([topic])
    return consumer


@pytest.mark.parametrize("kind", ["assigned", "classic", "consumer"])
def test_a_poll_goes_on_through_an_outage(api, kind, tmp_path, caplog):
    caplog.set_level(logging.WARNING, logger="ottla")
    with held_port() as port:
        broker = Broker(port=port, topics=["t"], data_dir=tmp_path).start()
        producer = api.module.Producer(broker.bootstrap_servers, linger_ms=0)
        consumer = reader_of(api, broker.bootstrap_servers, kind)
        api.result(api(producer.send("t", b"before")))
        assert beaten(api, consumer, 1) == [b"before"]
        broker.stop()
        for _ in range(15):
            assert len(api(consumer.poll(0.2))) == 0
        with Broker(port=port, data_dir=tmp_path):
            api.result(api(producer.send("t", b"after")))
            assert beaten(api, consumer, 1) == [b"after"]
            api(producer.close())
            api(consumer.close())
    refused = [record for record in caplog.records if "cannot connect" in record.getMessage()]
    assert 1 <= len(refused) <= 2, "one warning for each of two clients"


def test_a_loop_goes_on_through_an_outage(api, tmp_path):
    with held_port() as port:
        broker = Broker(port=port, topics=["t"], data_dir=tmp_path).start()
        producer = api.module.Producer(broker.bootstrap_servers, linger_ms=0)
        # A poll inside of the loop ends after this long, and the outage lasts longer.
        consumer = api.module.Consumer(
            broker.bootstrap_servers, default_api_timeout_ms=500, auto_offset_reset="earliest"
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        api.result(api(producer.send("t", b"before")))
        assert [record.value for record in api.take(consumer, 1)] == [b"before"]
        api(producer.close())
        broker.stop()
        back = Broker(port=port, data_dir=tmp_path)

        def end_outage():
            time.sleep(2)
            back.start()
            with ottla.Producer(back.bootstrap_servers) as producer:
                producer.send("t", b"after").result()

        outage = threading.Thread(target=end_outage)
        outage.start()
        try:
            assert [record.value for record in api.take(consumer, 1)] == [b"after"]
        finally:
            outage.join(PATIENCE)
            api(consumer.close())
            back.stop()


def test_a_share_consumer_goes_on_through_an_outage(api, tmp_path):
    with held_port() as port:
        broker = Broker(port=port, topics=["t"], data_dir=tmp_path).start()
        producer = api.module.Producer(broker.bootstrap_servers, linger_ms=0)
        consumer = api.module.ShareConsumer(broker.bootstrap_servers, group_id="s")
        consumer.subscribe(["t"])

        def take(value):
            """Send the value until the group gets one: it begins at the end of the topic."""
            end = time.monotonic() + PATIENCE
            while value not in [record.value for record in api(consumer.poll(0.2))]:
                assert time.monotonic() < end, f"no {value!r}"
                api.result(api(producer.send("t", value)))

        take(b"before")
        broker.stop()
        for _ in range(15):
            api(consumer.poll(0.2))
        with Broker(port=port, data_dir=tmp_path):
            take(b"after")
            api(consumer.close())
            api(producer.close())


def test_before_the_first_contact_a_poll_raises_the_cause(api):
    with held_port() as port:
        consumer = api.module.Consumer(f"127.0.0.1:{port}")
        consumer.assign([TopicPartition("t", 0, 0)])
        with pytest.raises(errors.UnreachableError, match="refused"):
            beaten(api, consumer, 1)
        api(consumer.close())


def test_a_slow_first_connection_is_no_error_until_its_time_is_up(api):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        consumer = api.module.Consumer(address, socket_connection_setup_timeout_ms=4000)
        consumer.assign([TopicPartition("t", 0, 0)])
        with pytest.raises(errors.UnreachableError, match="no response"):
            beaten(api, consumer, 1)
        # The jitter of the set-up timeout is a fifth.
        assert time.monotonic() - begin > 3
        api(consumer.close())


@pytest.mark.parametrize(
    ("request_name", "error"),
    [
        (request, error)
        for request in ("Fetch", "ListOffsets", "OffsetFetch")
        for error in ("TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR", "INVALID_REQUEST", "POLICY_VIOLATION")
    ],
)
def test_a_passing_denial_is_raised_once_and_passes(api, broker, address, topic, request_name, error):
    with api.producer(address, linger_ms=0) as producer:
        api.result(api(producer.send(topic, b"one", partition=0)))
    grouped = {"group_id": f"{topic}-group"} if request_name == "OffsetFetch" else {}
    with api.consumer(address, auto_offset_reset="earliest", enable_auto_commit=False, **grouped) as consumer:
        broker.fail(request_name, error, count=6)
        consumer.assign([TopicPartition(topic, 0)])
        raised, found, end = [], [], time.monotonic() + PATIENCE
        while not found:
            assert time.monotonic() < end, f"no record after {raised}"
            try:
                found += [record.value for record in api(consumer.poll(0.2))]
            except errors.KafkaError as problem:
                raised.append(problem.name)
        assert found == [b"one"]
        assert raised in ([error], []), raised
        if error == "TOPIC_AUTHORIZATION_FAILED":
            assert raised == [error]


def test_a_passing_denial_of_metadata_is_raised_once_to_a_share_consumer(api):
    with Broker(
        topics=["t"],
        listeners=["PLAINTEXT", "SASL_PLAINTEXT"],
        users={"alice": "a-secret"},
        super_users=["ANONYMOUS"],
        acls=["alice all group:s"],
    ) as broker:
        root = broker.bootstrap_of("PLAINTEXT")
        options = {"config": broker.client_config("alice", listener="SASL_PLAINTEXT"), "group_id": "s"}
        options["metadata_max_age_ms"] = 100
        with api.producer(root, linger_ms=0) as producer, api.open("ShareConsumer", **options) as consumer:
            consumer.subscribe(["t"])
            raised = []
            for _ in range(8):
                try:
                    assert len(api(consumer.poll(0.3))) == 0
                except errors.AuthorizationError as problem:
                    raised.append(problem.api)
            assert sorted(set(raised)) == sorted(raised), "each API's denial is raised once"
            assert set(raised) <= {"Metadata", "ShareGroupHeartbeat"}
            assert raised
            with Connection(root) as connection:
                allowed = {"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "host": "*"}
                allowed |= {"principal": "User:alice", "operation": 2, "permission_type": 3}
                connection.ask("CreateAcls", 3, {"creations": [allowed]})
            found, end = [], time.monotonic() + PATIENCE
            while not found:
                assert time.monotonic() < end, "no record"
                api.result(api(producer.send("t", b"after")))
                found += [record.value for record in api(consumer.poll(0.2))]
            assert found[0] == b"after"


def test_a_topic_that_does_not_exist_is_named_with_what_to_do(api):
    text = r'topic "flihgts" does not exist: correct its name, or create it \(topic flihgts'
    with Broker(topics=["flights"], config={"auto.create.topics.enable": False}) as broker:
        address = broker.bootstrap_servers
        with api.consumer(address) as consumer:
            consumer.assign([TopicPartition("flihgts", 0)])
            with pytest.raises(errors.NotFoundError, match=text) as raised:
                api(consumer.poll(PATIENCE))
            assert raised.value.topic == "flihgts"
        for kind in ("Consumer", "ShareConsumer"):
            with api.open(kind, address, group_id=f"{kind}-g") as consumer:
                consumer.subscribe(["flihgts"])
                with pytest.raises(errors.NotFoundError, match=text) as raised:
                    api(consumer.poll(PATIENCE))
                assert raised.value.topic == "flihgts"


def test_who_loops_over_errors_uses_no_core(api, address):
    with api.consumer(address) as consumer:
        used, raised = time.process_time(), 0
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            with pytest.raises(errors.ArgumentError, match="nothing is assigned"):
                api(consumer.poll(0.25))
            raised += 1
        assert raised <= 6, f"{raised} errors in a second"
        assert time.process_time() - used < IDLE
