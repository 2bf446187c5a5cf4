"""Types of arguments that have no class of their own. Hints name them, and `typing.get_type_hints` looks for them."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ottla._later import Later

if TYPE_CHECKING:
    from ottla import _properties as keywords
else:
    # Four hundred properties take a tenth of an import of ottla.
    keywords = Later("ottla._properties")

__all__ = ["AcknowledgeKind", "ArrowArray", "ArrowStream", "ConfigValue", "Rows", "Servers", "keywords"]

ConfigValue: TypeAlias = str | int | float | bool | PathLike[str] | list[str] | tuple[str, ...] | None
"""What a property may be set to; None leaves it to its default."""
Servers: TypeAlias = str | list[str] | tuple[str, ...]
"""`host:port` of brokers."""
AcknowledgeKind: TypeAlias = Literal["accept", "release", "reject", "renew"]
"""What becomes of a record of a share group."""


class _Listed(Protocol):
    def tolist(self) -> Any: ...


Rows: TypeAlias = Iterable[bool] | Iterable[int] | _Listed
"""Rows of a batch: a bool for each, or the numbers of some; also as an array."""


class ArrowStream(Protocol):
    """A table of any Arrow library."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table as a capsule."""


class ArrowArray(Protocol):
    """A record batch or a column of any Arrow library."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """The schema and the data as capsules."""
