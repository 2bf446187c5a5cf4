"""What is compared with what: one place, for every client."""

from __future__ import annotations

from dataclasses import dataclass

PARTITIONS = 4
SIZES = {100: 2_000_000, 1000: 300_000}
"""Bytes of a value, and how many records of that size a topic is filled with for consuming."""

BUDGET = 1.5
"""Seconds after which a client stops; slow ones need not read or write everything to have a rate."""


@dataclass(frozen=True)
class Variant:
    """One way of doing the work.

    Attributes:
        kind: `consume` or `produce`.
        client: The library.
        way: The call that does the work, and how the client is set up.
        function: The name of the function in `clients.py`.
        properties: What it is set up with, beyond the library's defaults.
    """

    kind: str
    client: str
    way: str
    function: str
    properties: tuple[tuple[str, int | str | bool], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.client} {self.way}"

    @property
    def ours(self) -> bool:
        return self.client == "ottla"


def _variants() -> list[Variant]:
    big_fetch = (("fetch_max_bytes", 64 << 20), ("max_partition_fetch_bytes", 8 << 20))
    batched = (("linger_ms", 20), ("batch_size", 1 << 20))
    librdkafka_fetch = (
        ("fetch.message.max.bytes", 8 << 20),
        ("fetch.queue.backoff.ms", 5),
        ("queued.min.messages", 1_000_000),
        ("queued.max.messages.kbytes", 512 << 10),
    )
    librdkafka_batched = (
        ("linger.ms", 20),
        ("batch.size", 1 << 20),
        ("batch.num.messages", 100_000),
        ("queue.buffering.max.messages", 2_000_000),
    )
    return [
        Variant("consume", "ottla", "columns", "ottla_columns"),
        Variant("consume", "ottla", "records", "ottla_records"),
        Variant("consume", "ottla", "columns, tuned", "ottla_columns", big_fetch),
        Variant("consume", "confluent-kafka", "records", "confluent_records"),
        Variant("consume", "confluent-kafka", "records, tuned", "confluent_records", librdkafka_fetch),
        Variant("consume", "confluent-kafka", "columns, tuned", "confluent_columns", librdkafka_fetch),
        Variant("consume", "aiokafka", "records", "aiokafka_records"),
        Variant("consume", "kafka-python", "records", "kafka_python_records"),
        Variant("consume", "socket", "drain", "socket_drain"),
        Variant("produce", "ottla", "send", "ottla_send"),
        Variant("produce", "ottla", "send_many", "ottla_send_many"),
        Variant("produce", "ottla", "send_arrow", "ottla_send_arrow"),
        Variant("produce", "ottla", "send, tuned", "ottla_send", batched),
        Variant("produce", "ottla", "send_many, tuned", "ottla_send_many", batched),
        Variant("produce", "ottla", "send_arrow, tuned", "ottla_send_arrow", batched),
        Variant("produce", "confluent-kafka", "send", "confluent_send"),
        Variant("produce", "confluent-kafka", "send, tuned", "confluent_send", librdkafka_batched),
        Variant("produce", "aiokafka", "send", "aiokafka_send"),
        Variant(
            "produce", "aiokafka", "send, tuned", "aiokafka_send", (("linger_ms", 20), ("max_batch_size", 1 << 20))
        ),
        Variant("produce", "kafka-python", "send", "kafka_python_send"),
        Variant("produce", "kafka-python", "send, tuned", "kafka_python_send", batched),
    ]


VARIANTS = _variants()
