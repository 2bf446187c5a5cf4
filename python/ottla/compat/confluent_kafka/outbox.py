"""What the compiled outbox of a producer, which keeps records and calls their delivery reports, leaves to Python."""

from __future__ import annotations

import select
from typing import Final

from ottla import _ottla, errors
from ottla.compat.confluent_kafka.callbacks import LONG_SLICE, SLICE
from ottla.compat.confluent_kafka.errors import KafkaError, code, to_kafka_error

_TEXTS: Final = {
    "MSG_SIZE_TOO_LARGE": "Unable to produce message: Broker: Message size too large",
    "_QUEUE_FULL": "Local: Queue full",
}
# Seconds of a wait at least: a record expires a moment after the time that is left for it.
LEAST: Final = 0.001


def delivery_error(found: BaseException | str) -> KafkaError:
    """The error of a record that was not delivered, from ottla's error or the name of librdkafka's error."""
    if isinstance(found, str):
        return KafkaError(code(found), _TEXTS.get(found))
    translated = to_kafka_error(found, at_deadline="_MSG_TIMED_OUT")
    if translated.code() == code("_MSG_TIMED_OUT"):
        # A record that found no broker in time has timed out.
        return KafkaError(code("_MSG_TIMED_OUT"), f"Local: Message timed out: {found}")
    if isinstance(found, errors.NotFoundError) and found.code:
        return KafkaError(code("_UNKNOWN_TOPIC"), f"Local: Unknown topic: {found}")
    return translated


def wait(outbox: _ottla.Outbox, seconds: float, *, is_watched: bool) -> None:
    """Wait for a report, at most a slice, which is short if there are events to look for."""
    seconds = min(seconds, SLICE if is_watched else LONG_SLICE)
    expiry = outbox.next_expiry()
    if expiry is not None:
        seconds = max(LEAST, min(seconds, expiry))
    if hasattr(select, "poll"):
        poller = select.poll()
        poller.register(outbox.fileno(), select.POLLIN)
        poller.poll(seconds * 1000)
    else:
        select.select([outbox.fileno()], [], [], seconds)
