"""A FastStream service over aiokafka: models, a chain of topics, headers, batches, hooks of its life."""

import asyncio
import logging
import sys
from contextlib import asynccontextmanager

from faststream import FastStream, Logger
from faststream.kafka import KafkaBroker, KafkaMessage, TopicPartition
from faststream.middlewares import AckPolicy
from pydantic import BaseModel

servers, topic, group = sys.argv[1:]
OUT, BATCHES = f"{topic}-out", f"{topic}-batches"
printed, done = [], asyncio.Event()


class Order(BaseModel):
    item: str
    amount: int


class Receipt(BaseModel):
    item: str
    price: float


broker = KafkaBroker(servers, logger=logging.getLogger("quiet"))
receipts = broker.publisher(OUT)


@broker.subscriber(topic, group_id=group, auto_offset_reset="earliest", ack_policy=AckPolicy.MANUAL)
@receipts
async def sell(order: Order, message: KafkaMessage, log: Logger) -> Receipt:
    raw = message.raw_message
    printed.append(("order", order.item, order.amount, message.headers.get("shop"), message.correlation_id))
    printed.append(("raw", raw.topic, raw.key, raw.timestamp_type, type(raw).__name__))
    await message.ack()
    log.info("sold")
    return Receipt(item=order.item, price=order.amount * 1.5)


@broker.subscriber(OUT, group_id=f"{group}-out", auto_offset_reset="earliest")
async def book(receipt: Receipt, message: KafkaMessage) -> None:
    printed.append(("receipt", receipt.item, receipt.price, message.correlation_id))
    if receipt.item == "last":
        done.set()


batched = asyncio.Event()
seen = []


@broker.subscriber(
    partitions=[TopicPartition(BATCHES, 0)],
    auto_offset_reset="earliest",
    batch=True,
    max_records=10,
    batch_timeout_ms=200,
)
async def count(numbers: list[int]) -> None:
    seen.extend(numbers)
    if len(seen) == 5:
        batched.set()


@asynccontextmanager
async def lifespan():
    printed.append("lifespan begins")
    yield
    printed.append("lifespan ends")


app = FastStream(broker, lifespan=lifespan)


@app.after_startup
async def send() -> None:
    printed.append("started")
    for number, item in enumerate(("pen", "cup")):
        order = Order(item=item, amount=number + 1)
        sent = await broker.publish(
            order, topic, key=item.encode(), headers={"shop": "north"}, correlation_id=f"c-{number}"
        )
        printed.append(("sent", sent.topic, type(sent).__name__))
    await broker.publish({"item": "last", "amount": 7}, topic, correlation_id="c-last")
    await broker.publish_batch(1, 2, 3, 4, 5, topic=BATCHES, partition=0)
    waiting = asyncio.create_task(asyncio.wait_for(asyncio.gather(done.wait(), batched.wait()), 60))
    waiting.add_done_callback(lambda _: app.exit())


asyncio.run(app.run(log_level=logging.CRITICAL))
for line in sorted(map(str, printed)):
    print(line)
print("batches", seen)
