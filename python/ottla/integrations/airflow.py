"""A trigger of Airflow that waits for records as a member of a share group."""

from __future__ import annotations

import base64
import importlib
import inspect
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from ottla import Record, aio


class RecordTrigger(BaseEventTrigger):  # type: ignore[misc]  # Airflow's types are not followed
    """Fires an event for each record of topics, or for those that a function chooses.

    Any number of triggers and triggerers may share a group: each record fires one of them. A trigger is a task of the
    triggerer's loop, and needs no thread. A record is accepted when the triggerer has taken its event. If the triggerer
    dies before, the record fires another trigger.

    Args:
        bootstrap_servers: `host:port` of one or more brokers, separated by commas or as a list.
        topics: A topic, or several.
        group_id: The share group. A new one begins at the end of the topics, unless the group has another
            `share.auto.offset.reset`.
        apply_function: The dotted path of a function, or an async one, that is called with each `ottla.Record`. What it
            returns is the payload of the event, and has to be JSON; None fires no event. A record is released if it
            raises. Without it the payload describes the record: topic, partition, offset, timestamp, deliveryCount, and
            key, value and headers as text, or in base64 where `encoding` is `"base64"`.
        once: Whether the trigger ends with its first event, as a deferred task needs. A watcher of assets goes on.
        config: Properties of the consumer by Kafka's names.

    Example:
        ```python
        trigger = RecordTrigger("localhost:9092", "flights", "airflow")
        flights = Asset("flights", watchers=[AssetWatcher(name="records", trigger=trigger)])
        ```
    """

    def __init__(
        self,
        bootstrap_servers: str | list[str],
        topics: str | list[str],
        group_id: str,
        *,
        apply_function: str | None = None,
        once: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._arguments: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "topics": topics,
            "group_id": group_id,
            "apply_function": apply_function,
            "once": once,
            "config": dict(config or {}),
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, from which a triggerer makes the trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", dict(self._arguments)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for records, and fire events.

        Raises:
            KafkaError: As from `aio.ShareConsumer.poll`.
        """
        arguments = self._arguments
        apply = _imported(arguments["apply_function"])
        config = {
            # What one trigger holds is kept from the others.
            "max.poll.records": 1,
            "share.acquire.mode": "record_limit",
            **arguments["config"],
            "share.acknowledgement.mode": "explicit",
        }
        consumer = aio.ShareConsumer(
            arguments["bootstrap_servers"], topics=arguments["topics"], group_id=arguments["group_id"], config=config
        )
        async with consumer:
            async for batch in consumer.batches():
                for record in batch:
                    payload = await _payload(record, apply)
                    if payload is not None:
                        yield TriggerEvent(payload)
                    # The triggerer has taken the event. Records that come after it are released by closing.
                    consumer.acknowledge(record)
                    if payload is not None and arguments["once"]:
                        await consumer.commit()
                        return


def _imported(path: str | None) -> Any:
    if path is None:
        return describe
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


async def _payload(record: Record, apply: Any) -> Any:
    payload = apply(record)
    return await payload if inspect.isawaitable(payload) else payload


def describe(record: Record) -> dict[str, Any]:
    """Describe a record as JSON.

    Args:
        record: The record.

    Returns:
        The topic, partition, offset, timestamp in milliseconds since 1970 UTC, delivery count, key, value and headers.
        `encoding` is that of the texts: `utf-8` or `base64`.
    """
    parts = [record.key, record.value, *(value for _, value in record.headers)]
    encoding = "utf-8"
    try:
        texts = [None if part is None else part.decode() for part in parts]
    except UnicodeDecodeError:
        encoding = "base64"
        texts = [None if part is None else base64.b64encode(part).decode() for part in parts]
    key, value, *headers = texts
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "deliveryCount": record.delivery_count,
        "key": key,
        "value": value,
        "headers": [[name, text] for (name, _), text in zip(record.headers, headers, strict=True)],
        "encoding": encoding,
    }
