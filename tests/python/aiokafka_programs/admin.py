"""Manage topics and groups."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

servers, topic, group = sys.argv[1:]


async def is_listed(admin, name, *, listed):
    """Brokers learn of a change some time after the controller has responded."""
    for _ in range(600):
        if (name in await admin.list_topics()) == listed:
            break
        await asyncio.sleep(0.05)
    return name in await admin.list_topics()


async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    made = f"{topic}-made"
    for _ in range(2):
        response = await admin.create_topics([NewTopic(made, 2, 1)])
        print([(name, code) for name, code, _ in response.topic_errors], response.throttle_time_ms)
        [error] = response.to_object()["topic_errors"]
        print(sorted(error), error["topic"], error["error_code"])
    print(await is_listed(admin, made, listed=True))
    [described] = await admin.describe_topics([made])
    print(described["topic"], described["error_code"], described["is_internal"])
    for each in sorted(described["partitions"], key=lambda each: each["partition"]):
        print(each["partition"], each["error_code"], each["leader"], each["replicas"], each["isr"])
    cluster = await admin.describe_cluster()
    print(sorted(cluster["brokers"][0]), len(cluster["brokers"]), cluster["controller_id"])
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(made, b"x", partition=1)
    async with AIOKafkaConsumer(
        made, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.getone()
        await consumer.commit()
        print((group, "consumer") in await admin.list_consumer_groups())
        [response] = await admin.describe_consumer_groups([group])
        [[code, name, state, kind, protocol, members, *_]] = response.groups
        print(code, name == group, state, kind, protocol, len(members), len(response.groups[0]))
        [read] = response.to_object()["groups"]
        print(sorted(read), read["state"], [sorted(member) for member in read["members"]])
    tp = TopicPartition(made, 1)
    print(
        (await admin.list_consumer_group_offsets(group))[tp],
        (await admin.list_consumer_group_offsets(group, partitions=[tp]))[tp],
    )
    response = await admin.delete_topics([made])
    print(response.topic_error_codes, response.to_object(), await is_listed(admin, made, listed=False))
    await admin.close()


asyncio.run(main())
