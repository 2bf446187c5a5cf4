"""What fails: parameters, records, states, partitions without an offset, groups without an id."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import BrokerResponseError, KafkaError, OffsetOutOfRangeError, for_code, kafka_errors

servers, topic, group = sys.argv[1:]


async def shown(call):
    try:
        made = call()
        return await made if asyncio.iscoroutine(made) else type(made).__name__
    except Exception as error:
        return type(error).__name__, isinstance(error, KafkaError)


async def closed(client):
    client._closed = True
    return type(client).__name__


async def main():
    for parameters in (
        {"acks": 7},
        {"compression_type": "brotli"},
        {"acks": 1, "enable_idempotence": True},
        {"security_protocol": "TLS"},
        {"security_protocol": "SSL"},
        {"security_protocol": "SASL_PLAINTEXT"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "NONE"},
    ):
        print(parameters, await shown(lambda parameters=parameters: AIOKafkaProducer(**parameters)))
    for parameters in ({"max_poll_records": 0}, {"max_poll_records": "many"}):
        print(parameters, await shown(lambda parameters=parameters: AIOKafkaConsumer(**parameters)))
    print(await shown(AIOKafkaProducer(bootstrap_servers="127.0.0.1:1").start))
    async with AIOKafkaProducer(bootstrap_servers=servers, max_request_size=2000) as producer:
        print(await shown(lambda: producer.send(topic, "text")))
        print(await shown(lambda: producer.send(topic, b"x" * 3000)))
        print(await shown(lambda: producer.send(topic)))
        print(await shown(lambda: producer.send(topic, b"x", partition=77)))
        print(await shown(producer.begin_transaction), await shown(producer.commit_transaction))
        print((await producer.send_and_wait(topic, b"here", partition=0)).offset)
    async with AIOKafkaProducer(bootstrap_servers=servers, acks=0) as producer:
        print(await producer.send_and_wait(topic, b"here", partition=0))
    tp = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="none") as consumer:
        print(await shown(consumer.commit), await shown(lambda: consumer.committed(tp)))
        print(await shown(consumer.subscribe), await shown(lambda: consumer.subscribe(topic)))
        print(await shown(lambda: consumer.subscribe([topic], "pattern")))
        print(await shown(lambda: consumer.subscribe(pattern="(")))
        print(await shown(lambda: consumer.subscribe([topic], listener=print)))
        consumer.assign([tp])
        print(await shown(lambda: consumer.subscribe([topic])))
        for _ in range(2):
            print(await shown(consumer.getone), await shown(lambda: consumer.getmany(timeout_ms=2000)))
        print(
            await shown(lambda: consumer.seek(tp, -1)), await shown(lambda: consumer.position(TopicPartition("no", 1)))
        )
        consumer.seek(tp, 12345)
        for _ in range(2):
            print(await shown(consumer.getone))
        consumer.seek(tp, 0)
        print((await consumer.getone()).value)
        print(await shown(lambda: consumer.getmany(max_records=0)))
        print(await shown(lambda: consumer.offsets_for_times({tp: -1})))
        print(await shown(lambda: consumer.seek_to_end("x")))
    async with AIOKafkaConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        print(await shown(consumer.commit), await shown(lambda: consumer.commit({tp: 1})))
        consumer.assign([tp])
        for offsets in ({}, {tp: "x"}, {"t": 1}, {tp: (1, 2)}, {TopicPartition(topic, 1): 1}):
            print(offsets, await shown(lambda offsets=offsets: consumer.commit(offsets)))
    print(for_code(1) is OffsetOutOfRangeError, for_code(12345).__name__, issubclass(for_code(3), BrokerResponseError))
    for code, error in sorted(kafka_errors.items()):
        print(code, error.__name__, error.message, error.retriable, error.invalid_metadata)


asyncio.run(main())
