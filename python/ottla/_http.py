"""HTTP requests to servers that have tokens, credentials or schemas: one request, one server, a bounded response.

HTTP comes from Python's standard library: such requests are few, which is no reason to carry another HTTP client in the
extension.
"""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

_CHUNK = 1 << 14


class TooLongError(Exception):
    """A response is longer than its limit."""


@dataclass(frozen=True)
class Response:
    """A server's response, with its body, which may be secret."""

    status: int
    reason: str
    body: bytes

    def __repr__(self) -> str:
        """Show no body."""
        return f"Response({self.status}, {len(self.body)} bytes)"


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    context: Callable[[], ssl.SSLContext],
    timeout: float,
    most: int,
) -> Response:
    """Make one request.

    Redirects are responses like any other: the request goes to no other host.

    Args:
        method: GET, PUT or POST.
        url: Where to.
        headers: Headers.
        body: The body.
        context: Makes what TLS trusts, for https.
        timeout: Seconds for all of it.
        most: The most bytes of a response.

    Raises:
        TooLongError: The response is longer.
        TimeoutError: The server did not respond in time.
        OSError: The server cannot be reached, or TLS does not trust it.
        http.client.HTTPException: Its response is not HTTP.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    deadline = time.monotonic() + timeout
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=timeout)
    )
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body=body, headers=dict(headers))
        with connection.getresponse() as response:
            received = bytearray()
            # A server that sends a byte now and then keeps each read within its timeout, and not all of them.
            while chunk := response.read1(_CHUNK):
                received += chunk
                if len(received) > most:
                    raise TooLongError(f"the response has more than {most} bytes")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"the response did not end within {timeout:g} s")
                if connection.sock is not None:
                    connection.sock.settimeout(left)
            return Response(response.status, response.reason, bytes(received))
    finally:
        connection.close()
