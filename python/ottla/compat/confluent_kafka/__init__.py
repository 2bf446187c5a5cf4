"""Programs that were written for confluent-kafka run on ottla.

confluent-kafka is Python code over one native module, `confluent_kafka.cimpl`. `install()` puts ottla's module in its
place, under the confluent-kafka that is installed: its serializers and its admin futures stay. Of its asyncio layer
`AIOProducer` becomes a class that derives from it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["install"]
_SEAM: Final = "confluent_kafka.cimpl"
# Where its versions since 2.12 define `AIOProducer`.
_PRODUCERS: Final = (
    "confluent_kafka.aio.producer._AIOProducer",
    "confluent_kafka.experimental.aio.producer._AIOProducer",
)


class _Seam(MetaPathFinder, Loader):
    """Finds ottla's module under the name of the native one, and the module of `AIOProducer`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if it is one of these."""
        if fullname == _SEAM:
            return ModuleSpec(fullname, self)
        if fullname not in _PRODUCERS:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = _ProducerLoader(found.loader)
        return found

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """The module, which may be imported already."""
        return importlib.import_module("ottla.compat.confluent_kafka.cimpl")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: importing it has executed it."""


class _ProducerLoader(Loader):
    """Loads the module of `AIOProducer`, and replaces the class before other modules import it.

    Args:
        loader: The module's own loader, which has what else is requested, such as its source.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module, as its own loader creates it."""
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and replace the class."""
        self._loader.exec_module(module)
        producer = importlib.import_module("ottla.compat.confluent_kafka.aio.producer")
        module.AIOProducer = producer.on_ottla(module.AIOProducer)  # type: ignore[attr-defined]


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
