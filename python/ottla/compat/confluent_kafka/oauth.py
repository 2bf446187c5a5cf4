"""`oauth_cb`: tokens for OAUTHBEARER, fetched while the client is made and then by a thread before they expire."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from ottla.compat.confluent_kafka.errors import failure

# The part of a token's life after which the next one is fetched, and seconds until a failed call is repeated.
_USED: Final = 0.8
_RETRY: Final = 10.0


class Tokens:
    """The current token of a client.

    Args:
        oauth_cb: Called with the configuration. It returns a token and its expiry in seconds since 1970, and perhaps a
            principal and a dict of extensions.
        configuration: `sasl.oauthbearer.config`.
    """

    def __init__(self, oauth_cb: Callable[[str], Any], configuration: str) -> None:
        self._oauth_cb, self._configuration = oauth_cb, configuration
        try:
            self._current = self._fetch()
        except Exception as error:
            raise failure("_AUTHENTICATION", f"Failed to acquire a token: oauth_cb raised {error!r}") from error
        self._closed = threading.Event()
        arguments = (weakref.ref(self), self._closed, self._pause())
        threading.Thread(target=_refresh, args=arguments, name="ottla-oauth", daemon=True).start()

    def token(self) -> Any:
        """The token, as `sasl_token` returns it."""
        return self._current[0]

    def refresh(self) -> float:
        """Fetch the next token.

        Returns: Seconds until the next call.
        """
        try:
            self._current = self._fetch()
        except Exception:  # noqa: BLE001 the application's; the token that is left may be good for a while
            return _RETRY
        return self._pause()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _fetch(self) -> tuple[Any, float]:
        answer = self._oauth_cb(self._configuration)
        value, expiry, *rest = answer
        extensions = next((part for part in rest if isinstance(part, dict)), {})
        return (value, float(expiry), extensions), float(expiry)

    def _pause(self) -> float:
        return max(0.1, (self._current[1] - time.time()) * _USED)


def _refresh(tokens: weakref.ref[Tokens], closed: threading.Event, pause: float) -> None:
    while not closed.wait(min(pause, threading.TIMEOUT_MAX)):
        alive = tokens()
        if alive is None:
            return
        pause = alive.refresh()
        del alive
