"""Programs that were written for confluent-kafka run on ottla.

confluent-kafka is Python code over one native module, `confluent_kafka.cimpl`. `install()` puts ottla's module in its
place, under the confluent-kafka that is installed: its serializers, its asyncio layer and its admin futures stay.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["install"]
_SEAM: Final = "confluent_kafka.cimpl"


class _Seam(MetaPathFinder, Loader):
    """Finds ottla's module under the name of the native one."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if it is this one."""
        return ModuleSpec(fullname, self) if fullname == _SEAM else None

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """The module, which may be imported already."""
        return importlib.import_module("ottla.compat.confluent_kafka.cimpl")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: importing it has executed it."""


def install() -> None:
    """Let `import confluent_kafka` run on ottla, in this process. Call it before the first import.

    Calling it twice does no harm.

    Raises:
        ImportError: confluent-kafka is not installed.
        RuntimeError: confluent_kafka was imported before.

    Example:
        ```python
        import ottla.compat.confluent_kafka

        ottla.compat.confluent_kafka.install()
        from confluent_kafka import Producer
        ```
    """
    if any(isinstance(finder, _Seam) for finder in sys.meta_path):
        return
    if "confluent_kafka" in sys.modules or _SEAM in sys.modules:
        raise RuntimeError(
            "confluent_kafka was imported before ottla.compat.confluent_kafka.install(): call install() first, or "
            "start the program with `python -m ottla.compat PROGRAM`"
        )
    if importlib.util.find_spec("confluent_kafka") is None:
        raise ImportError("confluent-kafka is not installed: pip install confluent-kafka")
    sys.meta_path.insert(0, _Seam())
