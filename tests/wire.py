"""A connection to a broker that sends what it is told, frame by frame, for what no client does by itself."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Any

from ottla import protocol

if TYPE_CHECKING:
    from typing import Self

PATIENCE = 30.0


def camel(value: Any) -> Any:
    """A message with Kafka's names, of one with Python's."""
    if isinstance(value, dict):
        return {re.sub(r"_(\w)", lambda m: m[1].upper(), name): camel(each) for name, each in value.items()}
    return [camel(each) for each in value] if isinstance(value, list) else value


def snake(value: Any) -> Any:
    """A message with Python's names, of one with Kafka's."""
    if isinstance(value, dict):
        return {re.sub(r"[A-Z]", lambda m: f"_{m[0].lower()}", name): snake(each) for name, each in value.items()}
    return [snake(each) for each in value] if isinstance(value, list) else value


class Connection:
    """A socket that speaks requests, and no more than it is told. Messages have Kafka's names as Python writes names."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, port = address.rsplit(":", 1)
        raw = socket.create_connection((host, int(port)), PATIENCE)
        self.socket = tls.wrap_socket(raw, server_hostname="localhost") if tls else raw
        self.count = 0

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """The next frame with its length, or None if the connection has ended."""
        head = self._read(4)
        return None if head is None else head + (self._read(struct.unpack(">i", head)[0]) or b"")

    def _read(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                if got := self.socket.recv(count - len(data)):
                    data += got
                    continue
            return None
        return data

    def ask(self, api: str, version: int, message: dict[str, Any], client_id: str = "test") -> dict[str, Any]:
        answer = self.try_to_ask(api, version, message, client_id)
        assert answer is not None, f"the connection ended at {api}"
        return answer

    def try_to_ask(
        self, api: str, version: int, message: dict[str, Any], client_id: str = "test"
    ) -> dict[str, Any] | None:
        """The answer, or None if the connection has ended."""
        self.count += 1
        self.send(protocol.encode_request(api, version, camel(message), correlation_id=self.count, client_id=client_id))
        frame = self.receive()
        if frame is None:
            return None
        decoded = protocol.decode_frame(frame, response_to=(api, version))
        assert decoded.correlation_id == self.count
        return snake(decoded.message)  # type: ignore[no-any-return]

    def is_closed(self) -> bool:
        """Whether the broker has ended the connection; it waits for that."""
        return self._read(1) is None

    def authenticate(self, mechanism: str, *tokens: bytes) -> dict[str, Any]:
        """The answer to the last token."""
        assert self.ask("SaslHandshake", 1, {"mechanism": mechanism})["error_code"] == 0
        for token in tokens:
            answer = self.ask("SaslAuthenticate", 1, {"auth_bytes": token})
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
