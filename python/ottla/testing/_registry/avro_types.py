"""Avro types, as they were read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MISSING = object()
"""In place of a default: null is one."""


@dataclass(eq=False)
class Type:
    """An Avro type.

    Attributes:
        kind: Such as `record` or `int`.
        name: The full name, of named types.
        aliases: Full names.
        doc: The documentation.
        fields: Of a record.
        symbols: Of an enum.
        default: Of an enum.
        size: Of a fixed type.
        inner: The items of an array, the values of a map.
        branches: Of a union.
        properties: All other attributes.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    inner: Type | None = None
    branches: list[Type] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Field:
    """A field of a record."""

    name: str
    type: Type
    doc: str | None = None
    default: Any = MISSING
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        """Whether a reader can do without the writer's value."""
        return self.default is not MISSING
