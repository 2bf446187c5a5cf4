"""Kafka for Python, from one Rust core: sync here, asyncio in `ottla.aio`, Spark in `ottla.spark`.

```python
import ottla

with ottla.Producer("localhost:9092") as producer:
    print(producer.send("flights", b"N123", key=b"JFK").result())

with ottla.Consumer("localhost:9092", topics=["flights"], auto_offset_reset="earliest") as consumer:
    for record in consumer:
        print(record.key, record.value)
```

`ottla.log` reads the files of a broker's log. The wire protocol itself is in `ottla.protocol`.
"""

from __future__ import annotations

import atexit
import importlib
import warnings
import zipimport

if isinstance(__spec__.loader, zipimport.zipimporter):
    raise ImportError(  # noqa: TRY004 nobody gave an argument
        f"ottla is in the archive {__spec__.loader.archive}, from which Python loads no compiled module: install it "
        "with pip. On Spark, bring a packed environment by --archives, not a zip by --py-files"
    )

from ottla import _admin
from ottla._ottla import (
    DEBUG_BUILD,
    AppMetric,
    Batch,
    Decoded,
    Deliveries,
    Delivery,
    Encoded,
    Keys,
    Record,
    __version__,
    close_at_exit,
)

TYPE_CHECKING = False  # type checkers know the name; `typing` would be imported for nothing else
if TYPE_CHECKING:
    from typing import Any

    from ottla import aio, errors, log, protocol, testing
    from ottla._acknowledgement import Acknowledgement
    from ottla._admin import *  # noqa: F403 its `__all__` is a part of this one
    from ottla._assignors import Assignor, GroupMember
    from ottla._decoding import Decoder
    from ottla._encoding import Encoder
    from ottla._metrics import MetricName, Metrics
    from ottla._registry import RegisteredSchema, SchemaRegistry
    from ottla._sync._admin import Admin
    from ottla._sync._consumer import Consumer
    from ottla._sync._producer import Producer
    from ottla._sync._read import read
    from ottla._sync._share import ShareConsumer
    from ottla._sync._transform import Transform, transform
    from ottla._transforming import NewRecord
    from ottla._two_phase import PreparedTransaction
    from ottla._types import (
        BadRecord,
        FencedProducer,
        GroupListing,
        GroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        ProducerState,
        RecordMetadata,
        SubscriptionPattern,
        TopicDescription,
        TopicPartition,
        TransactionListing,
    )
    from ottla.errors import KafkaError
    from ottla.integrations.polars import scan

__all__ = [
    "Acknowledgement",
    "Admin",
    "AppMetric",
    "Assignor",
    "BadRecord",
    "Batch",
    "Consumer",
    "Decoded",
    "Decoder",
    "Deliveries",
    "Delivery",
    "Encoded",
    "Encoder",
    "FencedProducer",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "KafkaError",
    "Keys",
    "MetricName",
    "Metrics",
    "NewRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "PreparedTransaction",
    "Producer",
    "ProducerState",
    "Record",
    "RecordMetadata",
    "RegisteredSchema",
    "SchemaRegistry",
    "ShareConsumer",
    "SubscriptionPattern",
    "TopicDescription",
    "TopicPartition",
    "TransactionListing",
    "Transform",
    "__version__",
    "aio",
    "errors",
    "log",
    "protocol",
    "read",
    "scan",
    "testing",
    "transform",
]
__all__ += _admin.__all__


def __dir__() -> list[str]:
    return __all__


atexit.register(close_at_exit)

if DEBUG_BUILD:
    warnings.warn(
        "this is a debug build of ottla, many times slower than a release build: build it with `make` or "
        "`maturin develop --release`",
        RuntimeWarning,
        stacklevel=2,
    )

# A program pays for the modules that it uses: the command line, for one, prints its help without a client.
_SUBMODULES = {"aio", "errors", "log", "protocol", "testing"}
_HOMES = {
    "Acknowledgement": "_acknowledgement",
    "GroupMember": "_assignors",
    "KafkaError": "errors",
    "MetricName": "_metrics",
    "Metrics": "_metrics",
    "NewRecord": "_transforming",
    "PreparedTransaction": "_two_phase",
}
# Their module is `ottla`: the name under which users find them, as in a traceback and in help().
_RENAMED = {
    "Admin": "_sync._admin",
    "Assignor": "_assignors",
    "Consumer": "_sync._consumer",
    "Decoder": "_decoding",
    "Encoder": "_encoding",
    "Producer": "_sync._producer",
    "RegisteredSchema": "_registry",
    "SchemaRegistry": "_registry",
    "ShareConsumer": "_sync._share",
    "Transform": "_sync._transform",
    "read": "_sync._read",
    "scan": "integrations.polars",
    "transform": "_sync._transform",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"ottla.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    if name in _admin.__all__:
        return getattr(_admin, name)
    home = _RENAMED.get(name) or _HOMES.get(name, "_types")
    found = getattr(importlib.import_module(f"ottla.{home}"), name)
    if name in _RENAMED:
        found.__module__ = "ottla"
    globals()[name] = found
    return found
