"""`Message`, and the messages that are errors of a consumer."""

from __future__ import annotations

from ottla._ottla import Message as Message
from ottla.compat.confluent_kafka.constants import OFFSET_INVALID, TIMESTAMP_NOT_AVAILABLE
from ottla.compat.confluent_kafka.errors import KafkaError


def of_error(error: KafkaError, topic: str | None = None, partition: int = -1, offset: int = OFFSET_INVALID) -> Message:
    """The message of an error that a consumer's poll returns."""
    text = error.str().encode()
    return Message(topic, partition, offset, None, text, None, error, (TIMESTAMP_NOT_AVAILABLE, -1))
