"""Partitions' logs in folders, without a broker: `.log` segments of any age, as batches of records in columns.

A folder is that of a partition (`orders-0`) or one with many of them (a broker's `log.dirs`), on this machine or,
through fsspec, in an object store. It may be a copy, or that of a broker that runs. Or it is the store in which brokers
keep old segments (tiered storage, KIP-405), as Aiven's RemoteStorageManager writes it.

```python
from ottla.log import read_log

for batch in read_log("/var/lib/kafka/data", topics=["orders"]):
    table = batch.to_arrow()
```

`open_log` gives the same in parts, to read ranges of offsets in tasks of your own; Spark's `format("ottla-log")` does
that. `ottla.protocol.read_segment` reads one file, batch by batch and past damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike, fspath
from typing import Any

from ottla import Batch, _ottla
from ottla.errors import ArgumentError, NotFoundError
from ottla.log._files import files_of, shown
from ottla.log._folders import find
from ottla.log._log import DEFAULT_BYTES, Log
from ottla.log._private_keys import PrivateKeys
from ottla.log._range import LogRange
from ottla.log._tiered import Store, find_tiered

__all__ = ["DEFAULT_BYTES", "INTERNAL_TOPICS", "Log", "LogRange", "open_log", "read_log"]


def __dir__() -> list[str]:
    return __all__


INTERNAL_TOPICS: frozenset[str] = frozenset(_ottla.internal_topics())
"""The topics that `read_log` reads only if they are named."""

ISOLATION_LEVELS = {"read_uncommitted": False, "read_committed": True}


def open_log(
    path: str | PathLike[str],
    *,
    remote: str | PathLike[str] | None = None,
    private_keys: Mapping[str, str | bytes] | None = None,
    isolation_level: str = "read_uncommitted",
    storage_options: Mapping[str, Any] | None = None,
) -> Log:
    """Open the partition logs that the folders hold at this moment.

    What follows the last whole batch of a partition's last segment is not there yet: a broker may be writing it. Files
    that are not segments are skipped, such as those of an unfinished compaction, and folders of deleted partitions.

    Args:
        path: A folder, or a glob pattern of folders: each is that of a partition, named `TOPIC-NUMBER`, or holds such
            folders. A URL (`s3://bucket/backup/*`) is read through fsspec. It may also be a store of tiered segments:
            the folder that `key.prefix` names, or that of a topic or partition in it.
        remote: The store of tiered segments of the brokers whose folders `path` names. Each partition is read from the
            store up to the first offset of its folder, and from there on from the folder.
        private_keys: The RSA keys of encrypted segments: PEM, by the names in `encryption.key.pairs` of the brokers.
        isolation_level: `"read_uncommitted"`, which is also the default of `Consumer` and of the Kafka source in Spark,
            has all records. `"read_committed"` omits the records of aborted transactions and ends before the first open
            transaction. To find transactions, it reads the beginning of every batch in the segments; of tiered ones it
            reads the indexes.
        storage_options: Arguments of the file system of fsspec, for each of the two that is a URL. No error shows them.

    Returns:
        The partitions, with their offsets.

    Raises:
        ArgumentError: The isolation level, or the URL, is unknown; a private key is not a key; or there is no folder of
            a partition.
        CorruptRecordError: The file with the first offsets of partitions is damaged.
        ImportError: The URL needs fsspec, or a package of the file system; or encrypted segments need `cryptography`.
        OSError: A folder or file cannot be read.
    """
    committed = ISOLATION_LEVELS.get(isolation_level)
    if committed is None:
        raise ArgumentError(f"isolation_level is {' or '.join(ISOLATION_LEVELS)}, not {isolation_level!r}")
    keys = PrivateKeys(private_keys or {})
    # There are no options for a path of this machine, which may stand beside a URL.
    files = files_of(path, storage_options if remote is None or "://" in fspath(path) else None)
    store = files if remote is None else files_of(remote, storage_options if "://" in fspath(remote) else None)
    folders, tiered = find(files), find_tiered(store)
    if not tiered and remote is not None:
        raise ArgumentError(
            f"{shown(store.path)} has no tiered segments: name the folder that holds folders of topics such as "
            "orders-MWJ6FHTfRYy67jzwZdeqSQ, in which brokers keep manifests (.rsm-manifest)"
        )
    if not folders and (remote is not None or not tiered):
        raise ArgumentError(
            f"{shown(files.path)} has no log of a partition: name a folder such as orders-0, in which a broker keeps "
            "segments (00000000000000000000.log), or the folder around it"
        )
    return Log(files, folders, Store(store, tiered, keys) if tiered else None, read_committed=committed)


def read_log(
    path: str | PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    remote: str | PathLike[str] | None = None,
    private_keys: Mapping[str, str | bytes] | None = None,
    isolation_level: str = "read_uncommitted",
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[Batch]:
    """Read all records of the partitions in a folder, one partition after the other, each in the order of its offsets.

    Args:
        path: As `open_log` takes it.
        topics: Names of topics; None for all but Kafka's own, such as `__consumer_offsets`.
        remote: As `open_log` takes it.
        private_keys: As `open_log` takes them.
        isolation_level: As `open_log` takes it.
        storage_options: As `open_log` takes them.

    Yields:
        Batches of one partition, of about 4 MiB of its log.

    Raises:
        NotFoundError: A topic has no folder there; or, `retriable`, a broker deleted or compacted a segment meanwhile.
        CorruptRecordError: A batch is damaged. The text names file, position, topic, partition and offset; batches
            before it were yielded. Or a manifest or index of tiered segments is damaged, or segments are missing.
        ArgumentError: As `open_log` raises it; so the errors below.
        ImportError: fsspec or `cryptography` is needed.
        OSError: A folder or file cannot be read.
    """
    log = open_log(
        path,
        remote=remote,
        private_keys=private_keys,
        isolation_level=isolation_level,
        storage_options=storage_options,
    )
    named = None if topics is None else set(topics)
    if missing := sorted((named or set()) - {at.topic for at in log.partitions}):
        raise NotFoundError(f"there is no folder of a partition of topic {missing[0]} in {shown(str(path))}")
    for at in log.partitions:
        if at.topic in named if named is not None else at.topic not in INTERNAL_TOPICS:
            for part in log.ranges(at):
                yield from part.read(storage_options)
