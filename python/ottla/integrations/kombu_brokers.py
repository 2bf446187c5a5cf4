"""The brokers that a connection of kombu names, and its queues as their topics."""

from __future__ import annotations

from typing import Any

from ottla import Admin

PORT = 9092


class Brokers:
    """Brokers, and the properties of clients.

    Args:
        client: A `kombu.Connection`.
    """

    def __init__(self, client: Any) -> None:
        self.servers = f"{client.hostname or 'localhost'}:{client.port or PORT}"
        self.config: dict[str, Any] = dict(client.transport_options.get("config", {}))
        if client.userid:
            self.config |= {"sasl.username": client.userid, "sasl.password": client.password}

    def admin(self) -> Admin:
        """Make an admin client."""
        return Admin(self.servers, config=self.config)

    def check(self, timeout: float | None) -> None:
        """Connect, so that kombu notices brokers that are away and tries the next URL.

        Args:
            timeout: Seconds to wait at most; None waits for `default.api.timeout.ms`.

        Raises:
            KafkaError: No broker responded.
        """
        with self.admin() as admin:
            admin.describe_cluster(timeout=timeout)


def topic_of(queue: str) -> str:
    """Return the topic of a queue.

    Args:
        queue: The queue's name.

    Returns:
        The name, with a dot for each character that topics cannot have.
    """
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "." for letter in queue)
