"""When a group has settled after a rebalance: one rule, for the members of every client.

The members of a group run in one process, a thread each (franz-go's a goroutine). What a member's application sees, it
reports with the time of the machine's clock: that it begins to join or to leave, which partitions it was assigned,
which were revoked, and of which it got a record. A rebalance begins when one member begins to join or to leave. It has
ended with the report after which

* each partition has one owner, and no member owns two more than another, and
* each member has got a record of every partition since that was assigned to it,

unless reports of the next half second show that this was not the end. Each partition holds one record, and the group's
committed offset is before it, so that whoever is assigned a partition gets that record.

Members hear of a rebalance by a heartbeat, and heartbeats follow the end of the last rebalance, as polls do. Whoever
joins or leaves therefore rests first, each time for another part of the time between two heartbeats: without that, each
client would be measured always at the same moment of it.
"""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from measurement import Job, Stopwatch

MEMBERS = 10
"""That stay, while another comes and goes."""
QUIET = 0.5
"""Seconds without a change, after which a group has settled."""
DEADLINE = 40.0
"""Seconds in which a group must settle, and a member leave."""
PAUSE = 0.05
"""Seconds between two looks at the reports; their times do not depend on it, but what looks takes processor time."""
BEAT = 0.1
"""Seconds between two heartbeats of a member, as long as a poll takes that finds nothing."""


@dataclass(frozen=True)
class Report:
    """What a member's application saw.

    Attributes:
        at: When, in nanoseconds since 1970.
        member: Its number.
        what: joins, assigned, revoked, read, leaves or failed.
        partitions: That were assigned or revoked, or that a poll gave records of.
        text: Why it failed.
    """

    at: int
    member: int
    what: str
    partitions: frozenset[int] = frozenset()
    text: str = ""


class Members(Protocol):
    """The members of a group in one process."""

    def join(self, number: int) -> None:
        """Let one more join; what it sees is reported."""

    def leave(self, number: int, rest: float) -> None:
        """Let this one leave, so many seconds after its last poll."""

    def reports(self) -> list[Report]:
        """What was reported since the last call, each member's in order."""

    def close(self) -> None:
        """Let all leave."""


class Leaves(threading.Event):
    """Set when a member is to leave.

    Attributes:
        rest: Seconds between its last poll and that.
    """

    rest = 0.0


class Threads:
    """Members in threads of this process.

    Args:
        run: A member's life, from making its client until that is closed, once the event is set. What it sees, it tells
            as `tell(what, partitions)`; a list without any is no news.
    """

    def __init__(self, run: Callable[[Callable[..., None], Leaves], None]) -> None:
        self._run = run
        self._reports = queue.SimpleQueue[Report]()
        self._members = dict[int, tuple[threading.Thread, Leaves]]()

    def join(self, number: int) -> None:
        leaves = Leaves()
        thread = threading.Thread(target=self._live, args=(number, leaves), daemon=True)
        self._members[number] = thread, leaves
        thread.start()

    def leave(self, number: int, rest: float) -> None:
        thread, leaves = self._members.pop(number)
        leaves.rest = rest
        leaves.set()
        thread.join(DEADLINE)

    def reports(self) -> list[Report]:
        return [self._reports.get() for _ in range(self._reports.qsize())]

    def close(self) -> None:
        for _, leaves in self._members.values():
            leaves.set()
        for thread, _ in self._members.values():
            thread.join(DEADLINE)

    def _live(self, number: int, leaves: Leaves) -> None:
        def tell(what: str, partitions: Collection[int] | None = None) -> None:
            if partitions is None or partitions:
                self._reports.put(Report(time.time_ns(), number, what, frozenset(partitions or ())))

        tell("joins")
        try:
            self._run(tell, leaves)
        except BaseException as error:
            self._reports.put(Report(time.time_ns(), number, "failed", text=repr(error)))


class Program:
    """Members in a program that takes orders, and reports, line by line: see `java/RebalanceBench.java`."""

    def __init__(self, command: list[str]) -> None:
        self._reports = queue.SimpleQueue[Report]()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def join(self, number: int) -> None:
        self._order(f"join {number}")

    def leave(self, number: int, rest: float) -> None:
        self._order(f"leave {number} {rest * 1000:.0f}")

    def reports(self) -> list[Report]:
        found = [self._reports.get() for _ in range(self._reports.qsize())]
        if not found and self._process.poll() is not None:
            raise RuntimeError(f"the members' program has ended: {self._said()}")
        return found

    def close(self) -> None:
        assert self._process.stdin
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait(DEADLINE)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._errors.close()

    def _order(self, order: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{order}\n")

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:]

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._reports.put(_report(line.rstrip("\n")))


def _report(line: str) -> Report:
    """A line of a program; what is none is an error that its client logs."""
    fields = line.split(" ", 3)
    if len(fields) < 4 or not fields[0].isdigit():
        return Report(time.time_ns(), -1, "failed", text=line)
    at, member, what, about = int(fields[0]), int(fields[1]), fields[2], fields[3]
    if what == "failed":
        return Report(at, member, what, text=about)
    return Report(at, member, what, frozenset(int(partition) for partition in about.split(",") if partition))


class Group:
    """Follows the members of a group by their reports.

    Args:
        members: That report.
        partitions: How many they share.
    """

    def __init__(self, members: Members, partitions: int) -> None:
        self._members, self._partitions = members, partitions
        self._owned: defaultdict[int, set[int]] = defaultdict(set)
        self._unread: defaultdict[int, set[int]] = defaultdict(set)

    def settled(self, numbers: range, cause: str) -> float:
        """Seconds from the first member that `cause`, joins or leaves, until the group of these members has settled."""
        begun: int | None = None
        ended: int | None = None
        latest, heard = 0, time.monotonic()
        deadline = heard + DEADLINE
        while begun is None or ended is None or time.monotonic() < heard + QUIET:
            time.sleep(PAUSE)
            for report in self._members.reports():
                latest, heard = max(latest, report.at), time.monotonic()
                self._take(report)
                if report.what == cause and begun is None:
                    begun = report.at
                if not self._is_settled(numbers):
                    ended = None
                elif ended is None:
                    ended = latest
            if time.monotonic() > deadline:
                raise RuntimeError(f"no settled group after {DEADLINE:.0f} s: {self._shown()}")
        return (ended - begun) / 1e9

    def _take(self, report: Report) -> None:
        owned, unread = self._owned[report.member], self._unread[report.member]
        if report.what == "failed":
            raise RuntimeError(f"member {report.member} failed: {report.text}")
        if report.what in ("joins", "leaves"):
            owned.clear()
            unread.clear()
        elif report.what == "assigned":
            owned |= report.partitions
            unread |= report.partitions
        elif report.what == "revoked":
            owned -= report.partitions
            unread -= report.partitions
        elif report.what == "read":
            unread -= report.partitions

    def _is_settled(self, numbers: range) -> bool:
        owned = [self._owned[number] for number in numbers]
        counts = [len(its) for its in owned]
        return (
            sum(counts) == self._partitions == len(set().union(*owned))
            and max(counts) - min(counts) <= 1
            and not any(self._unread[number] for number in numbers)
        )

    def _shown(self) -> str:
        return ", ".join(f"{n} owns {len(its)}, {len(self._unread[n])} unread" for n, its in self._owned.items())


def measure(members: Members, job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Let one member more join and leave, as often as the job says; each time goes to the watch's rebalances.

    The first time does not count: it compiles Java's code, and loads others'.
    """
    watch.start()
    with closing(members):
        group = Group(members, job.partitions)
        for number in range(MEMBERS):
            members.join(number)
        group.settled(range(MEMBERS), "joins")
        for attempt in range(-1, job.records):
            rest = BEAT * (attempt % job.records + 0.5) / job.records
            time.sleep(rest)
            members.join(MEMBERS)
            joined = group.settled(range(MEMBERS + 1), "joins")
            members.leave(MEMBERS, rest)
            left = group.settled(range(MEMBERS), "leaves")
            if attempt >= 0:
                watch.rebalances["join"].append(joined)
                watch.rebalances["leave"].append(left)
    watch.stop()
    return 2 * job.records, 0
