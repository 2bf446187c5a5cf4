"""What a consumer was constructed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla._assignors import Assignor


@dataclass(frozen=True)
class Settings:
    """The parameters that the reader needs besides ottla's properties.

    Attributes:
        properties: ottla's properties, by Kafka's names.
        group_id: The group.
        assignors: The assignors of the program.
        max_poll_interval: Seconds between two calls for records, until the consumer leaves its group.
        with_internal: Whether patterns match Kafka's internal topics.
        request_timeout: Seconds until a call that needs a broker fails.
        metadata_max_age: Seconds between two looks for new topics and partitions.
    """

    properties: dict[str, Any]
    group_id: str | None
    assignors: tuple[Assignor, ...]
    max_poll_interval: float
    with_internal: bool
    request_timeout: float
    metadata_max_age: float
