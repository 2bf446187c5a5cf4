"""Messages by name: their versions, and the way from values to bytes and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ottla import _ottla
from ottla._types import Buffer

Form: TypeAlias = Literal["python", "json"]
"""The form of a message in a dictionary: `"python"` or `"json"`, see `ottla.protocol`."""


@dataclass(frozen=True)
class Versions:
    """A closed range of versions; `in` tests a version, `for` iterates over all.

    Attributes:
        min: The lowest.
        max: The highest.
    """

    min: int
    max: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.min <= version <= self.max

    def __len__(self) -> int:
        return self.max - self.min + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.min, self.max + 1))

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}-{self.max}"


MESSAGES: Mapping[str, Versions] = MappingProxyType(
    {name: Versions(low, high) for name, low, high in _ottla.messages()}
)
"""Every message that `encode` and `decode` know, by Kafka's name, with its versions: requests, responses, headers, the
consumer protocol, control records, and the records of internal topics."""


def encode(name: str, version: int, message: Mapping[str, Any], *, form: Form = "python") -> bytes:
    """Write a message in a version, without any header.

    A field that the version lacks must hold its default, or be one that Kafka drops in silence (`ignorable`).

    ```python
    >>> from ottla import protocol
    >>> protocol.encode("MetadataRequest", 1, {"topics": [{"name": "flights"}]}).hex(" ")
    '00 00 00 01 00 07 66 6c 69 67 68 74 73'

    ```

    Args:
        name: Kafka's name of the message, such as `"FetchRequest"` or `"OffsetCommitKey"`: a key of `MESSAGES`.
        version: The version to write.
        message: Its fields, by Kafka's JSON names. In the form `"python"` one that is missing takes its default; in
            `"json"` all that the version has must be there but tagged ones.
        form: What `message` is.

    Returns:
        The bytes that Kafka's own classes write.

    Raises:
        ProtocolError: There is no such message or version, or a value does not fit: of the wrong type, out of range,
            under a name that no field has, null or not the default where the version does not allow it. The error names
            the field, as `FetchRequest.topics[3].partitions[0].partitionMaxBytes`.
    """
    return _ottla.encode_message(name, version, message, form)


def decode(name: str, version: int, data: Buffer, *, form: Form = "python") -> dict[str, Any]:
    """Read a message in a version, without any header.

    ```python
    >>> from ottla import protocol
    >>> protocol.decode("MetadataRequest", 1, bytes.fromhex("00 00 00 01 00 07 66 6c 69 67 68 74 73"))
    {'topics': [{'name': 'flights'}]}

    ```

    Args:
        name: Kafka's name of the message: a key of `MESSAGES`.
        version: The version that the bytes are in.
        data: The bytes of one message, nothing before or after it.
        form: The form of the decoded message.

    Returns:
        Its fields by Kafka's JSON names: those that the version has.

    Raises:
        ProtocolError: There is no such message or version, or the bytes are not one; bytes left over count as well. The
            error names the field, as `FetchResponse.responses[3].partitions[0].records: 812 bytes needed, 40 left`.
    """
    return _ottla.decode_message(name, version, data, form)
