"""Two members of a group: listeners, what each gets, what is committed in between; patterns; assignment by hand."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

servers, topic, group = sys.argv[1:]


class Commits(ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer, self.seen, self.joined = consumer, [], asyncio.Event()

    async def on_partitions_revoked(self, revoked):
        await asyncio.sleep(0.01)
        if revoked:
            await self.consumer.commit()
        self.seen.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned):
        self.seen.append(("assigned", len(assigned)))
        self.joined.set()


def member(name, **parameters):
    return AIOKafkaConsumer(
        bootstrap_servers=servers,
        client_id=name,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
        **parameters,
    )


async def main():
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(9):
            await producer.send_and_wait(topic, str(number).encode(), partition=number % 3)
    one = member("one", partition_assignment_strategy=[RangePartitionAssignor])
    commits = Commits(one)
    one.subscribe(pattern=f"^{topic}$", listener=commits)
    await one.start()
    print(one.subscription() == {topic}, len(one.assignment()), commits.seen)
    first = [await asyncio.wait_for(one.getone(), 20) for _ in range(9)]
    print(sorted(m.value for m in first))
    two = member("two", partition_assignment_strategy=[RangePartitionAssignor])
    two.subscribe([topic])
    commits.joined.clear()
    # The program does not ask for records meanwhile: the group rebalances in the background.
    await two.start()
    await asyncio.wait_for(commits.joined.wait(), 20)
    print(commits.seen, sorted(map(len, (one.assignment(), two.assignment()))))
    print([await two.position(tp) for tp in sorted(two.assignment())])
    print(sorted(one.assignment() | two.assignment()) == [TopicPartition(topic, n) for n in range(3)])
    await one.stop()
    async with asyncio.timeout(20):
        while len(two.assignment()) < 3:  # noqa: ASYNC110 nothing tells it
            await asyncio.sleep(0.05)
    print([await two.committed(tp) for tp in sorted(two.assignment())])
    await two.stop()
    print(commits.seen[-1])
    alone = AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
    await alone.start()
    alone.assign([TopicPartition(topic, 1)])
    await alone.seek_to_beginning()
    print([m.value for m in (await alone.getmany(timeout_ms=5000))[TopicPartition(topic, 1)]])
    alone.unsubscribe()
    print(len(alone.assignment()), len(alone.subscription()))
    alone.assign([TopicPartition(topic, 2)])
    print(await alone.position(TopicPartition(topic, 2)))
    await alone.stop()


asyncio.run(main())
