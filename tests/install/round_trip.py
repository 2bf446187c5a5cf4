"""What a wheel must do where it is installed; prints a line for each step that passed. It needs nothing but ottla, and pyarrow for columns.

`make wheels` runs it on each platform, under an emulator too, so it is short and waits long.
"""

import asyncio
import platform
import sys
import tempfile
from pathlib import Path

import ottla
import ottla.aio
import ottla.log
from ottla import testing

PATIENCE = 120.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 2_000


def passed(what):
    print(what, flush=True)


def produce(broker):
    with ottla.Producer(broker.bootstrap_servers) as producer:
        delivery = producer.send("first", b"value", key=b"key", headers={"h": b"1"})
        assert delivery.result(PATIENCE).offset == 0
    passed("sync produce")
    for codec in CODECS:
        with ottla.Producer(broker.bootstrap_servers, compression_type=codec) as producer:
            for number in range(RECORDS):
                producer.send(codec, b"%d " % number * 10)
            producer.flush(PATIENCE)
        with ottla.Consumer(broker.bootstrap_servers, topics=codec, auto_offset_reset="earliest") as consumer:
            values = []
            while len(values) < RECORDS:
                values += [record.value for record in consumer.poll(PATIENCE)]
        assert values == [b"%d " % number * 10 for number in range(RECORDS)], codec
    passed("codecs " + " ".join(CODECS))


async def with_asyncio(broker):
    async with ottla.aio.Producer(broker.bootstrap_servers) as producer:
        await (await producer.send("asyncio", b"value"))
    async with ottla.aio.Consumer(broker.bootstrap_servers, topics="asyncio", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            assert record.value == b"value"
            break
    passed("asyncio")


def in_a_group(broker):
    for protocol in ("classic", "consumer"):
        settings = {"topics": "none", "auto_offset_reset": "earliest", "group_id": protocol, "group_protocol": protocol}
        with ottla.Consumer(broker.bootstrap_servers, **settings) as consumer:
            assert consumer.poll(PATIENCE)
            consumer.commit()
    passed("groups of both protocols")


def in_columns(broker):
    try:
        import pyarrow as pa
    except ImportError:
        passed("columns not tried: pyarrow is not installed")
        return
    table = ottla.read(broker.bootstrap_servers, "zstd").to_arrow()
    assert table.num_rows == RECORDS
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow("columns", pa.table({"value": table["value"]}))
        producer.flush(PATIENCE)
    assert ottla.read(broker.bootstrap_servers, "columns").to_arrow()["value"].equals(table["value"])
    passed(f"columns by pyarrow {pa.__version__}")


def with_tls(folder):
    certificates = testing.Certificates(folder)
    with testing.Broker(topics=["t"], listeners=["SSL"], tls=certificates) as broker:
        settings = {"security_protocol": "SSL", "ssl_ca_location": str(certificates.ca)}
        with ottla.Producer(broker.bootstrap_servers, **settings) as producer:
            producer.send("t", b"v").result(PATIENCE)
    passed("TLS")


def main():
    with testing.Broker(topics=["first", "asyncio", "columns", *CODECS]) as broker:
        produce(broker)
        asyncio.run(with_asyncio(broker))
        in_a_group(broker)
        in_columns(broker)
    with tempfile.TemporaryDirectory() as folder:
        with_tls(Path(folder))
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"ottla {ottla.__version__} on {implementation}, {sys.platform} {platform.machine()}: all passed")


if __name__ == "__main__":
    main()
