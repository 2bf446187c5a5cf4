"""Airflow's triggers on one loop. Arguments: address, topic, the number of triggers. The broker sends records to the topic afterwards."""

import asyncio
import json
import sys
import threading
import time

from airflow.triggers.base import BaseTrigger, TriggerEvent

import ottla
from ottla.integrations.airflow import RecordTrigger

address, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def even(record):
    """Chooses records, by the dotted path of this function."""
    number = int(record.value)
    return {"even": number} if number % 2 == 0 else None


async def events(trigger, found, most):
    """What the triggerer does with a trigger."""
    assert isinstance(trigger, BaseTrigger)
    async for event in trigger.run():
        assert isinstance(event, TriggerEvent)
        json.dumps(event.payload)
        found.append(event.payload)
        if len(found) >= most:
            return


def remade(trigger):
    """The trigger as another process makes it of what is stored."""
    path, arguments = trigger.serialize()
    assert path == "ottla.integrations.airflow.RecordTrigger"
    return RecordTrigger(**json.loads(json.dumps(arguments)))


async def begun(group):
    """Have a group begin before the records that are sent then."""
    async with ottla.aio.ShareConsumer(address, topics=topic, group_id=group) as consumer:
        while not consumer.assignment():
            await consumer.poll(0.1)
        await consumer.poll(0.5)


async def send(values):
    async with ottla.aio.Producer(address) as producer:
        await producer.send_many(topic, values)


async def watched(trigger, values, group, most):
    found = []
    await begun(group)
    task = asyncio.ensure_future(events(trigger, found, most))
    await send(values)
    await asyncio.wait_for(task, 30)
    return found


async def main():
    found = await watched(remade(RecordTrigger(address, topic, "one", once=True)), ["1", "2"], "one", 5)
    assert len(found) == 1, found
    assert (found[0]["value"], found[0]["encoding"], found[0]["deliveryCount"]) == ("1", "utf-8", 1), found
    chosen = RecordTrigger(address, topic, "chosen", apply_function="__main__.even")
    found = await watched(remade(chosen), ["1", "2", "3", "4"], "chosen", 2)
    assert found == [{"even": 2}, {"even": 4}], found

    await begun("many")
    threads = threading.active_count()
    found = []
    tasks = [
        asyncio.ensure_future(events(remade(RecordTrigger(address, topic, "many", once=True)), found, 10**9))
        for _ in range(count)
    ]
    await asyncio.sleep(10)
    begin, cpu = time.monotonic(), time.process_time()
    await asyncio.sleep(5)
    idle = (time.process_time() - cpu) / (time.monotonic() - begin)
    begin = time.monotonic()
    await send([str(number) for number in range(count)])
    await asyncio.wait_for(asyncio.gather(*tasks), 120)
    took = time.monotonic() - begin
    assert sorted(int(each["value"]) for each in found) == list(range(count))
    return {"threads": threading.active_count() - threads, "seconds": took, "idle": idle}


print(json.dumps(asyncio.run(main())))
