"""The options of a read, checked and turned into what the clients and the planner need.

Names and meanings are those of Spark's Kafka source (`KafkaSourceProvider`). Spark takes them in any letter case.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.spark.offsets import EARLIEST, LATEST, Offsets, parse

# Every option but kafka.*, with its meaning and default as errors show them.
KNOWN = {
    "subscribe": "topics to read, separated by commas; required",
    "startingOffsets": "earliest, latest or JSON; default latest for streams and earliest for batches",
    "endingOffsets": "latest or JSON; for batches; default latest",
    "maxOffsetsPerTrigger": "most records of one micro-batch; default no limit",
    "includeHeaders": "true for a column headers; default false",
    "failOnDataLoss": "false to go on where records are gone; default true",
    "kafkaConsumer.pollTimeoutMs": "milliseconds to wait for the next records of a range; default 120000",
}

# Set by the source itself, refused as Spark's Kafka source refuses them.
REFUSED = {
    "auto.offset.reset": "say where to begin with startingOffsets",
    "key.deserializer": "keys are bytes; cast or decode them with DataFrame operations",
    "value.deserializer": "values are bytes; cast or decode them with DataFrame operations",
    "enable.auto.commit": "Spark's checkpoint keeps the offsets; nothing is committed to Kafka",
    "interceptor.classes": "there is no Java consumer to intercept",
}

BOOTSTRAP = "bootstrap.servers"

# A position as one of the two words, or offset by offset.
Position = int | Offsets


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of a read. They are plain data and travel to executors by pickle.

    Attributes:
        bootstrap: Addresses, `host:port` separated by commas.
        topics: Names, in order, each once.
        start: Where the user said to begin; None leaves it to the kind of read.
        end: Where the user said to end; None for latest.
        max_offsets: Most records of a micro-batch.
        include_headers: Whether the column `headers` is there.
        fail_on_data_loss: Whether records that are gone fail the query.
        poll_timeout: Seconds without progress after which a range fails.
        properties: Kafka's own properties, from the options that begin with `kafka.`. A repr leaves them out,
            since some are secret.
    """

    bootstrap: str
    topics: tuple[str, ...]
    start: Position | None
    end: Position | None
    max_offsets: int | None
    include_headers: bool
    fail_on_data_loss: bool
    poll_timeout: float
    properties: tuple[tuple[str, str], ...] = field(repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "ReadOptions":
        """Check options and give them their types.

        Args:
            options: As Spark hands them over.

        Raises:
            ValueError: One is missing, unknown or has a bad value; the message names it.
        """
        given = {name.lower(): value for name, value in options.items()}
        properties = {name[6:]: value for name, value in given.items() if name.startswith("kafka.")}
        plain = {name: value for name, value in given.items() if not name.startswith("kafka.")}
        canonical = {name.lower(): name for name in KNOWN}
        for name in plain:
            if name not in canonical:
                raise ValueError(_unknown(name, canonical))
        for name, why in REFUSED.items():
            if name in properties:
                raise ValueError(f"option kafka.{name} cannot be set: {why}")
        bootstrap = properties.pop(BOOTSTRAP, "").strip()
        if not bootstrap:
            raise ValueError(
                f'option kafka.{BOOTSTRAP} is missing: the brokers to ask first, such as "host1:9092,host2:9092"'
            )
        topics = tuple(sorted({t for t in (t.strip() for t in plain.get("subscribe", "").split(",")) if t}))
        if not topics:
            raise ValueError('option subscribe is missing: the topics to read, such as "orders,payments"')
        return cls(
            bootstrap=bootstrap,
            topics=topics,
            start=_position("startingOffsets", plain),
            end=_position("endingOffsets", plain),
            max_offsets=_positive("maxOffsetsPerTrigger", plain),
            include_headers=_boolean("includeHeaders", plain, default=False),
            fail_on_data_loss=_boolean("failOnDataLoss", plain, default=True),
            poll_timeout=(_positive("kafkaConsumer.pollTimeoutMs", plain) or 120_000) / 1000,
            properties=tuple(sorted(properties.items())),
        )

    def check_batch(self) -> None:
        """Refuse options that have no meaning for a batch."""
        if self.start == LATEST:
            raise ValueError(
                'startingOffsets cannot be "latest" in a batch, which would read nothing: use "earliest" or JSON'
            )
        if isinstance(self.start, dict) and LATEST in self.start.values():
            raise ValueError(
                f"startingOffsets cannot hold {LATEST} (latest) in a batch, which would read nothing there"
            )
        if self.end == EARLIEST:
            raise ValueError('endingOffsets cannot be "earliest", which would read nothing: use "latest" or JSON')
        if isinstance(self.end, dict) and EARLIEST in self.end.values():
            raise ValueError(f"endingOffsets cannot hold {EARLIEST} (earliest), which would read nothing there")

    def check_stream(self) -> None:
        """Refuse options that have no meaning for a stream."""
        if self.end is not None:
            raise ValueError(
                "endingOffsets has no meaning in a stream: use the trigger availableNow to stop at today's end"
            )


def _unknown(name: str, canonical: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, canonical, n=1)
    hint = f" Did you mean {canonical[near[0]]}?" if near else ""
    meanings = {**KNOWN, "kafka.<property>": "a property of Kafka's consumer"}
    known = "".join(f"\n  {option}: {meaning}" for option, meaning in meanings.items())
    return f"option {name} is not known to ottla.{hint} Known are{known}"


def _position(option: str, plain: Mapping[str, str]) -> Position | None:
    text = plain.get(option.lower())
    if text is None:
        return None
    word = text.strip().lower()
    if word == "latest":
        return LATEST
    if word == "earliest":
        return EARLIEST
    return parse(option, text)


def _positive(option: str, plain: Mapping[str, str]) -> int | None:
    text = plain.get(option.lower())
    if text is None:
        return None
    if not (text.strip().isascii() and text.strip().isdigit()) or int(text) == 0:
        raise ValueError(f"option {option} must be a whole number above 0, not {text!r}")
    return int(text)


def _boolean(option: str, plain: Mapping[str, str], *, default: bool) -> bool:
    text = plain.get(option.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise ValueError(f"option {option} must be true or false, not {text!r}")
    return word == "true"
