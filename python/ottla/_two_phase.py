"""Transactions in two phases: the names of those that are prepared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

__all__ = ["PreparedTransaction"]


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """The name of a prepared transaction (KIP-939), to be kept by whoever decides how the transaction ends.

    `str()` of it is the text of Java's `PreparedTxnState`, `producerId:epoch`, and `parse` reads that. It pickles.

    Attributes:
        producer_id: The id of the producer whose records are in the transaction.
        epoch: That producer's epoch.

    Raises:
        ValueError: The id or the epoch is negative, or too large.
    """

    producer_id: int
    epoch: int

    def __post_init__(self) -> None:
        if not (0 <= self.producer_id < 2**63 and 0 <= self.epoch < 2**15):
            raise ValueError(f"{self.producer_id}:{self.epoch} is no prepared transaction: both are 0 or more")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `producerId:epoch`.

        Args:
            text: What `str()` of a `PreparedTransaction`, or of Java's `PreparedTxnState`, gave.

        Returns:
            The name of the transaction.

        Raises:
            ValueError: The text is something else.
        """
        found = re.fullmatch(r"(\d+):(\d+)", text, re.ASCII)
        if found is None:
            raise ValueError(f"a prepared transaction is written as producerId:epoch, as in 42:7, not as {text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"
