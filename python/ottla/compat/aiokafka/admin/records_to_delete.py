"""`RecordsToDelete`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RecordsToDelete"]


class RecordsToDelete(NamedTuple):
    """Which records of a partition to delete.

    Attributes:
        before_offset: The first offset that stays.
    """

    before_offset: int
