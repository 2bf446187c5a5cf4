"""Modules that are imported at their first use, so that importing ottla does not load them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uuid

    from ottla import _two_phase as two_phase

__all__ = ["Later", "two_phase", "uuid"]


class Later:
    """Stands for a module in hints. `typing.get_type_hints` looks into it, which imports the module.

    Args:
        name: The module's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


if not TYPE_CHECKING:
    two_phase = Later("ottla._two_phase")
    uuid = Later("uuid")
