"""Lists of rows that calls return, as tables."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ottla._later import Later

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Later("pyarrow")

__all__ = ["Rows"]

T = TypeVar("T")


class Rows(list[T]):
    """A list of rows of one class. Notebooks show it as a table.

    Example:
        ```python
        admin.lag("billing").to_arrow().group_by("topic").aggregate([("lag", "sum")])
        ```
    """

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Make a table with a column for each attribute of the rows.

        Returns:
            A `pyarrow.Table` with as many rows as the list; objects become structs, and dictionaries lists of their
            entries.

        Raises:
            ImportError: pyarrow is not installed.
        """
        try:
            import pyarrow as arrow  # noqa: ICN001 `pa` is for hints
        except ImportError as error:
            raise ImportError("tables need pyarrow: pip install 'ottla[arrow]'") from error
        return arrow.Table.from_pylist([{name: _plain(getattr(row, name)) for name in _names(row)} for row in self])

    def _repr_html_(self) -> str:
        """A table, for notebooks. Of more than ten rows, the first and the last five are shown."""
        from ottla._notebook import rows_table

        names = _names(self[0]) if self else []
        return rows_table(names, [[getattr(row, name) for name in names] for row in self])


def _names(row: object) -> list[str]:
    if is_dataclass(row):
        return [field.name for field in fields(row)]
    return list(row._fields)  # type: ignore[attr-defined]


def _plain(value: Any) -> Any:
    """A value that a column can hold: objects become structs, and dictionaries lists of their entries."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return [{"key": str(key), "value": _plain(each)} for key, each in value.items()]
    if isinstance(value, (list, frozenset)):
        return [_plain(each) for each in value]
    return value
