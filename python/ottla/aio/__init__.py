"""ottla for asyncio: the names of `ottla`, with calls that are awaited.

```python
from ottla import aio

async with aio.Producer("localhost:9092") as producer:
    delivery = await producer.send("flights", b"N123", key=b"JFK")  # waits only while the buffer is full
    print(await delivery)  # waits for the broker

async with aio.Consumer("localhost:9092", topics=["flights"], auto_offset_reset="earliest") as consumer:
    async for record in consumer:
        print(record.key, record.value)
```

Any event loop with `add_reader` works, such as asyncio's own and uvloop. Cancelling a call loses nothing: a record is
either returned or comes with a later call.
"""

from __future__ import annotations

from ottla._ottla import AsyncDeliveries as Deliveries
from ottla._ottla import AsyncDelivery as Delivery
from ottla.aio._admin import Admin
from ottla.aio._consumer import Consumer
from ottla.aio._producer import Producer
from ottla.aio._read import read
from ottla.aio._share import ShareConsumer
from ottla.aio._transform import Transform, transform

__all__ = ["Admin", "Consumer", "Deliveries", "Delivery", "Producer", "ShareConsumer", "Transform", "read", "transform"]


def __dir__() -> list[str]:
    return __all__
