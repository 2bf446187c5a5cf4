"""Bearer tokens that the driver fetches for tasks, which may not be able to (OAUTHBEARER).

Option `kafka.sasl.token` names a function as `module:function`, which is imported and called on the driver only. What
it returns is what a `sasl_token` of the clients returns: a token, or a tuple of a token, the seconds for which it is
valid and a dict of extensions. Tasks get the token with what they are to do, pickled as all of it is.
"""

import re
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.errors import AuthenticationError
from ottla.spark.shared.ranges import Range

if TYPE_CHECKING:
    # Imported only with tokens: it imports asyncio, and every Spark session imports this module.
    from ottla._sasl._tokens import Token

PROPERTY = "sasl.token"
OPTION = f"kafka.{PROPERTY}"
# The part of a token's life after which new tasks get another one.
FRESH = 0.5

# Kafka's properties as options carry them.
_Properties = tuple[tuple[str, str], ...]

# By the name of the function: in the process of a task what the driver gave it last, and on the driver what the
# function returned, with the time until which that is fresh.
_given: "dict[str, Token]" = {}
_fetched: "dict[str, tuple[Token, float]]" = {}
_lock = threading.Lock()


def check(properties: Mapping[str, str]) -> None:
    """Refuse what does not name a function, or has no use for one.

    Raises:
        ValueError: The message names the option.
    """
    name = properties.get(PROPERTY)
    if name is None:
        return
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", name):
        # It may be a token, by mistake.
        raise ValueError(
            f"option {OPTION} must name a function that returns a token, as module:function, such as "
            "company.kafka:token"
        )
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism.strip().upper() != "OAUTHBEARER":
        raise ValueError(
            f"option {OPTION} belongs to kafka.sasl.mechanism=OAUTHBEARER, which is {mechanism or 'not set'}"
        )


def fetch(properties: _Properties) -> "Token | None":
    """The token for tasks that begin now; None if no function is named.

    For the driver.

    Raises:
        AuthenticationError: The function cannot be imported, raised, or returned no token.
    """
    name = dict(properties).get(PROPERTY)
    if name is None:
        return None
    from ottla._sasl._failures import Refused, Unavailable

    try:
        return _fetch(name)
    except (Refused, Unavailable) as error:
        raise AuthenticationError(str(error)) from error.__cause__


def give(properties: _Properties, spans: Iterable[Range]) -> list[Range]:
    """Ranges as tasks get them: with the token.

    For the driver.

    Raises:
        AuthenticationError: As by `fetch`.
    """
    token = fetch(properties)
    return list(spans) if token is None else [span._replace(token=token) for span in spans]


def take(properties: _Properties, token: "Token | None") -> None:
    """Use the token that the driver gave a task from now on, here and in the tasks that follow in this process."""
    if token is None:
        return
    name = dict(properties)[PROPERTY]
    known = _given.get(name)
    # Tasks of two batches may begin in any order.
    if known is None or known.expires is None or token.expires is None or token.expires >= known.expires:
        _given[name] = token


def resolved(config: Mapping[str, str]) -> dict[str, Any]:
    """The properties of a client, with a function in place of its name."""
    name = config.get(PROPERTY)
    return dict(config) if name is None else {**config, PROPERTY: partial(_current, name)}


def _current(name: str) -> tuple[str, float | None, Mapping[str, str]]:
    """The token that a client is to use now: in a task the driver's, and on the driver a fresh one."""
    from ottla._sasl._failures import Refused

    token = _given.get(name)
    if token is None:
        # A client caches the token itself: it calls again when the broker rejects it.
        token = _fetch(name, again=True)
    elif token.expires is not None and token.expires <= time.time():
        raise Refused(
            f"the token that the driver fetched for this task by option {OPTION} ({name}) has expired, and a task "
            "cannot fetch another: let tokens live longer than tasks run, or have each task do less "
            "(maxRecordsPerPartition)"
        )
    return token.value, token.expires, token.extensions


def _fetch(name: str, *, again: bool = False) -> "Token":
    """Call the function, unless what it returned last is fresh and will do.

    Raises:
        Refused, Unavailable: There is no token; the text names the option.
    """
    from ottla._sasl._failures import Refused, Unavailable
    from ottla._sasl._tokens import Callback

    with _lock:
        kept, until = _fetched.get(name, (None, 0.0))
        if kept is not None and time.time() < until and not again:
            return kept
        module, _, function = name.partition(":")
        try:
            found = getattr(import_module(module), function)
        except Exception as error:
            raise Refused(
                f"option {OPTION} names {name}, which Spark's Python on the driver cannot import "
                f"({type(error).__name__}: {error}): install the module there, or put it on PYTHONPATH before the "
                "session starts"
            ) from error
        try:
            token = Callback(found)()
        except (Refused, Unavailable) as error:
            raise type(error)(str(error).replace("sasl_token", f"option {OPTION}: {name}", 1)) from error.__cause__
        if token.expires is not None:
            now = time.time()
            _fetched[name] = token, now + (token.expires - now) * FRESH
        return token
