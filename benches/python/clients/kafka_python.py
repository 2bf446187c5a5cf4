"""kafka-python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from measurement import CHUNK

if TYPE_CHECKING:
    from measurement import Job, Stopwatch


def poll(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`poll`, and each record's value."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=job.bootstrap, **job.properties)
    count = size = 0
    watch.start()
    consumer.assign([TopicPartition(job.topic, p) for p in range(job.partitions)])
    consumer.seek_to_beginning()
    while job.wants_more(count, watch):
        for records in consumer.poll(timeout_ms=1000).values():
            count, size = count + len(records), size + sum(len(r.value) for r in records)
    watch.stop()
    consumer.close()
    return count, size


def send(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """`send`, one by one."""
    from kafka import KafkaProducer

    values, sent = job.values(), []
    codec = None if job.codec == "none" else job.codec
    producer = KafkaProducer(bootstrap_servers=job.bootstrap, acks="all", compression_type=codec, **job.properties)
    producer.partitions_for(job.topic)
    watch.start()
    while job.wants_more(len(sent), watch):
        sent += [producer.send(job.topic, value) for value in values[: CHUNK // 4]]
    producer.flush(30)
    for future in sent:
        future.get(0)
    watch.stop()
    producer.close()
    return len(sent), len(sent) * job.size
