"""Names that other Kafka clients have, and what to write here instead."""

from __future__ import annotations

from typing import Any, NoReturn

_PRODUCER = {
    "produce": "producer.send(topic, value, key=key), which returns a Delivery",
    "send_and_wait": "producer.send(topic, value).result()",
    "poll": "nothing: delivery callbacks run by themselves, and producer.flush() waits for them",
    "list_topics": "ottla.Admin(bootstrap_servers).list_topics()",
    "send_offsets_to_transaction": "producer.send_offsets(offsets, group), where group is the group's name",
}
_CONSUMER = {
    "consume": "consumer.poll(timeout, max_records=100), which returns a Batch of records",
    "getone": "next(iter(consumer))",
    "getmany": "consumer.poll(timeout), which returns a Batch of records",
    "store_offsets": "consumer.commit(offsets), with enable_auto_commit=False",
    "consumer_group_metadata": "consumer.group_metadata()",
    "subscription": "nothing: keep what you subscribed to; consumer.assignment() lists the partitions",
    "list_topics": "ottla.Admin(bootstrap_servers).list_topics(), or consumer.partitions_for(topic)",
    "topics": "ottla.Admin(bootstrap_servers).list_topics()",
    "partitions_for_topic": "consumer.partitions_for(topic)",
    "get_watermark_offsets": "consumer.beginning_offsets([partition]) and consumer.end_offsets([partition])",
}
_SHARE = {
    "commit_sync": "consumer.commit(), which returns the error of each partition, or None",
    "commit_async": "consumer.commit(wait=False)",
    "set_acknowledgement_commit_callback": "consumer.set_acknowledgement_callback(f)",
    "acquisition_lock_timeout_ms": "consumer.lock_timeout(), which is in seconds",
    "seek": "nothing: the share group assigns records itself; its share.auto.offset.reset sets where it begins",
    "committed": "nothing: a share group keeps the state of each record, and no offsets",
    "assign": "consumer.subscribe(topics): the group's coordinator assigns",
}
_ADMIN = {
    "alter_configs": "admin.incremental_alter_configs({('TOPIC', name): {'retention.ms': '1000'}})",
    "alter_consumer_group_offsets": "admin.alter_group_offsets(group, offsets)",
    "alter_streams_group_offsets": "admin.alter_group_offsets(group, offsets)",
    "delete_consumer_group_offsets": "admin.delete_group_offsets(group, partitions)",
    "delete_consumer_groups": "admin.delete_groups(groups)",
    "delete_share_groups": "admin.delete_groups(groups)",
    "delete_streams_group_offsets": "admin.delete_group_offsets(group, partitions)",
    "delete_streams_groups": "admin.delete_groups(groups)",
    "describe_classic_groups": "admin.describe_groups(groups)",
    "describe_consumer_groups": "admin.describe_groups(groups)",
    "describe_delegation_token": "admin.describe_delegation_tokens(owners)",
    "list_client_metrics_resources": "admin.list_config_resources('CLIENT_METRICS')",
    "list_consumer_group_offsets": "admin.list_group_offsets(groups)",
    "list_consumer_groups": "admin.list_groups(types=['classic', 'consumer'])",
    "list_streams_group_offsets": "admin.list_group_offsets(groups)",
    "remove_members_from_consumer_group": "admin.remove_group_members(group, group_instance_ids)",
}
_BATCH = dict.fromkeys(
    ["value", "key", "topic", "partition", "offset", "timestamp", "headers", "error"],
    "for record in batch: record.value. poll() returns a Batch of records, and raises errors",
) | dict.fromkeys(
    ["items", "values"], "for record in batch: record.topic, record.partition. poll() returns a Batch of records"
)

_INSTEAD = {
    "Producer": _PRODUCER,
    "aio.Producer": _PRODUCER
    | {
        "produce": "delivery = await producer.send(topic, value, key=key)",
        "send_and_wait": "await (await producer.send(topic, value))",
        "start": "nothing: a producer connects on first use",
        "stop": "await producer.close()",
        "list_topics": "await aio.Admin(bootstrap_servers).list_topics()",
    },
    "Consumer": _CONSUMER,
    "aio.Consumer": _CONSUMER
    | {
        "consume": "await consumer.poll(timeout, max_records=100), which returns a Batch of records",
        "getone": "async for record in consumer",
        "getmany": "await consumer.poll(timeout), which returns a Batch of records",
        "start": "nothing: a consumer connects on first use",
        "stop": "await consumer.close()",
        "list_topics": "await aio.Admin(bootstrap_servers).list_topics()",
    },
    "ShareConsumer": _SHARE,
    "aio.ShareConsumer": _SHARE,
    "Admin": _ADMIN,
    "aio.Admin": _ADMIN,
    "Batch": _BATCH,
}


def missing(kind: str, name: str) -> AttributeError:
    """Make the error for an attribute that is not there.

    Args:
        kind: The class, as `_INSTEAD` names it.
        name: The attribute.

    Returns:
        The error. For a name of another client, it names the replacement.
    """
    text = f"{kind!r} object has no attribute {name!r}"
    instead = _INSTEAD[kind].get(name)
    return AttributeError(f"{text}; write {instead}" if instead else text, name=name)


class _Elsewhere:
    """A name of another client as an attribute of a class: to read it raises the error."""

    __slots__ = ("_kind", "_name")

    def __init__(self, kind: str, name: str) -> None:
        self._kind, self._name = kind, name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise missing(self._kind, self._name)


def mark(cls: type, kind: str) -> None:
    """Give a class the names of other clients, each of which raises `missing`.

    This is for a class whose methods are called for each record: with a `__getattr__`, Python takes an eighth longer
    for `producer.send(...)`. The names are in `dir` of the class, but not in that of a client.

    Args:
        cls: The class.
        kind: The class, as `_INSTEAD` names it.
    """
    names = _INSTEAD[kind]
    for name in names:
        setattr(cls, name, _Elsewhere(kind, name))
    every: Any = cls.__dir__

    def ours(self: Any) -> list[str]:
        return [name for name in every(self) if name not in names]

    cls.__dir__ = ours  # type: ignore[assignment]
