"""Where a client of asyncio runs the caller's `sasl_token`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = ("sasl_token", "sasl.token")


def with_loop(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Let what `sasl_token` awaits run on the loop that runs now; the other properties stay as they are."""
    names = [name for name in _NAMES if given and name in given]
    if not given or not names:
        return given
    from ottla._sasl._tokens import on_loop

    return {**given, **{name: on_loop(given[name]) for name in names}}
