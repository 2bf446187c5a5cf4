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
from typing import TYPE_CHECKING, Any, Literal  # noqa: F401 a hint of Assignor, whose module is this one

from ottla import _admin, _types, errors
from ottla._assignors import Assignor, GroupMember
from ottla._metrics import MetricName, Metrics
from ottla._ottla import (
    DEBUG_BUILD,
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
from ottla._sync._admin import Admin
from ottla._sync._consumer import Consumer
from ottla._sync._producer import Producer
from ottla._sync._read import read
from ottla._sync._share import ShareConsumer
from ottla._sync._transform import Transform, transform
from ottla._types import *  # noqa: F403 its `__all__` is a part of this one
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla import aio, log, protocol, testing
    from ottla._admin import *  # noqa: F403 its `__all__` is a part of this one
    from ottla._decoding import Decoder
    from ottla._encoding import Encoder
    from ottla._registry import RegisteredSchema, SchemaRegistry
    from ottla.integrations.polars import scan

__all__ = [
    "Admin",
    "Assignor",
    "Batch",
    "Consumer",
    "Decoded",
    "Decoder",
    "Deliveries",
    "Delivery",
    "Encoded",
    "Encoder",
    "GroupMember",
    "KafkaError",
    "Keys",
    "MetricName",
    "Metrics",
    "Producer",
    "Record",
    "RegisteredSchema",
    "SchemaRegistry",
    "ShareConsumer",
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
__all__ += _types.__all__
__all__ += _admin.__all__


def __dir__() -> list[str]:
    return __all__


for _public in (
    Admin,
    Assignor,
    Consumer,
    Producer,
    ShareConsumer,
    Transform,
    read,
    transform,
):
    # The name under which users find them, as in a traceback and in help().
    _public.__module__ = "ottla"

atexit.register(close_at_exit)

if DEBUG_BUILD:
    warnings.warn(
        "this is a debug build of ottla, many times slower than a release build: build it with `make` or "
        "`maturin develop --release`",
        RuntimeWarning,
        stacklevel=2,
    )


# What formats, registries and other libraries take is imported on first use.
_ON_FIRST_USE = {
    "Decoder": "ottla._decoding",
    "Encoder": "ottla._encoding",
    "RegisteredSchema": "ottla._registry",
    "SchemaRegistry": "ottla._registry",
    "scan": "ottla.integrations.polars",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, too: asyncio alone takes as long as all the rest.
    if name in {"aio", "log", "protocol", "testing"}:
        return importlib.import_module(f"ottla.{name}")
    if name in _admin.__all__:
        return getattr(_admin, name)
    if name in _ON_FIRST_USE:
        found = getattr(importlib.import_module(_ON_FIRST_USE[name]), name)
        found.__module__ = "ottla"
        globals()[name] = found
        return found
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")
