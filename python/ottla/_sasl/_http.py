"""Requests to servers that have tokens or credentials: few, small, and to nowhere but where the settings say."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from ottla._sasl._failures import Refused, Unavailable, shown

# The most bytes of an answer.
_MOST = 1 << 20
# Seconds for a request.
TIMEOUT = 20.0
_CHUNK = 1 << 14


@dataclass(frozen=True)
class Answer:
    """A server's answer, with its body, which may be secret."""

    status: int
    reason: str
    body: bytes

    def __repr__(self) -> str:
        """Show no body."""
        return f"Answer({self.status}, {len(self.body)} bytes)"


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by its name or address alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(url: str, *, plain: bool, also: frozenset[str] = frozenset()) -> None:
    """Refuse URLs that are not https.

    Args:
        url: The URL.
        plain: Whether plain http is allowed to loopback addresses.
        also: Other hosts to which plain http is allowed.

    Raises:
        ValueError: With what is wrong; without the URL, which may hold a secret.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("must be a URL that begins with https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user name or a password")
    allowed = (plain and is_loopback(parts.hostname)) or parts.hostname in also
    if parts.scheme == "http" and not allowed:
        raise ValueError("must begin with https://: over http, everybody on the way reads secrets and tokens")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("has a port that is none") from None


def request(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    ca: str | None = None,
    timeout: float = TIMEOUT,
) -> Answer:
    """Make one request. It goes to no other host, whatever the answer says.

    Args:
        method: GET, PUT or POST.
        url: Where to; `check` it before.
        headers: Headers.
        body: The body.
        ca: A PEM file with the authorities to trust; None for the system's.
        timeout: Seconds for all of it.

    Raises:
        Refused: The server is not who it should be, answers with a redirect, or with too much.
        Unavailable: It cannot be reached, or does not answer in time.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    where = f"{host}:{port}" if port else host
    deadline = time.monotonic() + timeout
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"https.ca.location cannot be read: {shown(error)}") from None
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body=body, headers=headers or {})
        with connection.getresponse() as response:
            if 300 <= response.status < 400:
                raise Refused(
                    f"{where} answers with a redirect ({response.status}), which is not followed: use its target"
                )
            received = bytearray()
            while chunk := response.read1(_CHUNK):
                received += chunk
                if len(received) > _MOST:
                    raise Refused(f"{where} answers with more than {_MOST} bytes")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Unavailable(f"{where} did not answer within {timeout:.0f} s")
                if connection.sock is not None:
                    connection.sock.settimeout(left)
            return Answer(response.status, response.reason, bytes(received))
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"{where} is not trusted: {error.verify_message}; set https.ca.location to its authority"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{where} cannot be asked: {shown(error)}") from None
    finally:
        connection.close()
