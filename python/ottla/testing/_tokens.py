"""Bearer tokens for tests of OAUTHBEARER."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def bearer_token(user: str, *, lifetime: float = 3600, key: bytes | None = None, **claims: object) -> str:
    """Make a JSON Web Token that the embedded broker takes.

    Args:
        user: The principal's name (the claim `sub`).
        lifetime: Seconds until it expires; below 0 it has expired.
        key: The broker's `token_key`, which signs it (HS256); without it the token is unsecured (`alg: none`).
        **claims: More claims, such as `aud="kafka"`; they replace those that are made here.

    Returns:
        The token as text.
    """
    now = time.time()
    header = {"alg": "HS256" if key else "none", "typ": "JWT"}
    signed = f"{_part(header)}.{_part({'sub': user, 'iat': now, 'exp': now + lifetime, **claims})}"
    signature = hmac.new(key, signed.encode(), hashlib.sha256).digest() if key else b""
    return f"{signed}.{_base64(signature)}"


def _part(value: Mapping[str, object]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
