"""Records of log folders and segments, as `consume --from` reads them: no broker is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import ottla
from ottla.cli.consume.limits import check_reader
from ottla.cli.consume.plan import Plan
from ottla.cli.formats.rows import Rows
from ottla.cli.patterns import matching
from ottla.cli.windows import Point, Window
from ottla.errors import ArgumentError, NotFoundError
from ottla.log import INTERNAL_TOPICS, Log, LogRange, open_log

_FOLDER = re.compile(r"(.+)-(\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")


class LogSource:
    """Reads the partitions of a folder, one after the other.

    Args:
        plan: What to read. A window's times are looked for in the records: as a broker does it, it begins at the first
            record of this time or later, and ends before one.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        path = str(plan.path)
        level = "read_committed" if plan.read_committed else "read_uncommitted"
        self._segment = path if path.endswith(".log") and "://" not in path and Path(path).is_file() else None
        if self._segment is not None:
            segment = Path(path).absolute()
            if not _SEGMENT.fullmatch(segment.name) or not _FOLDER.fullmatch(segment.parent.name):
                raise ArgumentError(
                    f"{path} is not a segment in the folder of its partition, as in orders-0/00000000000000000000.log: "
                    "the folder names topic and partition. `ottla decode` reads any segment"
                )
            if plan.remote is not None:
                raise ArgumentError(f"{path} is one segment, which no store continues: leave --remote out")
            self._segment, path = str(segment), str(segment.parent)
        keys = {name: _content(name, file) for name, file in plan.key_files.items()}
        try:
            self._log: Log = open_log(path, remote=plan.remote, private_keys=keys, isolation_level=level)
        except ImportError as error:
            raise ArgumentError(f"{error}: add the package to the environment of ottla with pip") from None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End."""

    def written(self, rows: Rows, used: int) -> None:
        """Nothing is committed."""

    def read(self, most: Callable[[], int | None]) -> Iterator[Rows]:  # noqa: ARG002 reading is cheap
        """The records of the window."""
        partitions = self._partitions()
        starts, ends = self._log.beginning_offsets(partitions), self._log.end_offsets(partitions)
        # Times are found in the records.
        window = self._plan.window
        begin_time, end_time = _time(window.begin), _time(window.end)
        bounds = Window(
            Point("start") if begin_time is not None else window.begin,
            Point("end") if window.end is None or end_time is not None else window.end,
        )
        for at in partitions:
            begin, end = bounds.resolve(starts[at], ends[at], lambda _: None)
            yield from _between(self._batches(at, begin, end), begin_time, end_time)

    def _batches(self, at: ottla.TopicPartition, begin: int, end: int | None) -> Iterator[ottla.Batch]:
        for part in self._ranges(at, begin, end):
            for batch in part.read():
                check_reader()
                yield batch

    def _ranges(self, at: ottla.TopicPartition, begin: int, end: int | None) -> list[LogRange]:
        parts = self._log.ranges(at, begin, end)
        if self._segment is None:
            return parts
        return [part for part in parts if Path(part.path).name == Path(self._segment).name]

    def _partitions(self) -> list[ottla.TopicPartition]:
        names = sorted({at.topic for at in self._log.partitions})
        plan = self._plan
        if plan.regex and plan.topics:
            wanted = matching(plan.topics, names)
        else:
            wanted = plan.topics or [name for name in names if name not in INTERNAL_TOPICS]
        if missing := sorted(set(wanted) - set(names)):
            raise NotFoundError(
                f"{plan.path} has no folder of a partition of topic {missing[0]}, but of {', '.join(names)}"
            )
        found = [at for at in self._log.partitions if at.topic in wanted]
        if plan.partitions is not None:
            found = [at for at in found if at.partition in plan.partitions]
        return found


def _content(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ArgumentError(f"--private-key: the file of key {name!r} cannot be read: {error}") from None


def _time(point: Point | None) -> int | None:
    return point.value if point is not None and point.kind == "time" else None


def _between(batches: Iterator[ottla.Batch], begin: int | None, end: int | None) -> Iterator[Rows]:
    """From the first record at a time or later on, up to the first one at another time or later."""
    has_begun = begin is None
    for batch in batches:
        first, stop = 0, len(batch)
        if not has_begun and begin is not None:
            found = next((row for row, record in enumerate(batch) if record.timestamp >= begin), None)
            if found is None:
                continue
            has_begun, first = True, found
        if end is not None:
            stop = next((row for row, record in enumerate(batch) if record.timestamp >= end), stop)
        if first < stop:
            yield Rows(batch[first:stop])
        if stop < len(batch):
            return
