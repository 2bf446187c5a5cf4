"""Kafka's protocol: every message at every version from 0.8 to 4.4, to bytes and back."""

from __future__ import annotations

from ottla.protocol._apis import APIS, Api
from ottla.protocol._error_codes import ErrorCode
from ottla.protocol._internal import (
    INTERNAL_TOPICS,
    InternalPart,
    InternalRecord,
    decode_control,
    decode_internal,
)
from ottla.protocol._messages import MESSAGES, Form, Versions, decode, encode
from ottla.protocol._records import Record, RecordBatch, decode_records
from ottla.protocol._segments import Damage, read_segment

__all__ = [
    "APIS",
    "INTERNAL_TOPICS",
    "MESSAGES",
    "Api",
    "Damage",
    "ErrorCode",
    "Form",
    "InternalPart",
    "InternalRecord",
    "Record",
    "RecordBatch",
    "Versions",
    "decode",
    "decode_control",
    "decode_internal",
    "decode_records",
    "encode",
    "read_segment",
]
