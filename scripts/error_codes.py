"""Write python/ottla/protocol/_error_codes.py, the enum of error codes, from the table that schemas/errors.json built.

Run it after the table changed and the extension was built; a test holds the file against the table.
"""

from __future__ import annotations

from pathlib import Path

from ottla._ottla import error_codes

HEAD = '''"""Kafka's error codes. Written by scripts/error_codes.py from schemas/errors.json."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """An error code as responses carry it, by Kafka's name: <https://kafka.apache.org/protocol#protocol_error_codes>.

    A member is the number on the wire, and shows its name and number as text. A code without a member, from a newer
    broker, makes a new value that is named `UNKNOWN_ERROR_CODE`, so that showing a response never fails.

    ```python
    >>> from ottla.protocol import ErrorCode
    >>> ErrorCode(6)
    <ErrorCode.NOT_LEADER_OR_FOLLOWER: 6>
    >>> print(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable)
    NOT_LEADER_OR_FOLLOWER (6) True
    >>> ErrorCode(9999)
    <ErrorCode.UNKNOWN_ERROR_CODE: 9999>

    ```
    """

'''

TAIL = '''
    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed when it is sent again, as Kafka's own clients see it."""
        return self in _RETRIABLE

    def __str__(self) -> str:
        return f"{self.name} ({self.value})"

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        if not isinstance(value, int) or not -(2**15) <= value < 2**15:
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = "UNKNOWN_ERROR_CODE", int(value)
        return unknown


_RETRIABLE = frozenset(
    {
'''


def text() -> str:
    """The module's source."""
    members = "".join(f"    {name} = {code}\n" for code, name, _ in error_codes())
    retriable = "".join(f"        ErrorCode.{name},\n" for _, name, retriable in error_codes() if retriable)
    return HEAD + members + TAIL + retriable + "    }\n)\n"


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "python" / "ottla" / "protocol" / "_error_codes.py"
    target.write_text(text())
