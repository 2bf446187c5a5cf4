"""What a client says of a topic is what the broker has: `written=False` means not in the log, and asking makes no topic."""

from __future__ import annotations

import pytest

import ottla
from ottla import TopicPartition, errors
from ottla.testing import Broker


def in_log(address, topic):
    """Values of a partition's records."""
    with ottla.Consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        end = consumer.end_offsets([(topic, 0)])[topic, 0]
        found = []
        while consumer.position((topic, 0)) < end:
            found += [record.value for record in consumer.poll(20)]
        return found


FAULTS = {
    "refused": lambda broker: broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED"),
    "refused for good": lambda broker: broker.fail("Produce", "MESSAGE_TOO_LARGE"),
    "lost before": lambda broker: broker.disconnect("Produce", count=1000),
    "lost after": lambda broker: broker.disconnect("Produce", applied=True, count=1000),
    "never answered": lambda broker: broker.ignore("Produce", count=1000),
    "answered too late": lambda broker: broker.delay("Produce", 30, count=1000),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("idempotent", [True, False])
def test_not_written_means_not_in_the_log(api, broker, address, topic, fault, idempotent):
    """The other way round nothing is promised: what may have been written may be there or not."""
    options = {"delivery_timeout_ms": 1500, "request_timeout_ms": 700, "linger_ms": 0, "enable_idempotence": idempotent}
    if fault.startswith("refused"):  # which is told once: it must not be late, and asked for again
        options |= {"delivery_timeout_ms": 30_000, "request_timeout_ms": 15_000}
    elif fault == "lost after":  # which must come to the broker before it is given up
        options |= {"delivery_timeout_ms": 5000, "request_timeout_ms": 2000}
    with api.producer(address) as producer:
        api.result(api(producer.send(topic, b"before", partition=0)))
    with api.producer(address, **options) as producer:
        api(producer.partitions_for(topic, 20))
        FAULTS[fault](broker)
        failed = api(producer.send(topic, b"failed", partition=0))
        with pytest.raises(errors.KafkaError) as caught:
            api.result(failed)
        broker.clear_faults()
    log = in_log(address, topic)
    assert log[0] == b"before"
    assert caught.value.written in {False, None}
    if caught.value.written is False:
        assert b"failed" not in log
    assert (caught.value.written is False) >= fault.startswith("refused")
    assert (b"failed" in log) >= (fault == "lost after")


def test_reading_makes_no_topic(api):
    """Where brokers make what producers ask for, what only asks makes nothing."""
    with Broker(config={"auto.create.topics.enable": True}) as broker:
        address = broker.bootstrap_servers
        with api.consumer(address, topics="typo", default_api_timeout_ms=20_000) as consumer:
            with pytest.raises(errors.KafkaError):
                api(consumer.poll(20))
            with pytest.raises(errors.KafkaError):
                api(consumer.partitions_for("other", timeout=20))
        with api.consumer(address, default_api_timeout_ms=20_000) as consumer:
            consumer.assign([("third", 0)])
            with pytest.raises(errors.KafkaError):
                api(consumer.poll(20))
            with pytest.raises(errors.KafkaError):
                api(consumer.end_offsets([("fourth", 0)], timeout=20))
        with api.admin(address) as admin:
            with pytest.raises(errors.NotFoundError):
                api(admin.describe_topics("fifth"))
            assert api(admin.list_topics()) == []
