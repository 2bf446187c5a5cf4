"""Where a client of asyncio runs the caller's `sasl_token`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

_NAMES = ("sasl_token", "sasl.token")
_Properties = TypeVar("_Properties", bound=Mapping[str, Any] | None)


def with_loop(given: _Properties) -> _Properties:
    """Let what `sasl_token` awaits run on the loop that runs now; the other properties stay as they are."""
    properties = cast("Mapping[str, Any]", given or {})
    names = [name for name in _NAMES if name in properties]
    if not names:
        return given
    from ottla._sasl._tokens import on_loop

    return cast("_Properties", {**properties, **{name: on_loop(properties[name]) for name in names}})
