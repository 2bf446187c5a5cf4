"""Tokens of an OAuth 2.0 token endpoint: client credentials (RFC 6749, KIP-768) and JWT bearer (RFC 7523, KIP-1139)."""

from __future__ import annotations

import base64
import json
import math
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ottla._http import Response
from ottla._ottla import sign_assertion
from ottla._sasl import _http
from ottla._sasl._failures import Refused, Unavailable, short
from ottla._sasl._tokens import Token, claimed_expiry, encoded
from ottla.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "sasl.oauthbearer."
_URL = _PREFIX + "token.endpoint.url"
_ID = _PREFIX + "client.credentials.client.id"
_SECRET = _PREFIX + "client.credentials.client.secret"
_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_KEY = re.compile(r"-----BEGIN PRIVATE KEY-----(.*?)-----END PRIVATE KEY-----", re.DOTALL)
_OK = 200


class Endpoint:
    """Requests tokens from a token endpoint."""

    def __init__(self, settings: Mapping[str, str], login: Mapping[str, str]) -> None:
        self._url = settings.get(_URL, "")
        if not self._url:
            raise ConfigError(f"{_URL}: is required with sasl.oauthbearer.method=oidc")
        try:
            _http.check(self._url, plain=settings.get("sasl.allow.plaintext", "").strip().lower() == "true")
        except ValueError as error:
            raise ConfigError(f"{_URL}: {error}") from None
        self._settings = settings
        self._id = settings.get(_ID) or login.get("clientId", "")
        self._secret = settings.get(_SECRET) or login.get("clientSecret", "")
        self._scope = settings.get(_PREFIX + "scope") or login.get("scope")
        self._extensions = _extensions(settings, login)
        self._bearer = settings.get(_PREFIX + "grant.type") == _BEARER or bool(
            self._of("assertion.file") or self._of("assertion.private.key.file")
        )
        if self._bearer:
            if not (self._of("assertion.file") or self._of("assertion.private.key.file")):
                raise ConfigError(f"{_PREFIX}assertion.private.key.file: is required for a JWT bearer grant")
        elif not (self._id and self._secret):
            missing = _SECRET if self._id else _ID
            raise ConfigError(f"{missing}: is required for the client credentials grant")

    def _of(self, name: str, default: str = "") -> str:
        return self._settings.get(_PREFIX + name, default).strip()

    def __call__(self) -> Token:
        """Request a token."""
        form = {"grant_type": _BEARER if self._bearer else "client_credentials"}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._bearer:
            form["assertion"] = self._assertion()
        else:
            pair = f"{self._id}:{self._secret}".encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        if self._scope:
            form["scope"] = self._scope
        response = _http.request(
            "POST",
            self._url,
            headers=headers,
            body=urlencode(form).encode(),
            ca=self._settings.get("https.ca.location") or None,
        )
        return self._token(response)

    def _token(self, response: Response) -> Token:
        try:
            content = json.loads(response.body)
        except (ValueError, RecursionError):
            content = None
        if response.status != _OK:
            reason = content.get("error_description") or content.get("error") if isinstance(content, dict) else None
            why = f": {short(reason, (self._secret,))}" if isinstance(reason, str) else ""
            text = f"the token endpoint returned {response.status} {short(response.reason)}{why}"
            if response.status >= 500 or response.status == 429:
                raise Unavailable(text)
            raise Refused(text)
        value = content.get("access_token") if isinstance(content, dict) else None
        if not isinstance(content, dict) or not isinstance(value, str) or not value:
            raise Refused("the token endpoint returned no access_token")
        lasts = content.get("expires_in")
        try:
            seconds = float(lasts) if isinstance(lasts, int | float | str) else math.nan
        except ValueError:
            seconds = math.nan
        expires = time.time() + seconds if math.isfinite(seconds) and seconds > 0 else claimed_expiry(value)
        return Token(value, expires, self._extensions)

    def _assertion(self) -> str:
        file = self._of("assertion.file")
        if file:
            return _read("assertion.file", file).strip()
        now = int(time.time())
        claims: dict[str, object] = {
            name: self._of(f"assertion.claim.{name}")
            for name in ("aud", "iss", "sub")
            if self._of(f"assertion.claim.{name}")
        }
        claims["iat"] = now
        claims["nbf"] = now - int(self._of("assertion.claim.nbf.seconds", "60"))
        claims["exp"] = now + int(self._of("assertion.claim.exp.seconds", "300"))
        if self._of("assertion.claim.jti.include").lower() == "true":
            claims["jti"] = secrets.token_hex(16)
        algorithm = self._of("assertion.algorithm", "RS256").upper()
        signed = f"{encoded({'alg': algorithm, 'typ': 'JWT'})}.{encoded(claims)}"
        text = _read("assertion.private.key.file", self._of("assertion.private.key.file"))
        found = _KEY.search(text)
        if not found:
            raise Refused(
                f"{_PREFIX}assertion.private.key.file has no PRIVATE KEY (PKCS #8, PEM, not encrypted): "
                "openssl pkcs8 -topk8 -nocrypt makes one"
            )
        try:
            signature = sign_assertion(algorithm, base64.b64decode(found[1]), signed.encode())
        except KafkaError as error:
            raise Refused(f"{_PREFIX}assertion.private.key.file: {error}") from None
        return f"{signed}.{encoded(signature)}"


def _read(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise Refused(f"{_PREFIX}{name} cannot be read: {type(error).__name__}") from None


def _extensions(settings: Mapping[str, str], login: Mapping[str, str]) -> dict[str, str]:
    found = {name.partition("_")[2]: value for name, value in login.items() if name.startswith("extension_")}
    for part in settings.get(_PREFIX + "extensions", "").split(","):
        name, equals, value = part.strip().partition("=")
        if equals:
            found[name] = value
        elif name:
            raise ConfigError(f"{_PREFIX}extensions: must be name=value, separated by commas")
    return found
