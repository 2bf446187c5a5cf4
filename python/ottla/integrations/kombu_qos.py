"""What becomes of kombu's messages: accepted, released or rejected records of a share group."""

from __future__ import annotations

from typing import Any

from kombu.transport import virtual


class QoS(virtual.QoS):  # type: ignore[misc]  # kombu publishes no types
    """Messages that are delivered and not acknowledged."""

    def ack(self, delivery_tag: str) -> None:
        """Accept a message."""
        self.channel.settle(delivery_tag, "accept")
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Release a message for another delivery, or reject it for good."""
        self.channel.settle(delivery_tag, "release" if requeue else "reject")
        super().ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        """Release all messages, which any worker then gets."""
        self._flush()
        for tag in list(self._delivered):
            self.channel.settle(tag, "release")
        self._delivered.clear()
        return []
