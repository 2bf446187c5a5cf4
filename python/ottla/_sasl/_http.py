"""Requests to servers that have tokens or credentials: few, small, and only to the configured URLs."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from urllib.parse import urlsplit

from ottla import _http
from ottla._http import Response
from ottla._sasl._failures import Refused, Unavailable, shown

# The most bytes of a response.
_MOST = 1 << 20
# Seconds for a request.
TIMEOUT = 20.0


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(url: str, *, plain: bool, also: frozenset[str] = frozenset()) -> None:
    """Reject URLs that are not https.

    Args:
        url: The URL.
        plain: Whether plain http is allowed to loopback addresses.
        also: Other hosts to which plain http is allowed.

    Raises:
        ValueError: With the reason; without the URL, which may hold a secret.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("must be a URL that begins with https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user name or a password")
    allowed = (plain and is_loopback(parts.hostname)) or parts.hostname in also
    if parts.scheme == "http" and not allowed:
        raise ValueError("must begin with https://: over http, anyone on the network path can read secrets and tokens")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("has an invalid port") from None


def request(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    ca: str | None = None,
    timeout: float = TIMEOUT,
) -> Response:
    """Make one request.

    It goes to no other host, even if the response is a redirect.

    Args:
        method: GET, PUT or POST.
        url: Where to; `check` it before.
        headers: Headers.
        body: The body.
        ca: A PEM file with the authorities to trust; None for the system's.
        timeout: Seconds for all of it.

    Raises:
        Refused: The server is not who it should be, responds with a redirect, or with too much.
        Unavailable: It cannot be reached, or does not respond in time.
    """
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname

    def context() -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"https.ca.location cannot be read: {shown(error)}") from None

    try:
        response = _http.request(
            method, url, headers=headers or {}, body=body, context=context, timeout=timeout, most=_MOST
        )
    except _http.TooLongError:
        raise Refused(f"{where} responds with more than {_MOST} bytes") from None
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"{where} is not trusted: {error.verify_message}; set https.ca.location to its authority"
        ) from None
    except TimeoutError:
        raise Unavailable(f"{where} did not respond within {timeout:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"the request to {where} failed: {shown(error)}") from None
    if 300 <= response.status < 400:
        raise Refused(
            f"{where} responds with a redirect ({response.status}), which is not followed: use the redirect's target"
        )
    return response
