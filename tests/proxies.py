"""A SOCKS5 and an HTTP proxy of a few lines, and a forwarded port, for tests. They look names up in a table of their own."""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import struct
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

Place = tuple[str, int]


class Listener:
    """Takes connections on the loopback and leads each to where `target` says, on threads that end with the block."""

    def __init__(self) -> None:
        self.asked: list[Place] = []
        self.halted = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(0.05)
        self.port = self.socket.getsockname()[1]
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.halted.set()
        for thread in self.threads:
            thread.join(10)
        self.socket.close()

    def target(self, near: socket.socket) -> Place | None:
        """Where a connection leads; None ends it."""
        raise NotImplementedError

    def ready(self, near: socket.socket) -> None:
        """The way is open."""

    def _spawn(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.halted.is_set():
            with contextlib.suppress(TimeoutError):
                near, _ = self.socket.accept()
                self._spawn(self._serve, near)

    def _serve(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            near.settimeout(10)
            place = self.target(near)
            if place is None:
                return
            with socket.create_connection(place, timeout=10) as far:
                self.ready(near)
                self._carry(near, far)

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        while not self.halted.is_set():
            for source in select.select([near, far], [], [], 0.05)[0]:
                data = source.recv(1 << 16)
                if not data:
                    return
                (far if source is near else near).sendall(data)


class Forwarded(Listener):
    """A forwarded port. `to` may change; connections that are open stay as they are."""

    def __init__(self, to: Place) -> None:
        super().__init__()
        self.to = to

    def target(self, near: socket.socket) -> Place:
        return self.to


class _Proxy(Listener):
    def __init__(self, names: Mapping[str, str], user: str | None = None) -> None:
        super().__init__()
        self.names, self.user = names, user

    def found(self, host: str, port: int) -> Place:
        self.asked.append((host, port))
        return self.names.get(host, host), port


def _exactly(near: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = near.recv(count - len(data))
        if not more:
            raise ConnectionError("the client is gone")
        data += more
    return data


class Socks5(_Proxy):
    """SOCKS5 (RFC 1928). `user` is `user:password`; without it nobody is asked (RFC 1929)."""

    def target(self, near: socket.socket) -> Place | None:
        methods = _exactly(near, _exactly(near, 2)[1])
        wanted = 2 if self.user else 0
        near.sendall(bytes([5, wanted if wanted in methods else 0xFF]))
        if wanted not in methods:
            return None
        if self.user:
            name = _exactly(near, _exactly(near, 2)[1])
            password = _exactly(near, _exactly(near, 1)[0])
            is_known = f"{name.decode()}:{password.decode()}" == self.user
            near.sendall(bytes([1, 0 if is_known else 1]))
            if not is_known:
                return None
        kind = _exactly(near, 4)[3]
        if kind == 3:
            host = _exactly(near, _exactly(near, 1)[0]).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, _exactly(near, size))
        return self.found(host, struct.unpack(">H", _exactly(near, 2))[0])

    def ready(self, near: socket.socket) -> None:
        near.sendall(b"\x05\0\0\x01\0\0\0\0\0\0")


class Http(_Proxy):
    """HTTP's CONNECT. `user` is `user:password`; without it nobody is asked."""

    def target(self, near: socket.socket) -> Place | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += _exactly(near, 1)
        first, *fields = head.decode().split("\r\n")
        if self.user:
            pair = base64.b64encode(self.user.encode()).decode()
            if f"Proxy-Authorization: Basic {pair}" not in fields:
                near.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return None
        host, _, port = first.split()[1].rpartition(":")
        return self.found(host.strip("[]"), int(port))

    def ready(self, near: socket.socket) -> None:
        near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
