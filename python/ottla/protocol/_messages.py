"""Messages by name: their versions, and the way from values to bytes and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ottla import _ottla

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Buffer

Form: TypeAlias = Literal["python", "json"]
"""`"python"`: bytes, `uuid.UUID`, every field of the version. `"json"`: what Kafka's JsonConverter classes write."""


@dataclass(frozen=True)
class Versions:
    """A closed range of versions; `in` asks about a version, `for` goes through them.

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
    """Write a message, without a header."""
    if form != "json":
        raise NotImplementedError
    return _ottla.encode_message(name, version, json.dumps(message))


def decode(name: str, version: int, data: Buffer, *, form: Form = "python") -> dict[str, Any]:
    """Read a message, without a header."""
    if form != "json":
        raise NotImplementedError
    decoded: dict[str, Any] = json.loads(_ottla.decode_message(name, version, bytes(data)))
    return decoded
