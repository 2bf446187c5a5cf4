"""Values that are null although a record has them: the branch null of a union that is the root of an Avro schema.

Their fields are null, like those of a record whose fields are all null. Only the bytes differ.
"""

import json
from collections.abc import Callable
from functools import lru_cache

from ottla import Record, RegisteredSchema
from ottla.errors import KafkaError

# Bytes in front of a value that name its schema: zero and a number, or one and a GUID, which also stands in a header.
_NUMBER, _GUID = 5, 17
# Schemas that a process keeps.
_SCHEMAS = 256


@lru_cache(maxsize=_SCHEMAS)
def null_of(schema: str) -> bytes | None:
    """The bytes of null in this schema of Avro; None if its root is no union with null."""
    try:
        root = json.loads(schema)
    except ValueError:
        return None
    if not isinstance(root, list) or "null" not in root:
        return None
    # A number of a union's branch is a zigzag varint; a union has fewer branches than need two bytes.
    return bytes([2 * root.index("null")])


def is_null(
    record: Record,
    side: str,
    schema: str | None,
    schemas: Callable[[int | bytes], RegisteredSchema] | None = None,
) -> bool:
    """Whether the key or value is the null of its schema.

    Args:
        record: The record, whose key or value decodes.
        side: Which of the two.
        schema: What it is written with; None if it names that itself.
        schemas: Returns the schema of an id that records name.
    """
    data = record.key if side == "key" else record.value
    if data is None:
        return True
    if schemas is None:
        return schema is not None and data == null_of(schema)
    header = dict(record.headers).get(f"__{side}_schema_id")
    named = header if header is not None else data
    size = _NUMBER if named[:1] == b"\0" else _GUID
    rest = data if header is not None else data[size:]
    if len(rest) != 1:
        return False
    try:
        found = schemas(int.from_bytes(named[1:size], "big") if size == _NUMBER else named[1:size])
    except KafkaError:
        return False
    return rest == null_of(found.text)
