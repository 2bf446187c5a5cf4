"""Writes tiered-3.9.1.jsonl.gz: topics of real Kafka whose segments Aiven's RemoteStorageManager moved, with the records that
librdkafka reads of them.

    .venv/bin/python -m tests.conformance.tiered_corpus PLUGIN

PLUGIN is a folder with the jars of tiered-storage-for-apache-kafka (core, commons, storage-core, storage-filesystem) and of what
they need. Maven has none of them: they were built from the sources of release 1.1.1, without its Iceberg part.

A line is a scene: what the store and the broker's folder hold, by path, in base64; the RSA keys; and the rows.
"""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.brokers.running import running

VERSION = "3.9.1"
CORPUS = Path(__file__).parent / f"tiered-{VERSION}.jsonl.gz"
MODES = ("plain", "zstd", "encrypted", "encrypted-zstd")
PATIENCE = 120
# Bytes of a segment and of a chunk: a segment has several chunks, whose ends are not those of batches.
SEGMENT, CHUNK = 6000, 1000


def properties(mode: str, plugin: Path, work: Path) -> dict[str, str]:
    rsm = {
        "chunk.size": CHUNK,
        "storage.backend.class": "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage",
        "storage.root": work / "store",
        "key.prefix": "pre/",
        "compression.enabled": "zstd" in mode,
        "encryption.enabled": "encrypted" in mode,
    }
    if "encrypted" in mode:
        rsm |= {
            "encryption.key.pair.id": "first",
            "encryption.key.pairs": "first",
            "encryption.key.pairs.first.public.key.file": work / "public.pem",
            "encryption.key.pairs.first.private.key.file": work / "private.pem",
        }
    found = {
        "remote.log.storage.system.enable": True,
        "remote.log.storage.manager.class.name": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
        "remote.log.storage.manager.class.path": f"{plugin}/*",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "remote.log.manager.task.interval.ms": 500,
        "log.retention.check.interval.ms": 500,
        "log.index.interval.bytes": 500,
        **{f"rsm.config.{name}": value for name, value in rsm.items()},
    }
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}


def make_keys(work: Path) -> None:
    for command in (
        "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out private.pem",
        "rsa -in private.pem -pubout -out public.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=work, check=True, capture_output=True, timeout=60)


def produce(address: str) -> None:
    """Batches of three records to two partitions in turn: plain ones, and those of committed and aborted transactions."""
    plain = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 100})
    # Two programs, whose transactions overlap.
    programs = [
        confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 100})
        for name in ("one", "two")
    ]
    for program in programs:
        program.init_transactions(60)

    def send(producer: confluent_kafka.Producer, number: int, word: str) -> None:
        for record in range(3):
            value = f"{word} {number}.{record} " + "x" * 120
            producer.produce("orders", value.encode(), key=b"%d" % number, partition=number % 2, headers=[("h", b"\0")])
        producer.flush(60)

    for number in range(0, 80, 4):
        send(plain, number, "plain")
        send(plain, number + 1, "plain")
        words = ["kept", "lost"] if number % 8 else ["lost", "kept"]
        for program, word in zip(programs, words, strict=True):
            program.begin_transaction()
            send(program, number + 2, word)
        for program, word in zip(programs, words, strict=True):
            send(program, number + 3, word)
            # Records of others stand between those of the transaction and its marker.
            send(plain, number + 2, "between")
            program.commit_transaction(60) if word == "kept" else program.abort_transaction(60)


def rows(address: str, level: str) -> list[list[object]]:
    """What librdkafka reads from the first offset on, which is in the store."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "g", "isolation.level": level, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", number, 0) for number in range(2)])
    found, ends = [], 0
    while ends < 2:
        message = consumer.poll(PATIENCE)
        assert message is not None
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            ends += 1
        else:
            at = message.partition(), message.offset(), message.timestamp()[1]
            found.append([*at, message.key().decode(), message.value().decode()])
    consumer.close()
    return sorted(found)


def files(folder: Path, *endings: str) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name.endswith(endings)
    }


def settled(store: Path, local: Path) -> None:
    """Wait until the broker has moved its segments and deleted its own copies of most."""
    end = time.monotonic() + PATIENCE
    before = None
    while time.monotonic() < end:
        now = (sorted(store.rglob("*.rsm-manifest")), sorted(local.glob("orders-*/*.log")))
        first = min((path.name for path in local.glob("orders-0/*.log")), default="")
        if now == before and len(now[0]) > 10 and int(first[:20]) > 0:
            return
        before = now
        time.sleep(5)
    raise TimeoutError(f"the broker moved {before}")


def scene(mode: str, plugin: Path, work: Path) -> dict[str, object]:
    (work / "store").mkdir()
    make_keys(work)
    with running(work / "kafka", version=VERSION, config=properties(mode, plugin, work)) as cluster:
        address = cluster.st["bootstrap"]["PLAINTEXT"]
        config = {
            "remote.storage.enable": "true",
            "segment.bytes": SEGMENT,
            "segment.index.bytes": 1024,
            "local.retention.bytes": 2 * SEGMENT,
        }
        # The client ends with its last name, and its calls with it.
        admin = AdminClient({"bootstrap.servers": address})
        made = admin.create_topics(
            [NewTopic("orders", 2, 1, config={name: str(value) for name, value in config.items()})]
        )
        made["orders"].result(PATIENCE)
        produce(address)
        local = Path(cluster.st["dir"]) / "node1"
        settled(work / "store", local)
        found = {level: rows(address, level) for level in ("read_uncommitted", "read_committed")}
        kept = files(local, ".log", ".index", ".txnindex", "log-start-offset-checkpoint")
    return {
        "mode": mode,
        "store": files(work / "store", ".log", ".indexes", ".rsm-manifest"),
        "local": {path: data for path, data in kept.items() if path.startswith("orders-") or "/" not in path},
        "keys": {"first": (work / "private.pem").read_text()} if "encrypted" in mode else {},
        **found,
    }


def main() -> None:
    plugin = Path(sys.argv[1]).resolve()
    with gzip.GzipFile(CORPUS, "wb", mtime=0) as corpus:
        for mode in MODES:
            with tempfile.TemporaryDirectory() as work:
                found = scene(mode, plugin, Path(work))
            print(
                mode,
                len(found["store"]),
                "objects",
                len(found["local"]),
                "files",
                len(found["read_uncommitted"]),
                "rows",
            )
            corpus.write(json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()
