"""What fails: configuration, full queues, large records, callbacks that raise, clients without brokers."""

import sys

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
    consistent,
    fnv1a,
    murmur2,
)

servers, topic, group = sys.argv[1:]


def shown(call):
    try:
        return call()
    except KafkaException as error:
        return error.args[0].name(), error.args[0].retriable(), error.args[0].fatal()
    except Exception as error:
        return type(error).__name__, str(error)


print(shown(lambda: Producer({"bootstrap.servers": servers, "no.such": 1})))
print(shown(lambda: Producer({"bootstrap.servers": servers, "linger.ms": "many"})))
print(shown(lambda: Producer({"bootstrap.servers": servers, "linger.ms": -4})))
print(shown(lambda: Producer({"enable.idempotence": True, "acks": 0})))
for config in (
    {"compression.type": "brotli"},
    {"message.timeout.ms": 5, "linger.ms": 10},
    {"transactional.id": "t", "enable.idempotence": False},
):
    print(shown(lambda config=config: Producer(config)))
print(shown(lambda: Consumer({"group.id": group, "max.poll.interval.ms": 100})))
print([str(TopicPartition(topic, 0, offset)) for offset in (-2, -1, -1000, -1001, 5)])
print(shown(lambda: Producer({"error_cb": 1})))
print(shown(lambda: Producer({"throttle_cb": 1})))
print(shown(lambda: Producer({"on_delivery": 1})))
print(shown(lambda: Consumer({"bootstrap.servers": servers})))
print(shown(Consumer))
producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 2, "linger.ms": 1000})
print([shown(lambda: producer.produce(topic, "x")) for _ in range(3)], producer.flush(20))
small = Producer({"bootstrap.servers": servers, "message.max.bytes": 2000})
print(shown(lambda: small.produce(topic, b"x" * 3000)))
# The text of the first one is ottla's: it names the topic.
print(shown(lambda: small.produce(topic, 3))[0], shown(lambda: small.produce(3, "x"))[0])


def raises(error, message):
    raise ValueError(f"{error} {message.value()}")


small.produce(topic, "mine", on_delivery=raises)
print(shown(lambda: small.flush(20)))
small.produce(topic, "mine", on_delivery=raises)
print(shown(lambda: [small.poll(1) for _ in range(20)]))
alone = Producer({"message.timeout.ms": 50})
results = []
alone.produce(
    topic, "x", on_delivery=lambda error, message: results.append((error.name(), message.value(), message.offset()))
)
print(len(alone), alone.flush(20), results)
alone = Producer({})
alone.produce(topic, "x", on_delivery=lambda error, message: results.append((error.name(), message.value())))
alone.purge()
print(alone.flush(5), results[1:])
lonely = Consumer({"group.id": group})
print(lonely.poll(0.05), lonely.consume(3, 0.05))
print(
    shown(lambda: lonely.commit(asynchronous=False)),
    shown(lambda: lonely.committed([TopicPartition(topic, 0)], timeout=0.05)),
)
print(
    shown(lambda: lonely.seek(TopicPartition(topic, 0, 1))),
    shown(lambda: lonely.subscribe(topic)),
    shown(lambda: lonely.assign(topic)),
)
lonely.close()
error = KafkaError(KafkaError._TIMED_OUT)
print(error, error.str(), error == -185, error < 0, KafkaError(3, "why", fatal=True), KafkaError(12345).name())
print(
    TopicPartition("t", 1, 5),
    TopicPartition("t", 1) == TopicPartition("t", 1, 9),
    Message("t", 1, 2, b"k", b"v").timestamp(),
)
print([f(key, 10) for f in (murmur2, consistent, fnv1a) for key in (b"", b"a", b"abc", b"hello", b"\xff\xfe\xfd")])
