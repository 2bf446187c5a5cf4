"""The registry's HTTP server."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from ottla.testing._registry.access import Access
from ottla.testing._registry.errors import RestError
from ottla.testing._registry.routes import RawText, respond
from ottla.testing._registry.store import Store

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# Of one request.
_MOST_BYTES = 16 << 20
_KEPT_REQUESTS = 10_000


class Fault(NamedTuple):
    """What happens to a request instead of its response, or before it.

    Attributes:
        status: The status of the response; None for the registry's own response.
        text: The message of the response.
        seconds: How late it comes.
    """

    status: int | None
    text: str
    seconds: float


class Server:
    """The server, on a thread of its own, and one for each connection.

    Args:
        host: The address to listen on.
        port: The port to listen on; 0 takes a free one.
        access: The credentials that are accepted.
        context: TLS; None for plain HTTP.

    Attributes:
        port: The port that it listens on.
        requests: The last requests, each as its method and path.
        faults: What happens to the next requests.
    """

    def __init__(self, host: str, port: int, access: Access, context: ssl.SSLContext | None) -> None:
        self.store = Store()
        self._access = access
        self.requests: deque[str] = deque(maxlen=_KEPT_REQUESTS)
        self.faults: deque[Fault] = deque()
        self._connections: set[socket.socket] = set()
        self._stopping = threading.Event()
        self._http = _Listener(host, port, _handler(self._respond, self._connections), context)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="ottla-registry", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end the connections."""
        self._stopping.set()
        self._http.shutdown()
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The client has closed it.
                continue
        self._http.server_close()
        self._thread.join(10)

    def _respond(self, method: str, path: str, content: bytes, authorization: str | None) -> tuple[int, bytes]:
        """The status and the body of the response to a request."""
        self.requests.append(f"{method} {path}")
        try:
            fault = self.faults.popleft()
        except IndexError:
            fault = None
        if fault is not None:
            self._stopping.wait(fault.seconds)
            if fault.status is not None:
                return fault.status, _error(fault.status, fault.text)
        if not self._access.allows(authorization):
            return 401, _error(401, "Unauthorized")
        try:
            body = _body(content)
            found = respond(self.store, method, path, body)
        except RestError as error:
            return error.status, _error(error.code, error.text)
        return 200, found.encode() if isinstance(found, RawText) else json.dumps(found).encode()


def _body(content: bytes) -> dict[str, Any]:
    """The JSON object of a request."""
    if not content:
        return {}
    try:
        found = json.loads(content)
    except ValueError as error:
        raise RestError(400, 400, f"Unrecognized token: {error}") from error
    if not isinstance(found, dict):
        raise RestError(400, 400, f"Cannot deserialize an object from {type(found).__name__}")
    return found


def _error(code: int, text: str) -> bytes:
    return json.dumps({"error_code": code, "message": text}).encode()


Respond = Callable[[str, str, bytes, str | None], tuple[int, bytes]]


def _handler(respond: Respond, connections: set[socket.socket]) -> type[BaseHTTPRequestHandler]:
    """The class that reads the requests of a connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Nagle's algorithm would hold the body back until the head is acknowledged.
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            connections.add(self.connection)

        def finish(self) -> None:
            connections.discard(self.connection)
            super().finish()

        def reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > _MOST_BYTES:
                self.send_error(413)
                return
            authorization = self.headers.get("Authorization")
            status, body = respond(self.command, self.path, self.rfile.read(length), authorization)
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="SchemaRegistry"')
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = reply  # noqa: N815 - http.server finds them by these names

        def log_message(self, *words: object) -> None:
            """Write nothing to the terminal."""

    return Handler


class _Listener(ThreadingHTTPServer):
    """Accepts connections, with TLS if there is a context."""

    daemon_threads = True

    def __init__(
        self, host: str, port: int, handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None
    ) -> None:
        self._context = context
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), handler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection."""
        connection, address = super().get_request()
        if self._context is not None:
            # The handshake is part of the first read, on the connection's thread.
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that close a connection early."""
