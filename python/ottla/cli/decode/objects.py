"""Views as JSON, for `jq`: bytes as text where they are text, else as `{"base64": ...}`."""

from __future__ import annotations

import json
import math
from functools import singledispatch
from typing import Any
from uuid import UUID

from ottla.cli.decode.view import Batches, BatchView, Message, RecordView, Unread, uuid
from ottla.cli.readable import readable


def line(view: Any) -> str:
    """A view as an object on one line."""
    return json.dumps(shown(view), ensure_ascii=False)


@singledispatch
def shown(view: Any) -> Any:
    """A view as types that JSON has."""
    return view


@shown.register
def _dict(view: dict) -> dict[str, Any]:  # type: ignore[type-arg]
    return {name: shown(value) for name, value in view.items()}


@shown.register
def _list(view: list) -> list[Any]:  # type: ignore[type-arg]
    return [shown(element) for element in view]


@shown.register
def _bytes(view: bytes) -> Any:
    return readable(view)


@shown.register
def _uuid(view: UUID) -> str:
    return uuid(view)


@shown.register
def _float(view: float) -> float | str:
    return view if math.isfinite(view) else str(view)


@shown.register
def _message(view: Message) -> dict[str, Any]:
    return {"message": view.name, "version": view.version, "data": shown(view.fields)}


@shown.register
def _unread(view: Unread) -> dict[str, Any]:
    return {"undecoded": readable(view.data), "reason": view.reason}


@shown.register
def _batches(view: Batches) -> list[Any]:
    batches = [shown(batch) for batch in view.batches]
    return batches if view.unread is None else [*batches, shown(view.unread)]


@shown.register
def _batch(view: BatchView) -> dict[str, Any]:
    batch = view.batch
    return {
        "position": view.position,
        "size": batch.size,
        "magic": batch.magic,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "crc": batch.crc,
        "compression": batch.compression,
        "timestampType": batch.timestamp_type,
        "maxTimestamp": batch.max_timestamp,
        "leaderEpoch": batch.leader_epoch,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "transactional": batch.transactional,
        "control": batch.control,
        "records": [shown(record) for record in view.records],
    }


@shown.register
def _record(view: RecordView) -> dict[str, Any]:
    kind = {} if view.kind is None else {"type": view.kind}
    return {
        "offset": view.offset,
        "timestamp": view.timestamp,
        **kind,
        "key": shown(view.key),
        "value": shown(view.value),
        "headers": [[name, shown(value)] for name, value in view.headers],
    }
