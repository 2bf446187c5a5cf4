"""Apache Kafka's own console producer and consumer, which are the Java client."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.brokers.brokers import java_tool
from tests.integration.messages import Message
from tests.integration.peers.base import DEADLINE, SLOW, Member

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "4.4.0"
BYTES = "org.apache.kafka.common.serialization.BytesDeserializer"  # prints all but printable ASCII as \xNN
NULL, HEADER_SEPARATOR = "<null>", "\x1f"


def _options(flag: str, **properties: str) -> list[str]:
    return [x for k, v in properties.items() for x in (flag, f"{k.replace('_', '.')}={v}")]


def _bytes(text: str) -> bytes | None:
    if text == NULL:
        return None
    return re.sub(rb"\\x([0-9A-F]{2})", lambda m: bytes.fromhex(m[1].decode()), text.encode("ascii"))


def _message(line: str) -> Message:
    stamp, partition, offset, headers, key, value = line.split("\t")
    pairs = [h.split(":", 1) for h in headers.split(HEADER_SEPARATOR)] if headers != "NO_HEADERS" else []
    return Message(
        _bytes(key),
        _bytes(value),
        tuple((k, _bytes(v)) for k, v in pairs),
        int(stamp.removeprefix("CreateTime:")),
        int(partition.removeprefix("Partition:")),
        int(offset.removeprefix("Offset:")),
    )


class Java:
    """See `Peer`."""

    name = "java-console"

    def as_written(self, message: Message) -> Message | None:
        """The console producer takes lines of text, and chooses partition and timestamp itself."""
        for part in (message.key, message.value, *(v for _, v in message.headers)):
            try:
                text = (part or b"").decode()
            except UnicodeDecodeError:
                return None
            if set(text) & set("\t\n\r"):
                return None
        return replace(message, partition=None, timestamp=None)

    def produce(self, bootstrap: str, topic: str, codec: str, messages: Sequence[Message]) -> None:
        def text(part: bytes | None) -> str:
            return NULL if part is None else part.decode()

        lines = [
            HEADER_SEPARATOR.join(f"{k}:{text(v)}" for k, v in m.headers) + f"\t{text(m.key)}\t{text(m.value)}\n"
            if m.headers
            else f"{NULL}\t{text(m.key)}\t{text(m.value)}\n"
            for m in messages
        ]
        java_tool(
            VERSION,
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec),
            *("--command-property", "linger.ms=50", "--command-property", "acks=all"),
            *_options(
                "--reader-property",
                parse_key="true",
                parse_headers="true",
                headers_separator=HEADER_SEPARATOR,
                null_marker=NULL,
            ),
            data="".join(lines).encode(),
            timeout=DEADLINE,
        )

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Message]:
        return self._consume(bootstrap, topic, count, "--from-beginning")

    def consume_committed(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        """The first `count` messages of transactions that were committed."""
        return self._consume(bootstrap, topic, count, "--from-beginning", "--isolation-level", "read_committed")

    def consume_in_group(self, bootstrap: str, topic: str, group: str, count: int, **properties: str) -> list[Message]:
        """Read `count` messages from the committed offsets on, commit and leave; properties have underscores for dots."""
        how = _options("--command-property", **{"auto_offset_reset": "earliest"} | properties)
        return self._consume(bootstrap, topic, count, "--group", group, *how)

    def _consume(self, bootstrap: str, topic: str, count: int, *how: str) -> list[Message]:
        out = java_tool(
            VERSION,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", str(count)),
            # The tool waits so long for the next message.
            *("--timeout-ms", str(int(DEADLINE * 500)), *how),
            *_options(
                "--formatter-property",
                print_key="true",
                print_headers="true",
                print_timestamp="true",
                print_partition="true",
                print_offset="true",
                null_literal=NULL,
                key_deserializer=BYTES,
                value_deserializer=BYTES,
                headers_deserializer=BYTES,
                headers_separator=HEADER_SEPARATOR,
            ),
            timeout=DEADLINE + count / SLOW,
        )
        return [_message(line) for line in out.decode().splitlines() if line.startswith("CreateTime:")]

    def member(self, bootstrap: str, topic: str, group: str) -> Member:
        raise NotImplementedError("the console consumer does not tell its assignment; see consume_in_group")
