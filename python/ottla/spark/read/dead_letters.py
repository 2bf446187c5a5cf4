"""What becomes of records whose key or value does not decode."""

from ottla import Batch, Delivery, Producer
from ottla.errors import DecodeError
from ottla.spark.read.layout import Bad
from ottla.spark.shared.error_texts import extended

# Headers of dead letters: the place of the record and the error. Kafka Connect uses the same form.
HEADER = "__ottla.errors."


def send_dead_letters(client: Producer, topic: str, batch: Batch, bad: list[Bad]) -> None:
    """Put records into a topic with the reason in headers, and wait until each is there.

    Args:
        client: What sends them.
        topic: The topic of dead letters.
        batch: The records.
        bad: Those of them that do not decode.

    Raises:
        KafkaError: One could not be delivered; the text names it.
    """
    sent: list[tuple[Bad, Delivery]] = []
    for one in bad:
        record = batch[one.record.row]
        headers = [*record.headers, *_headers(one)]
        sent.append((one, client.send(topic, record.value, key=record.key, headers=headers)))
    client.flush()
    for one, delivery in sent:
        if error := delivery.exception():
            raise extended(error, f"the dead letter of {_place(one)}")


def _headers(bad: Bad) -> list[tuple[str, bytes]]:
    record = bad.record
    context = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "side": bad.side,
        "column": record.column,
        "message": record.reason,
    }
    return [(HEADER + name, text.encode()) for name, text in context.items()]


def failure(bad: Bad) -> DecodeError:
    """The error of a task that may not skip records."""
    record = bad.record
    column = f"column {record.column}: " if record.column else ""
    error = DecodeError(
        f"{_place(bad)} does not decode: {column}{record.reason}; to skip such records, set option mode to "
        "PERMISSIVE or DROPMALFORMED, or option deadLetterTopic"
    )
    error.__dict__.update(
        topic=record.topic, partition=record.partition, offset=record.offset, column=record.column, cause=record.reason
    )
    return error


def _place(bad: Bad) -> str:
    record = bad.record
    where = f"offset {record.offset} of partition {record.partition} of topic {record.topic}"
    return f"the {bad.side} of the record at {where}"
