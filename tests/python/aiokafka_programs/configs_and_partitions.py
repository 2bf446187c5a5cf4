"""Manage configurations, partitions, records and groups."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

servers, topic, group = sys.argv[1:]


async def outcome(call):
    try:
        return await call
    except KafkaError as error:
        return type(error).__name__


async def listed(admin, name):
    """Wait until a topic is there: brokers learn of it some time after the controller has responded."""
    for _ in range(600):
        if name in await admin.list_topics():
            break
        await asyncio.sleep(0.05)


async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    made = f"{topic}-made"
    await admin.create_topics([NewTopic(made, 1, 1, topic_configs={"retention.ms": "1234"})])
    await listed(admin, made)

    # Configurations.
    some = {"retention.ms": "", "cleanup.policy": ""}
    resource = ConfigResource(ConfigResourceType.TOPIC, made, some)
    none = ConfigResource(ConfigResourceType.TOPIC, f"{made}-none")
    for synonyms in (False, True):
        [response] = await admin.describe_configs([resource, none], include_synonyms=synonyms)
        for code, _, kind, name, entries in response.resources:
            print(code, int(kind), name == made, sorted(entries))
        [read] = [each for each in response.to_object()["resources"] if each["resource_name"] == made]
        print(sorted(read), sorted(read["config_entries"], key=lambda entry: entry["config_names"]))
    broker = (await admin.describe_cluster())["brokers"][0]["node_id"]
    responses = await admin.describe_configs([resource, ConfigResource(ConfigResourceType.BROKER, broker)])
    print([(each.resources[0][2], each.resources[0][3] == made, len(each.resources[0][4]) > 5) for each in responses])

    # Partitions.
    response = await admin.create_partitions({made: NewPartitions(3)})
    print([(name == made, code) for name, code, _ in response.topic_errors])
    print(await outcome(admin.create_partitions({made: NewPartitions(2)})))
    print(await outcome(admin.create_partitions({f"{made}-none": NewPartitions(2)})))
    print(await outcome(admin.create_partitions({made: NewPartitions(4, [[99]])})))
    response = await admin.create_topics([NewTopic(f"{made}-chosen", -1, -1, {0: [broker], 1: [broker]})])
    print([code for _, code, _ in response.topic_errors])
    await listed(admin, f"{made}-chosen")
    [described] = await admin.describe_topics([f"{made}-chosen"])
    print(len(described["partitions"]))

    # Records.
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(4):
            await producer.send_and_wait(made, b"%d" % number, partition=1)
    tp = TopicPartition(made, 1)
    print((await admin.delete_records({tp: RecordsToDelete(3)}))[tp])
    print(await outcome(admin.delete_records({tp: RecordsToDelete(50)})))

    # Groups.
    async with AIOKafkaConsumer(
        made, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        print((await consumer.getone()).offset)
        await consumer.commit()
        coordinator = await admin.find_coordinator(group)
        print(coordinator == broker, (group, "consumer") in await admin.list_consumer_groups([coordinator]))
        [response] = await admin.describe_consumer_groups([group], include_authorized_operations=True)
        print(response.groups[0][:2] == (0, group))
    print((await admin.list_consumer_group_offsets(group))[tp])
    await admin.delete_topics([made, f"{made}-chosen"])
    await admin.close()


asyncio.run(main())
