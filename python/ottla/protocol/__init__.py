"""Kafka's protocol: every message at every version from 0.8 to 4.4, to bytes and back, as Kafka itself writes them.

```python
>>> from ottla import protocol
>>> request = {"topics": [{"name": "flights"}]}
>>> data = protocol.encode_request("Metadata", 9, request, correlation_id=1, client_id="tour")
>>> protocol.decode_frame(data).message["topics"]
[{'name': 'flights'}]
>>> protocol.APIS["Metadata"].versions, protocol.APIS["Metadata"].flexible
(Versions(min=0, max=13), 9)
>>> protocol.encode("MetadataRequest", 9, {"topics": [{"name": "flights", "topicid": "x"}]})
Traceback (most recent call last):
    ...
ottla.errors.ProtocolError: MetadataRequest.topics[0]: no field is named "topicid"; the nearest is "topicId"

```

A message is a dictionary, by the names that Kafka's own JSON has for fields: those of its schemas with a small first
letter. There are two forms of it.

`"python"`: integers, floats and text as they are, bytes and records as `bytes`, uuids as `uuid.UUID`, arrays as lists,
null as None. Decoding gives every field that the version has, tagged ones too. Encoding takes any bytes-like object,
sequence and mapping; a field that is missing takes its default.

`"json"`: what Kafka's JsonConverter classes read and write, ready for `json.dumps`: bytes as base64, uuids as url-safe
base64 without padding, tagged fields left out where they hold their default. The bytes of records, which Kafka's
classes drop, are there.

Tagged fields that ottla does not know (KIP-482) are kept, in the struct that carries them, as `"_unknownTaggedFields"`:
a list of `{"tag": int, "bytes": bytes}`, in the form `"json"` of `{"tag": int, "hex": str}`.

Everything that does not decode or encode raises `ottla.errors.ProtocolError`, a ValueError too, which names the field.
"""

from __future__ import annotations

from ottla.protocol._apis import APIS, Api
from ottla.protocol._error_codes import ErrorCode
from ottla.protocol._frames import Frame, decode_frame, encode_request, encode_response
from ottla.protocol._internal import (
    INTERNAL_TOPICS,
    InternalPart,
    InternalRecord,
    decode_control,
    decode_internal,
)
from ottla.protocol._messages import MESSAGES, Form, Versions, decode, encode
from ottla.protocol._records import Record, RecordBatch, decode_records, encode_records
from ottla.protocol._refusals import error_response
from ottla.protocol._segments import Damage, read_segment

__all__ = [
    "APIS",
    "INTERNAL_TOPICS",
    "MESSAGES",
    "Api",
    "Damage",
    "ErrorCode",
    "Form",
    "Frame",
    "InternalPart",
    "InternalRecord",
    "Record",
    "RecordBatch",
    "Versions",
    "decode",
    "decode_control",
    "decode_frame",
    "decode_internal",
    "decode_records",
    "encode",
    "encode_records",
    "encode_request",
    "encode_response",
    "error_response",
    "read_segment",
]


def __dir__() -> list[str]:
    return __all__
