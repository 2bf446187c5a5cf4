"""Bearer tokens for OAUTHBEARER: kept while they are fresh, from a callback, or unsecured (KIP-255)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import inspect
import json
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla._sasl._failures import Refused, Unavailable, shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla._ottla import SaslRequest

# A token is fetched again when this part of its lifetime has passed, as in Java's client.
# Connections reauthenticate a little later (KIP-368), so they get the new token.
_USED = 0.8
# Numbers above these are not seconds of a lifetime, but a time in seconds or in milliseconds since 1970.
_SECONDS_SINCE_1970 = 1e9
_MILLISECONDS_SINCE_1970 = 1e11


@dataclass(frozen=True)
class Token:
    """A bearer token.

    Attributes:
        value: The token itself.
        expires: Seconds since 1970 when it expires; None if that is unknown.
        extensions: Extensions that are sent to the broker with it.
    """

    value: str = field(repr=False)
    expires: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


class Tokens:
    """Caches the token of `fetch` while it is fresh. Connections share it."""

    def __init__(self, fetch: Callable[[], Token]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._kept: tuple[Token, float] | None = None
        # Set without the lock, which a slow fetch may hold: the next request checks it.
        self._refused = False

    def answer(self, request: SaslRequest) -> None:
        """Return the token; fetch it again when it is due."""
        token = self._fresh()
        request.answer(token.value.encode(), extensions=list(token.extensions.items()))

    def _fresh(self) -> Token:
        # One connection fetches; the others wait for it.
        with self._lock:
            now = time.time()
            kept, self._refused = (None if self._refused else self._kept), False
            if kept and now < kept[1]:
                return kept[0]
            token = self._fetch()
            self._kept = None
            if token.expires is not None:
                left = token.expires - now
                if left <= 0:
                    raise Refused(f"the new token expired {-left:.0f} s ago")
                self._kept = (token, now + left * _USED)
            return token

    def forget(self) -> None:
        """Fetch a new one next time."""
        self._refused = True

    def end(self, connection: int) -> None:
        """Nothing is kept for a connection."""


class Callback:
    """Tokens of the caller's own function, which may be a coroutine function."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __call__(self) -> Token:
        """Call it, and read what it returned."""
        return read(called(self._function))


def called(function: Callable[[], Any]) -> Any:
    """Call a caller's function; if it returns something to await, that is awaited too.

    Raises:
        Refused: It raised.
    """
    try:
        result = function()
        return asyncio.run(_await(result)) if inspect.isawaitable(result) else result
    except (Refused, Unavailable):
        raise
    except BaseException as error:
        raise Refused(f"sasl_token raised {shown(error)}") from error


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def on_loop(function: Any) -> Any:
    """Make a function whose awaitables run on the loop that runs now; for clients of asyncio.

    What is not callable, and what is called where no loop runs, is left as it is.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return function
    if not callable(function):
        return function

    def call() -> Any:
        result = function()
        if not inspect.isawaitable(result):
            return result
        awaited = _await(result)
        try:
            return asyncio.run_coroutine_threadsafe(awaited, loop).result()
        except RuntimeError as error:
            awaited.close()
            raise Refused("the event loop of sasl_token was closed") from error

    return call


def read(result: Any) -> Token:
    """Read what a `sasl_token` returned.

    It is a token, or a tuple of a token and, each if it is there, a lifetime and extensions. The lifetime is in
    seconds; a time of expiry, in seconds or in milliseconds since 1970, is accepted too.

    Raises:
        Refused: It is something else.
    """
    parts = result if isinstance(result, tuple) else (result,)
    value, *rest = parts or (None,)
    if isinstance(value, bytes | bytearray):
        with contextlib.suppress(UnicodeDecodeError):
            value = bytes(value).decode("ascii")
    if not isinstance(value, str) or not value:
        raise Refused(f"sasl_token returned {type(value).__name__} for a token, which must be a str that is not empty")
    lifetime: float | None = None
    extensions: Mapping[str, str] = {}
    for part in rest:
        if isinstance(part, Mapping):
            if not all(isinstance(k, str) and isinstance(v, str) for k, v in part.items()):
                raise Refused("sasl_token returned extensions that are not all str")
            extensions = dict(part)
        elif isinstance(part, int | float) and not isinstance(part, bool) and math.isfinite(part):
            lifetime = float(part)
        elif part is not None:
            raise Refused(
                f"sasl_token returned {type(part).__name__} next to the token: return a token, a lifetime in seconds "
                "and a dict of extensions"
            )
    return Token(value, _expiry(value, lifetime), extensions)


def _expiry(token: str, lifetime: float | None) -> float | None:
    if lifetime is None:
        return claimed_expiry(token)
    if lifetime >= _MILLISECONDS_SINCE_1970:
        return lifetime / 1000
    if lifetime >= _SECONDS_SINCE_1970:
        return lifetime
    return time.time() + lifetime


def claimed_expiry(token: str) -> float | None:
    """Return when a token expires, if it is a JWT with that claim (RFC 7519).

    It is not verified.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    if not isinstance(expires, int | float) or isinstance(expires, bool) or not math.isfinite(expires):
        return None
    return float(expires)


def encoded(part: object) -> str:
    """Encode a part of a JWT: JSON in base64 for URLs."""
    data = part if isinstance(part, bytes) else json.dumps(part, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Unsecured:
    """Unsigned tokens, from the options of a Java client's OAuthBearerLoginModule; for development."""

    def __init__(self, login: Mapping[str, str]) -> None:
        self._login = dict(login)

    def __call__(self) -> Token:
        """Make one."""
        now = time.time()
        claims: dict[str, object] = {}
        extensions = {}
        for name, value in self._login.items():
            if name.startswith("unsecuredLoginStringClaim_"):
                claims[name.partition("_")[2]] = value
            elif name.startswith("unsecuredLoginNumberClaim_"):
                claims[name.partition("_")[2]] = _number(name, value)
            elif name.startswith("unsecuredLoginListClaim_"):
                claims[name.partition("_")[2]] = value[1:].split(value[0]) if value else []
            elif name.startswith("unsecuredLoginExtension_"):
                extensions[name.partition("_")[2]] = value
        seconds = _number("unsecuredLoginLifetimeSeconds", self._login.get("unsecuredLoginLifetimeSeconds", "3600"))
        # In whole seconds: a broker's clock in milliseconds may be before the fraction, and it
        # allows no skew.
        claims.setdefault("iat", math.floor(now))
        claims.setdefault("exp", now + seconds)
        return Token(f"{encoded({'alg': 'none'})}.{encoded(claims)}.", now + seconds, extensions)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refused(f"sasl.jaas.config: {name} must be a number") from None
