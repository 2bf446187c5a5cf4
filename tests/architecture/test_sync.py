"""The facade for threads is what scripts/unasync.py makes of asyncio's, and nothing else."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "unasync.py"), run_name="unasync")


def made(source: str) -> str:
    return SCRIPT["_Rewriting"](source).text()


@pytest.mark.parametrize("name", SCRIPT["MODULES"])
def test_the_facade_for_threads_is_fresh(name):
    assert (SCRIPT["TARGETS"] / f"{name}.py").read_text() == SCRIPT["text"](name), "run scripts/unasync.py"


def test_no_file_of_it_is_written_by_hand():
    files = {path.relative_to(SCRIPT["TARGETS"]).with_suffix("").as_posix() for path in SCRIPT["TARGETS"].rglob("*.py")}
    assert files == {*SCRIPT["MODULES"], "__init__", "_calls/__init__"}


def test_every_name_and_phrase_of_the_tables_is_used():
    sources = " ".join(" ".join((SCRIPT["SOURCES"] / f"{name}.py").read_text().split()) for name in SCRIPT["MODULES"])
    tables = [*SCRIPT["NAMES"], *SCRIPT["PHRASES"], *SCRIPT["OPERATIONS"], *SCRIPT["TRANSPARENT"], *SCRIPT["COMPILED"]]
    assert [each for each in tables if each not in sources] == []


def test_a_source_is_rewritten_and_keeps_its_comments():
    source = '''\
"""Verbs, for asyncio."""

from ottla._ottla import AsyncDelivery as Delivery


class Verbs:
    async def flush(self) -> None:
        """Flushes.

        Args:
            on_metrics: A function, or an async one, that is called with the metrics of this very client, so that a
                caller sees them.

        Example:
            ```python
            async with aio.Verbs() as verbs:
                await verbs.flush()
            ```
        """
        async with self._lock:  # one at a time
            # For threads: `print("threads")`
            print("asyncio")
            # Not for threads.
            if await something():
                await asyncio.sleep(0)
            found = await self._core.flush(with_loop(given))
            return await self.told(found)

    async def __aenter__(self) -> Self: ...
'''
    assert (
        made(source)
        == '''\
"""Verbs, for threads."""

from ottla._ottla import Delivery


class Verbs:
    def flush(self) -> None:
        """Flushes.

        Args:
            on_metrics: A function that is called with the metrics of this very client, so that a caller sees them.

        Example:
            ```python
            with ottla.Verbs() as verbs:
                verbs.flush()
            ```
        """
        with self._lock:  # one at a time
            print("threads")
            found = self._core.flush(given).wait()
            return self.told(found)

    def __enter__(self) -> Self: ...
'''
    )


def test_what_the_compiled_base_has_is_left_out():
    source = '''\
class Producer(AppMetrics):
    """Sends."""

    __slots__ = ("_core",)

    async def send(self, topic: str) -> None:
        await self._core.send(topic)

    async def flush(self) -> None:
        await self._core.flush()
'''
    assert (
        made(source)
        == '''\
class Producer(_ottla.SyncProducer, AppMetrics):
    """Sends."""

    __slots__ = ()


    def flush(self) -> None:
        self._core.flush().wait()
'''
    )


@pytest.mark.parametrize(
    "source",
    [
        "async def f():\n    return [each async for each in g()]\n",
        "# For threads: f()\nf()\n",
        "f()\n# Not for threads.\n",
        'text = "\N{SNOWMAN}"\n',
    ],
)
def test_what_cannot_be_rewritten_is_refused(source):
    with pytest.raises(SyntaxError):
        made(source)
