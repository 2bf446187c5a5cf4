"""Ports that the kernel gives to nobody else while a test needs them."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """A port of 127.0.0.1 where nobody listens unless the test starts a broker there.

    The port is bound, but not listened on, until the block ends. So no other test is given it, not even between the stop
    and the next start of a broker. A broker can still listen there, because both sockets have SO_REUSEADDR.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
