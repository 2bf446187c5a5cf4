"""AWS's Signature Version 4: presigned URLs and signed requests."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    """Credentials of AWS.

    Attributes:
        access_key: The access key's id.
        secret_key: The secret access key.
        token: The session token of temporary credentials.
        expires: Seconds since 1970 when they end; None if they do not.
    """

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    expires: float | None = None


@dataclass(frozen=True)
class Scope:
    """What a signature is good for."""

    region: str
    service: str
    at: datetime

    @property
    def date(self) -> str:
        """The time, as requests carry it."""
        return self.at.strftime("%Y%m%dT%H%M%SZ")

    def __str__(self) -> str:
        """The scope, as credentials name it."""
        return f"{self.date[:8]}/{self.region}/{self.service}/aws4_request"


def presigned(
    host: str, query: Mapping[str, str], credentials: Credentials, scope: Scope, *, expires: int
) -> dict[str, str]:
    """Sign the query of a GET of `/` at `host`.

    Args:
        host: The host that the request is for.
        query: The query's parameters.
        credentials: Of the caller.
        scope: Region, service and time.
        expires: Seconds for which the signature is good.

    Returns:
        The query's parameters, with those of the signature.
    """
    signed = {
        **query,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": scope.date,
        "X-Amz-Expires": str(expires),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.token:
        signed["X-Amz-Security-Token"] = credentials.token
    request = canonical("GET", "/", signed, {"host": host}, _EMPTY)
    signed["X-Amz-Signature"] = signature(request, credentials, scope)
    return signed


def authorization(
    method: str, headers: Mapping[str, str], body: bytes, credentials: Credentials, scope: Scope
) -> dict[str, str]:
    """Sign a request to `/`; `headers` must name the host in lower case, as all of them.

    Returns:
        The headers, with those of the signature.
    """
    headers = {**headers, "x-amz-date": scope.date}
    if credentials.token:
        headers["x-amz-security-token"] = credentials.token
    request = canonical(method, "/", {}, headers, hashlib.sha256(body).hexdigest())
    names = ";".join(sorted(headers))
    headers["authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, "
        f"Signature={signature(request, credentials, scope)}"
    )
    return headers


def canonical(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], payload: str) -> str:
    """Bring a request into the form that is signed.

    Args:
        method: The method.
        path: The path, encoded.
        query: The query's parameters, not encoded.
        headers: The headers that are signed, in lower case.
        payload: The body's SHA-256, in hexadecimal.
    """
    return "\n".join(
        [
            method,
            path,
            url_query(query),
            *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
            "",
            ";".join(sorted(headers)),
            payload,
        ]
    )


def url_query(query: Mapping[str, str]) -> str:
    """Encode a query, in the order of its encoded names."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def signature(request: str, credentials: Credentials, scope: Scope) -> str:
    """Sign a canonical request."""
    text = "\n".join([ALGORITHM, scope.date, str(scope), hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in str(scope).split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()
