"""What a profile for the compiler is recorded from: what programs do with each record, in no program's proportions.

scripts/record_profile.py runs this with an instrumented module. A compiler that has the profile makes fast what ran
here, and small what did not. So each way in which a record passes through ottla belongs here; what happens once in a
while, such as calls of the admin client, does not. The embedded broker is in a process of its own, which counts
nothing. The records are not those of the benches, and no figure is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import ottla
import ottla.aio
from ottla.log import read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 300.0
"""Seconds for one step, also under an emulator."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 4
TINY = 256
"""Bytes of a batch that a few records fill."""


class Training:
    """One broker, and how many records each step sends or reads."""

    def __init__(self, place: Place, records: int) -> None:
        self.place = place
        self.servers = place.servers
        self.records = records
        self.values = [
            json.dumps({"id": n, "name": f"name-{n % 977}", "price": n % 9973 / 100, "ok": n % 3 == 0}).encode()
            for n in range(records)
        ]
        self.keys = [b"%08d" % (n % 5_003) for n in range(records)]

    # -- producing

    def send(self) -> None:
        """A record at a time: deliveries kept, dropped, asked for, called back."""
        with ottla.Producer(self.servers) as producer:
            deliveries = [producer.send("plain", value) for value in self.values]
            producer.flush(PATIENCE)
            assert all(delivery.exception() is None for delivery in deliveries)
            for key, value in zip(self.keys, self.values, strict=True):
                producer.send("keyed", value, key=key)
            some = self.records // 4
            for n in range(some):
                producer.send("keyed", self.values[n], key="text", headers={"trace": b"0123456789", "kind": "order"})
                producer.send("plain", "a text", partition=n % PARTITIONS, timestamp=1_700_000_000_000 + n)
            called = []
            for value in self.values[:some]:
                producer.send("plain", value).add_done_callback(called.append)
            producer.flush(PATIENCE)

    def send_one_by_one(self) -> None:
        """Each record is acknowledged before the next."""
        for acks in ("1", "all"):
            with ottla.Producer(self.servers, acks=acks) as producer:
                for value in self.values[: self.records // 20]:
                    producer.send("plain", value).result(PATIENCE)

    def send_in_bulk(self) -> None:
        """Lists and columns, compressed and not."""
        table = pa.table({"key": pa.array(self.keys, pa.binary()), "value": pa.array(self.values, pa.binary())})
        numbers = [n % PARTITIONS for n in range(self.records)]
        headers = [[("trace", b"1")]] * self.records
        for codec in CODECS:
            with ottla.Producer(self.servers, compression_type=codec) as producer:
                producer.send_many(f"many-{codec}", self.values).result(PATIENCE)
                producer.send_arrow(f"many-{codec}", table.select(["value"])).result(PATIENCE)
        with ottla.Producer(self.servers) as producer:
            for start in range(0, self.records, self.records // 4):
                part = slice(start, start + self.records // 4)
                producer.send_many("bulk", self.values[part], keys=self.keys[part]).result(PATIENCE)
                producer.send_many("bulk", self.values[part], partitions=numbers[part]).result(PATIENCE)
            producer.send_many("bulk", self.values, headers=headers).result(PATIENCE)
            producer.send_many("bulk", [value.decode() for value in self.values]).result(PATIENCE)
            producer.send_arrow("bulk", table).result(PATIENCE)
            views = table.cast(pa.schema([("key", pa.binary_view()), ("value", pa.binary_view())]))
            producer.send_arrow("bulk", views).result(PATIENCE)

    def send_to_many_topics(self) -> None:
        """Small calls, a topic each."""
        topics = [f"small-{n}" for n in range(64)]
        rows = [topics[n // 10 % len(topics)] for n in range(self.records)]
        table = pa.table({"topic": pa.array(rows).dictionary_encode(), "value": pa.array(self.values, pa.binary())})
        with ottla.Producer(self.servers) as producer:
            for n in range(0, self.records, 10):
                producer.send_many(rows[n], self.values[n : n + 10])
            for topic, value in zip(rows, self.values, strict=True):
                producer.send(topic, value)
            producer.flush(PATIENCE)
            producer.send_arrow(None, table).result(PATIENCE)

    def send_tiny_batches(self) -> None:
        """Batches that a few records fill."""
        with ottla.Producer(self.servers, batch_size=TINY) as producer:
            for value in self.values[: self.records // 2]:
                producer.send("tiny", value)
            producer.flush(PATIENCE)

    def send_transactions(self) -> None:
        """Transactions with the offsets of what was read, every third aborted."""
        size = 500
        with ottla.Producer(self.servers, transactional_id=f"training-{uuid.uuid4()}") as producer:
            producer.init_transactions()
            for n in range(0, self.records // 2, size):
                producer.begin_transaction()
                producer.send_many("transactions", self.values[n : n + size])
                for value in self.values[n : n + size // 10]:
                    producer.send("transactions", value)
                producer.send_offsets({("plain", 0): n}, "training-offsets")
                if n // size % 3:
                    producer.commit_transaction(PATIENCE)
                else:
                    producer.abort_transaction(PATIENCE)

    # -- consuming

    def _partitions(self, topic: str) -> list[ottla.TopicPartition]:
        return [ottla.TopicPartition(topic, number, 0) for number in range(PARTITIONS)]

    @contextlib.contextmanager
    def _reading(self, topic: str, **properties: Any) -> Iterator[ottla.Consumer]:
        with ottla.Consumer(self.servers, **properties) as consumer:
            consumer.assign(self._partitions(topic))
            yield consumer

    def _batches(self, consumer: ottla.Consumer, topic: str) -> Iterator[ottla.Batch]:
        """What the topic has now."""
        left = sum(consumer.end_offsets(self._partitions(topic), PATIENCE).values())
        deadline = time.monotonic() + PATIENCE
        while left > 0 and time.monotonic() < deadline:
            batch = consumer.poll(0.5)
            if not len(batch) and all(not lag for lag in consumer.lag().values()):
                return
            left -= len(batch)
            yield batch

    def read_columns(self) -> None:
        """Columns and views of them."""
        for topic in ("plain", "keyed", "bulk", "tiny", *(f"many-{codec}" for codec in CODECS)):
            for view in (False, True):
                with self._reading(topic) as consumer:
                    for batch in self._batches(consumer, topic):
                        batch.to_arrow(view=view)
        with self._reading("transactions", isolation_level="read_committed") as consumer:
            for batch in self._batches(consumer, "transactions"):
                batch.to_arrow()
        for topic in ("plain", "many-lz4"):
            ottla.read(self.servers, topic).to_arrow()

    def read_records(self) -> None:
        """Records one by one, and those of batches."""
        for topic in ("plain", "keyed", "many-zstd"):
            with self._reading(topic) as consumer:
                for record in islice(consumer, self.records):
                    record.value  # noqa: B018
            with self._reading(topic) as consumer:
                for batch in self._batches(consumer, topic):
                    for record in batch:
                        record.key, record.value, record.offset, record.timestamp, record.headers  # noqa: B018

    def read_in_groups(self) -> None:
        """Members of groups that commit what they read; a share group."""
        settings: dict[str, Any] = {"auto_offset_reset": "earliest"}
        for protocol in ("classic", "consumer"):
            group = f"training-{protocol}-{uuid.uuid4()}"
            with ottla.Consumer(
                self.servers, topics="plain", group_id=group, group_protocol=protocol, **settings
            ) as consumer:
                for record in islice(consumer, self.records // 2):
                    record.value  # noqa: B018
                left = self.records // 4
                while left > 0:
                    left -= len(consumer.poll(PATIENCE, max_records=100))
                    consumer.commit()
        sharing = {"group_id": f"training-share-{uuid.uuid4()}", "share_acknowledgement_mode": "explicit"}
        with ottla.Admin(self.servers) as admin:
            admin.incremental_alter_configs({("GROUP", sharing["group_id"]): {"share.auto.offset.reset": "earliest"}})
        with ottla.ShareConsumer(self.servers, topics="plain", **sharing) as consumer:
            deadline, left = time.monotonic() + 20, self.records // 4
            while left > 0 and time.monotonic() < deadline:
                batch = consumer.poll(1.0)
                for record in batch:
                    consumer.acknowledge(record)
                left -= len(batch)

    def end_to_end(self) -> None:
        """A record is sent, acknowledged and polled before the next."""
        with ottla.Producer(self.servers) as producer, ottla.Consumer(self.servers) as consumer:
            partition = ottla.TopicPartition("end-to-end", 0)
            producer.send("end-to-end", b"first", partition=0).result(PATIENCE)
            consumer.assign([partition])
            consumer.seek_to_end([partition])
            consumer.position(partition, PATIENCE)
            for value in self.values[: self.records // 10]:
                producer.send("end-to-end", value, partition=0)
                while not len(consumer.poll(PATIENCE)):
                    pass

    def with_asyncio(self) -> None:
        """Both clients on an event loop."""

        async def run() -> None:
            async with ottla.aio.Producer(self.servers) as producer:
                deliveries = [await producer.send("asyncio", value) for value in self.values]
                await asyncio.gather(*deliveries[: self.records // 4])
                await producer.flush(PATIENCE)
                for value in self.values[: self.records // 20]:
                    await (await producer.send("asyncio", value))
                await (await producer.send_many("asyncio", self.values))
            async with ottla.aio.Consumer(self.servers) as consumer:
                consumer.assign(self._partitions("asyncio"))
                left = self.records
                async for record in consumer:
                    left -= len(record.value) > 0
                    if not left:
                        break
            async with ottla.aio.Consumer(self.servers) as consumer:
                consumer.assign(self._partitions("asyncio"))
                left = self.records
                async for batch in consumer.batches():
                    batch.to_arrow()
                    left -= len(batch)
                    if left <= 0:
                        break

        asyncio.run(run())

    def over_tls(self) -> None:
        """A topic is written and read over TLS."""
        tls = {"security_protocol": "SSL", "ssl_ca_location": str(self.place.authority)}
        with ottla.Producer(self.place.tls_servers, **tls) as producer:
            for value in self.values[: self.records // 20]:
                producer.send("tls", value).result(PATIENCE)
            producer.send_many("tls", self.values).result(PATIENCE)
        ottla.read(self.place.tls_servers, "tls", **tls).to_arrow()

    def read_files(self) -> None:
        """The broker's log segments."""
        for batch in read_log(self.place.log, topics=["plain", "keyed", "many-zstd"]):
            batch.to_arrow()

    # -- typed columns

    def decode(self) -> None:
        """Values of each format to typed columns, and back; few columns and a hundred."""
        for width in (4, 100):
            rows = 4 * self.records // width
            table = _table(width, rows)
            schema, names = table.schema, table.schema.names
            message = _descriptors(schema)
            lines = [",".join(map(str, row.values())).encode() for row in table.to_pylist()]
            avro = ottla.Encoder(schema, "avro")
            avro_values = avro.encode(table)
            for kind, described, values in (
                ("json", schema, ottla.Encoder().encode(table)),
                ("avro", avro.schema, avro_values),
                ("protobuf", message, ottla.Encoder(message, "protobuf").encode(table)),
                ("csv", schema, lines),
            ):
                batch = self._made(f"{kind}-{width}", values)
                whole = ottla.Decoder(described, kind)
                assert batch.decode(whole).to_arrow().num_rows == rows
                batch.decode(whole, mode="permissive", keep=["key", "offset"]).to_arrow()
                batch.decode(ottla.Decoder(described, kind, select=names[: width // 2])).to_arrow()

    def _made(self, topic: str, values: Any) -> ottla.Batch:
        """The values, produced and read."""
        with ottla.Producer(self.servers) as producer:
            if isinstance(values, list):
                producer.send_many(topic, values).result(PATIENCE)
            else:
                producer.send_arrow(topic, pa.table({"value": pa.array(values)})).result(PATIENCE)
        return ottla.read(self.servers, topic)

    # -- programs for other clients

    def for_confluent_kafka(self) -> None:
        """Programs for confluent-kafka."""
        from confluent_kafka import Consumer, Producer, TopicPartition

        producer = Producer({"bootstrap.servers": self.servers})
        reports: list[Any] = []

        def report(error: Any, message: Any) -> None:
            reports.append(error or message.offset())

        size = self.records // 10
        for start in range(0, self.records, size):
            values = self.values[start : start + size]
            for value in values:
                producer.produce("compat", value, on_delivery=report)
                producer.poll(0)
            for key, value in zip(self.keys, values, strict=False):
                producer.produce("compat", value, key)
            producer.produce_batch("compat", [{"value": value, "callback": report} for value in values])
            producer.flush(PATIENCE)
        for most in (500, 1):
            consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "training"})
            consumer.assign([TopicPartition("compat", number, 0) for number in range(PARTITIONS)])
            left = self.records
            while left > 0:
                for message in consumer.consume(most, 1.0) if most > 1 else [consumer.poll(1.0)]:
                    assert message is not None
                    message.error(), message.key(), message.value(), message.offset(), message.timestamp()
                    left -= 1
            consumer.close()

    def for_confluent_kafka_with_asyncio(self) -> None:
        """Programs for its asyncio producer."""
        from confluent_kafka.aio import AIOProducer

        async def run() -> None:
            producer = AIOProducer({"bootstrap.servers": self.servers})
            for start in range(0, self.records, 10_000):
                futures = [await producer.produce("compat", value) for value in self.values[start : start + 10_000]]
                await producer.flush()
                await asyncio.gather(*futures)
            await producer.close()

        asyncio.run(run())

    def for_aiokafka(self) -> None:
        """Programs for aiokafka."""
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        async def run() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=self.servers)
            await producer.start()
            for start in range(0, self.records // 4, 1_000):
                futures = [await producer.send("aiokafka", value) for value in self.values[start : start + 1_000]]
                await asyncio.gather(*futures)
            await producer.stop()
            consumer = AIOKafkaConsumer(
                "aiokafka", bootstrap_servers=self.servers, auto_offset_reset="earliest", group_id=None
            )
            await consumer.start()
            left = self.records // 4
            while left > self.records // 8:
                left -= (await consumer.getone()).value is not None
            while left > 0:
                left -= sum(map(len, (await consumer.getmany(timeout_ms=1_000)).values()))
            await consumer.stop()

        asyncio.run(run())


def _table(width: int, rows: int) -> pa.Table:
    """Columns of texts, ints, longs and doubles."""
    kinds: tuple[tuple[str, pa.DataType, Callable[[int], Any]], ...] = (
        ("string", pa.string(), lambda n: f"text {n}"),
        ("int", pa.int32(), lambda n: n % 100_000),
        ("long", pa.int64(), lambda n: n * 7_919),
        ("double", pa.float64(), lambda n: n / 7),
    )
    columns = {}
    for n in range(width):
        name, kind, make = kinds[n % len(kinds)]
        columns[f"{name}{n}"] = pa.array(map(make, range(n, rows + n)), kind)
    return pa.table(columns)


def _descriptors(schema: pa.Schema) -> bytes:
    """A Protobuf message with these columns."""
    from google.protobuf import descriptor_pb2 as pb

    field = pb.FieldDescriptorProto
    kinds = {"string": field.TYPE_STRING, "int32": field.TYPE_INT32, "int64": field.TYPE_INT64}
    file = pb.FileDescriptorProto(name="row.proto", package="training", syntax="proto3")
    message = file.message_type.add(name="Row")
    for number, column in enumerate(schema, 1):
        kind = kinds.get(str(column.type), field.TYPE_DOUBLE)
        message.field.add(name=column.name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    return pb.FileDescriptorSet(file=[file]).SerializeToString()


class Place(NamedTuple):
    """Where the broker is: its addresses, and the folders of its authority and of its log."""

    servers: str
    tls_servers: str
    authority: Path
    log: Path


@contextlib.contextmanager
def broker(folder: Path, python: Path | None) -> Iterator[Place]:
    """An embedded broker in a process of its own, which counts nothing.

    `python` has an ottla of its own, for an interpreter that cannot start another process, as under an emulator.
    """
    log, certificates = folder / "log", folder / "certificates"
    command = [python or sys.executable, "-m", "ottla", "broker", "--listener", "PLAINTEXT", "--listener", "SSL"]
    command += ["--make-certificates", str(certificates), "--data-dir", str(log), "--format", "json"]
    command += ["--config", f"num.partitions={PARTITIONS}"]
    environment = {**os.environ, "LLVM_PROFILE_FILE": os.devnull}
    if python:
        del environment["PYTHONPATH"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            plain, tls = (item["bootstrap_servers"] for item in json.loads(process.stdout.readline())["items"])
            yield Place(plain, tls, certificates / "ca.pem", log)
        finally:
            process.terminate()
            process.wait(30)


def runs_programs_for(client: str) -> bool:
    """Let programs for another client run on ottla, unless this Python lacks what they need."""
    try:
        importlib.import_module(f"ottla.compat.{client}").install()
    except ImportError as error:
        print(f"not trained: programs for {client}, because of an ImportError: {error}")
        return False
    return True


def main() -> None:
    """Run each step, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="records of a step (default: %(default)s)")
    parser.add_argument("--broker-python", type=Path, help="the Python that runs the broker, with an ottla of its own")
    options = parser.parse_args()
    programs = [name for name in ("aiokafka", "confluent_kafka") if runs_programs_for(name)]
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder), options.broker_python) as place:
        training = Training(place, options.records)
        steps: list[Callable[[], None]] = [
            training.send,
            training.send_one_by_one,
            training.send_in_bulk,
            training.send_to_many_topics,
            training.send_tiny_batches,
            training.send_transactions,
            training.read_columns,
            training.read_records,
            training.read_in_groups,
            training.end_to_end,
            training.with_asyncio,
            training.over_tls,
            training.read_files,
            training.decode,
        ]
        if "aiokafka" in programs:
            steps.append(training.for_aiokafka)
        if "confluent_kafka" in programs:
            steps += [training.for_confluent_kafka, training.for_confluent_kafka_with_asyncio]
        for step in steps:
            began = time.monotonic()
            step()
            print(f"{step.__name__}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
