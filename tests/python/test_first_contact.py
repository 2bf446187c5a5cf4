"""What people type who come from other clients is understood, or answered with the line to write instead."""

from __future__ import annotations

import pickle
import time
from datetime import datetime, timedelta, timezone

import pytest

from ottla import TopicPartition, errors
from ottla.testing import Broker
from tests.python.conftest import PATIENCE

MOMENT = datetime(2024, 5, 6, 7, 8, 9, 123999, tzinfo=timezone(timedelta(hours=2)))
MILLISECONDS = 1714972089123


def test_a_key_by_position(api, address):
    with api.producer(address) as producer, pytest.raises(TypeError, match=r"send\(topic, value, key=\.\.\."):
        api(producer.send("a", b"x", b"k"))


@pytest.mark.parametrize(
    ("kind", "name", "instead"),
    [
        ("Producer", "produce", "producer.send(topic, value, key=key)"),
        ("Producer", "send_offsets_to_transaction", "producer.send_offsets("),
        ("Producer", "list_topics", "Admin(bootstrap_servers).list_topics()"),
        ("Consumer", "consume", "consumer.poll(timeout, max_records=100)"),
        ("Consumer", "store_offsets", "consumer.commit(offsets)"),
        ("Consumer", "consumer_group_metadata", "consumer.group_metadata()"),
        ("Consumer", "list_topics", "Admin(bootstrap_servers).list_topics()"),
        ("Admin", "alter_configs", "admin.incremental_alter_configs("),
    ],
)
def test_names_that_other_clients_have(api, address, kind, name, instead):
    with api.open(kind, address) as client, pytest.raises(AttributeError) as caught:
        getattr(client, name)
    assert f"{'' if api.name == 'sync' else 'aio.'}{kind}' object has no attribute '{name}'; write " in str(
        caught.value
    )
    assert instead in str(caught.value)
    assert not hasattr(client, name)


def test_names_that_nobody_has(api, address):
    for kind in ("Producer", "Consumer", "Admin"):
        with api.open(kind, address) as client, pytest.raises(AttributeError, match="'nonsense'$"):
            _ = client.nonsense


def test_a_batch_is_no_message(api, address, topic):
    with api.consumer(address) as consumer:
        consumer.assign([(topic, 0)])
        batch = api(consumer.poll(0))
    for name in ("value", "error", "topic", "items"):
        with pytest.raises(AttributeError, match="for record in batch"):
            getattr(batch, name)
    with pytest.raises(AttributeError, match="'nonsense'$"):
        _ = batch.nonsense


def test_a_refusal_is_named_once(api, broker, address, topic):
    broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    with api.producer(address) as producer, pytest.raises(errors.AuthorizationError) as caught:
        api.result(api(producer.send(topic, b"v")))
    assert str(caught.value).count("TOPIC_AUTHORIZATION_FAILED") == 1


def test_a_tuple_of_three_is_no_partition(api, address):
    with api.consumer(address) as consumer:
        with pytest.raises(TypeError, match="this tuple has 3 items") as caught:
            consumer.assign([("ev", 0, 5)])
        assert "('ev', 0, 5)" in str(caught.value)
        assert "write TopicPartition(topic, partition, offset)" in str(caught.value)
        with pytest.raises(TypeError, match="pair, not list"):
            consumer.assign([["ev", 0]])


PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_allow_plaintext": True,
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "alice-secret",
    "broker_version_fallback": "0.9.0",
}


def test_a_broker_too_old_for_the_mechanism_is_said_long_before_the_deadline(api):
    """Kafka 0.9 authenticates by Kerberos alone, and tells no versions: the settings say what it is."""
    listener = ["SASL_PLAINTEXT mechanisms=PLAIN"]
    with Broker(as_version="0.9.0", listeners=listener, users={"alice": "alice-secret"}) as broker:
        address, quick = broker.bootstrap_servers, {"api_version_request_timeout_ms": 300}
        with api.producer(address, **PLAIN, **quick) as producer:
            begin = time.monotonic()
            with pytest.raises(errors.AuthenticationError) as caught:
                api.result(api(producer.send("t", b"v")))
            assert time.monotonic() - begin < PATIENCE
    for word in (address, "Kafka 0.9", "PLAIN needs Kafka 0.10", "broker.version.fallback"):
        assert word in str(caught.value)
    with pytest.raises(errors.ConfigError, match=r"sasl\.mechanism.* PLAIN needs brokers of Kafka 0\.10 or newer"):
        api.module.Producer("localhost:1", **PLAIN, api_version_request=False)


class TestTopicPartition:
    def test_fails_at_once_and_names_the_field(self):
        with pytest.raises(TypeError, match="^partition must be an int, not str$"):
            TopicPartition("ev", "0")
        with pytest.raises(TypeError, match="^topic must be a str, not bytes$"):
            TopicPartition(b"ev", 0)
        with pytest.raises(TypeError, match="^offset must be an int, not str$"):
            TopicPartition("ev", 0, "5")

    def test_unpacks_sorts_and_keeps_its_offset(self):
        topic, partition = TopicPartition("ev", 3, offset=7)
        assert (topic, partition) == ("ev", 3)
        unsorted = [TopicPartition("b", 0), TopicPartition("a", 2, 1), TopicPartition("a", 1, 9)]
        assert sorted(unsorted) == [("a", 1), ("a", 2), ("b", 0)]
        assert [each.offset for each in sorted(unsorted)] == [9, 1, None]

    def test_equals_whatever_names_the_partition(self):
        assert {TopicPartition("ev", 3, 7): "found"}["ev", 3] == "found"
        assert {("ev", 3): "found"}[TopicPartition("ev", 3)] == "found"
        assert TopicPartition("ev", 3) != TopicPartition("ev", 4)

    def test_pickles_and_cannot_be_changed(self):
        again = pickle.loads(pickle.dumps(TopicPartition("ev", 3, 7)))
        assert (type(again), again, again.offset) == (TopicPartition, ("ev", 3), 7)
        with pytest.raises(AttributeError):
            again.offset = 8
        assert repr(again) == "TopicPartition(topic='ev', partition=3, offset=7)"
        assert repr(TopicPartition("ev", 3)) == "TopicPartition(topic='ev', partition=3)"

    def test_a_pair_with_a_wrong_field(self, api, address):
        with api.consumer(address) as consumer:
            with pytest.raises(TypeError, match='partition of topic "ev" must be an int, not str'):
                consumer.assign([("ev", "0")])
            with pytest.raises(TypeError, match="topic of a partition must be a str, not int"):
                consumer.assign([(0, 0)])
            with pytest.raises(TypeError, match="not int$"):
                consumer.assign([5])


class TestTime:
    def test_a_datetime_is_a_timestamp(self, api, address, topic):
        with api.producer(address) as producer, api.consumer(address) as consumer:
            sent = api(producer.send(topic, b"a", partition=0, timestamp=MOMENT))
            assert api.result(sent).timestamp == MILLISECONDS
            later = MOMENT + timedelta(seconds=1)
            api.result(api(producer.send_many(topic, [b"b", b"c"], partitions=[0, 0], timestamps=[later, None])))
            consumer.assign([TopicPartition(topic, 0, 0)])
            times = [record.timestamp for record in api.poll(consumer, 3)]
            assert times[:2] == [MILLISECONDS, MILLISECONDS + 1000]
            found = api(consumer.offsets_for_times({(topic, 0): later}))
            assert found == {(topic, 0): (1, MILLISECONDS + 1000)}

    @pytest.mark.parametrize(
        ("wrong", "text"),
        [(-5, "from 0 up, and was -5"), (datetime(2024, 5, 6), r"moment\.astimezone\(\)")],  # noqa: DTZ001 that is the point
    )
    def test_what_names_no_point_in_time(self, api, address, topic, wrong, text):
        with api.producer(address) as producer, api.consumer(address) as consumer:
            for call in (
                lambda: producer.send(topic, b"v", timestamp=wrong),
                lambda: producer.send_many(topic, [b"v", b"v"], timestamps=[0, wrong]),
                lambda: consumer.offsets_for_times({(topic, 0): wrong}),
            ):
                with pytest.raises(errors.ArgumentError, match=text):
                    api(call())
            with pytest.raises(TypeError):
                api(producer.send(topic, b"v", timestamp="now"))
            api(producer.flush(20))
            assert api(consumer.end_offsets([(topic, 0), (topic, 1)])) == {(topic, 0): 0, (topic, 1): 0}


class TestClosed:
    def test_every_verb_of_a_closed_producer(self, api, address, topic):
        import pyarrow as pa

        with api.producer(address) as producer:
            api.result(api(producer.send(topic, b"v")))
        for call in (
            lambda: producer.send(topic, b"v"),
            lambda: producer.send_many(topic, [b"v"]),
            lambda: producer.send_arrow(topic, pa.table({"value": [b"v"]})),
            lambda: producer.partitions_for(topic),
            lambda: entered(api, producer),
        ):
            closed(api, call)
        api(producer.flush(0))
        api(producer.close())
        api(producer.close(0))

    def test_every_verb_of_a_closed_consumer(self, api, address, topic):
        with api.consumer(address) as consumer:
            consumer.assign([(topic, 0)])
        pair = [(topic, 0)]
        for call in (
            lambda: consumer.poll(0),
            lambda: consumer.seek((topic, 0), 0),
            consumer.seek_to_beginning,
            lambda: consumer.seek_to_end(pair),
            lambda: consumer.pause(pair),
            lambda: consumer.resume(pair),
            lambda: consumer.assign(pair),
            consumer.assignment,
            consumer.paused,
            lambda: consumer.position((topic, 0)),
            consumer.lag,
            lambda: consumer.beginning_offsets(pair),
            lambda: consumer.end_offsets(pair),
            lambda: consumer.offsets_for_times({(topic, 0): 0}),
            lambda: consumer.partitions_for(topic),
            lambda: api.take(consumer, 1),
            lambda: api.take(consumer.batches(), 1),
            lambda: entered(api, consumer),
        ):
            closed(api, call)
        api(consumer.close())

    def test_every_verb_of_a_closed_admin_client(self, api, address):
        with api.admin(address) as admin:
            pass
        for call in (
            lambda: admin.create_topics("t"),
            lambda: admin.delete_topics("t"),
            admin.list_topics,
            lambda: admin.describe_topics("t"),
            lambda: admin.describe_producers([("t", 0)]),
            lambda: entered(api, admin),
        ):
            closed(api, call)
        api(admin.close())


def entered(api, client):
    if api.name == "sync":
        return client.__enter__()
    return client.__aenter__()


def closed(api, call):
    with pytest.raises(errors.ClosedError) as caught:
        api(call())
    assert str(caught.value) == "the client is closed"


def test_deliveries_tell_how_many_failed(api, broker, address, topic):
    with api.producer(address) as producer:
        fine = api(producer.send_many(topic, [b"v"] * 3))
        api.result(fine)
        assert repr(fine).endswith("Deliveries(3 records, done)")
        broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", count=2)
        failing = api(producer.send_many(topic, [b"v"] * 5))
        with pytest.raises(errors.AuthorizationError):
            api.result(failing)
    assert repr(failing).endswith("Deliveries(5 records, done, 5 failed)")
