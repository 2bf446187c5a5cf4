"""`install()`: these modules under aiokafka's names."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from types import ModuleType
from typing import Final

_OURS: Final = "ottla.compat.aiokafka"
_THEIRS: Final = "aiokafka"


def install() -> None:
    """Let `import aiokafka` find ottla's modules, in this process. Call it before the first import.

    aiokafka need not be installed. Calling it twice does no harm.

    Raises:
        RuntimeError: aiokafka was imported before.

    Example:
        ```python
        import ottla.compat.aiokafka

        ottla.compat.aiokafka.install()
        from aiokafka import AIOKafkaConsumer
        ```
    """
    package = importlib.import_module(_OURS)
    present = sys.modules.get(_THEIRS)
    if present is package:
        return
    if present is not None:
        raise RuntimeError(
            "aiokafka was imported before ottla.compat.aiokafka.install(): call install() first, or start the program "
            "with `python -m ottla.compat PROGRAM`"
        )
    found = importlib.util.find_spec(_THEIRS)
    locations = list(found.submodule_search_locations or ()) if found is not None else []
    _alias(package, locations)


def _alias(package: ModuleType, locations: list[str]) -> None:
    """Put a package and what is in it under aiokafka's names; what it lacks is searched for in `locations`."""
    sys.modules[_THEIRS + package.__name__.removeprefix(_OURS)] = package
    for each in pkgutil.iter_modules(package.__path__):
        if each.name.startswith("_"):
            continue
        module = importlib.import_module(f"{package.__name__}.{each.name}")
        if each.ispkg:
            _alias(module, [f"{location}/{each.name}" for location in locations])
        else:
            sys.modules[_THEIRS + module.__name__.removeprefix(_OURS)] = module
    package.__path__ = [*package.__path__, *locations]
