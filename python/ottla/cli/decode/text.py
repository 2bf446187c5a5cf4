"""Views as indented text."""

from __future__ import annotations

import codecs
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.cli.decode.view import Batches, BatchView, Message, RecordView, Unread, uuid
from ottla.protocol import APIS, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = "  "
# Characters of text besides visible letters.
WHITE_SPACE = str.maketrans("", "", "\t\r\n")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Milliseconds since 1970: fields of these names, but not durations.
TIMESTAMP = re.compile(r".*timestamp(Ms)?|logAppendTimeMs|transactionStartTimeMs", re.IGNORECASE)
ERROR_CODE = re.compile(r"(\w+E|e)rrorCode")
API_KEYS = {"apiKey", "requestApiKey"}
API_NAMES = {api.key: api.name for api in APIS.values()}


class Text:
    """Prints views as lines.

    Args:
        most: How many bytes of a value to show; 0 for all.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def frame(self, title: str, fields: dict[str, Any]) -> Iterator[str]:
        """A frame or a message: what it is, then its fields."""
        yield title
        yield from self._fields(fields, STEP)

    def record(self, kind: str, key: Any, value: Any) -> Iterator[str]:
        """A record of an internal topic that stands alone."""
        yield kind
        yield from self._field("key", key, STEP)
        yield from self._field("value", value, STEP)

    def batch(self, view: BatchView, indent: str = "") -> Iterator[str]:
        """A batch, a record a line; keys and values that are messages take several."""
        yield indent + self._batch_title(view)
        for record in view.records:
            yield from self._record(record, indent + STEP)

    def _batch_title(self, view: BatchView) -> str:
        batch = view.batch
        facts = [
            f"offsets {batch.base_offset} to {batch.last_offset}"
            if batch.last_offset != batch.base_offset
            else f"offset {batch.base_offset}",
            f"{len(view.records):,} record{'s' if len(view.records) != 1 else ''}",
            f"{batch.size:,} bytes",
            f"magic {batch.magic}",
        ]
        if batch.compression != "none":
            facts.append(batch.compression)
        if batch.timestamp_type == "append":
            facts.append(f"appended {utc(batch.max_timestamp)}")
        if batch.leader_epoch >= 0:
            facts.append(f"leader epoch {batch.leader_epoch}")
        if batch.producer_id >= 0:
            facts.append(f"producer {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}")
        facts += [name for name in ("transactional", "control") if getattr(batch, name)]
        return f"batch at {view.position}: {', '.join(facts)}"

    def _record(self, record: RecordView, indent: str) -> Iterator[str]:
        head = [str(record.offset if record.offset is not None else "?")]
        if record.timestamp >= 0:
            head.append(utc(record.timestamp))
        if record.kind is not None:
            head.append(record.kind)
        multiline = []
        for name, part in (("key", record.key), ("value", record.value)):
            if isinstance(part, Message | Unread):
                multiline.append((name, part))
            elif record.kind is None or part is not None:
                head.append(f"{name} {self._scalar(name, part)}")
            elif name == "value":
                head.append("value null")
        if record.headers:
            head.append("headers {" + ", ".join(f"{quoted(k)}: {self._scalar(k, v)}" for k, v in record.headers) + "}")
        yield indent + "  ".join(head)
        for name, part in multiline:
            yield from self._field(name, part, indent + STEP)

    def _fields(self, fields: dict[str, Any], indent: str) -> Iterator[str]:
        if not fields:
            yield f"{indent}(no fields)"
        for name, value in fields.items():
            yield from self._field(name, value, indent)

    def _field(self, name: str, value: Any, indent: str) -> Iterator[str]:
        deeper = indent + STEP
        if isinstance(value, Message):
            yield from self._message(name, value, indent)
        elif isinstance(value, Unread):
            yield f"{indent}{name}: {len(value.data):,} bytes, {value.reason}: {self._scalar(name, value.data)}"
        elif isinstance(value, Batches):
            yield f"{indent}{name}: {value.size:,} bytes"
            for batch in value.batches:
                yield from self.batch(batch, deeper)
            if value.unread is not None:
                yield f"{deeper}{len(value.unread.data):,} bytes left: {value.unread.reason}"
        elif isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from self._fields(value, deeper)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{indent}{name}:"
            for element in value:
                yield from self._element(element, indent)
        else:
            yield f"{indent}{name}: {self._scalar(name, value)}"

    def _message(self, name: str, value: Message, indent: str) -> Iterator[str]:
        title = f"{indent}{name}: {value.name} version {value.version}"
        if isinstance(value.fields, dict):
            yield title
            yield from self._fields(value.fields, indent + STEP)
        else:
            yield f"{title}: {self._scalar(name, value.fields)}"

    def _element(self, element: dict[str, Any], indent: str) -> Iterator[str]:
        """An element of a list: a dash stands before its first field."""
        lines = list(self._fields(element, indent + STEP))
        yield f"{indent}- {lines[0].removeprefix(indent + STEP)}"
        yield from lines[1:]

    def _scalar(self, name: str, value: Any) -> str:
        if value is None or isinstance(value, bool):
            return json.dumps(value)
        if isinstance(value, list):
            return f"[{', '.join(self._scalar(name, element) for element in value)}]"
        if isinstance(value, int):
            return _number(name, value)
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, bytes):
            return self._bytes(value)
        if isinstance(value, UUID):
            return uuid(value)
        return repr(value)

    def _bytes(self, data: bytes) -> str:
        shown = data[: self._most] if self._most else data
        rest = f" ... {len(data):,} bytes" if len(shown) < len(data) else ""
        text = printable(shown, cut=bool(rest))
        return (quoted(text) if text is not None else f"0x{shown.hex()}") + rest


def _number(name: str, value: int) -> str:
    if TIMESTAMP.fullmatch(name) and value >= 0:
        return f"{value} ({utc(value)})"
    if ERROR_CODE.fullmatch(name):
        return f"{value} ({ErrorCode(value).name})"
    if name in API_KEYS and value in API_NAMES:
        return f"{value} ({API_NAMES[value]})"
    return str(value)


def utc(timestamp: int) -> str:
    """Milliseconds since 1970 as date and time; the number itself if a calendar does not reach so far."""
    try:
        return (EPOCH + timedelta(milliseconds=timestamp)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(timestamp)


def printable(data: bytes, *, cut: bool = False) -> str | None:
    """Bytes as text if all of it can be shown; None otherwise. Where they were cut, the last letter may be cut, too."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        return None
    return text if text.translate(WHITE_SPACE).isprintable() else None


def quoted(text: str) -> str:
    """A text in quotes, with escapes for all that a terminal would act on."""
    inside = json.dumps(text, ensure_ascii=False)
    if inside.isprintable():
        return inside
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in inside)
