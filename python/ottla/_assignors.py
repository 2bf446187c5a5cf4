"""Partition assignors of the application: their interface, and how a poll calls them.

An assignor runs on its own thread: an event loop continues meanwhile, and a call that does not end in time is
abandoned.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_type_hints

from ottla._ottla import AssignorQuestion
from ottla._types import Partition, TopicPartition
from ottla.errors import ArgumentError, KafkaError, KafkaTimeoutError


class GroupMember(NamedTuple):
    """A member of a group, as an assignor sees it.

    Attributes:
        member_id: The id that the coordinator gave it.
        group_instance_id: Its `group.instance.id` if it is a static member (KIP-345).
        topics: The topics that it subscribes to.
        owned: The partitions that it still owns: with the cooperative protocol those that it reads.
        generation: The generation in which it got them; -1 if it owns none, or does not report it.
        rack: Its `client.rack`.
        user_data: The user data of its own assignor of the same name, from `subscription_user_data`.
    """

    member_id: str
    group_instance_id: str | None
    topics: list[str]
    owned: list[TopicPartition]
    generation: int
    rack: str | None
    user_data: bytes | None


class Assignor(abc.ABC):
    """Assigns partitions to the members of a group with the classic protocol. Derive from it, and pass an object.

    All members of a group need an assignor of the same name, in whichever client: the assignor of the group's leader
    assigns for all members. A poll calls it on another thread, for half of `max.poll.interval.ms` at most. If it raises
    or takes too long, the poll raises an error, and the member tries again.

    Attributes:
        name: Its name, by which members agree on it.
        protocol: `"eager"`, where members revoke all partitions before each rebalance; or `"cooperative"`, where they
            keep them, and revoke only those that move (KIP-429). Those are assigned after their owner has revoked them:
            `assign` is called again for that. Every assignor that a member offers must be cooperative for this.

    Example:
        ```python
        class First(ottla.Assignor):
            name = "first"

            def assign(self, members, topics):
                first = min(member.member_id for member in members)
                return {first: [(topic, p) for topic, count in topics.items() for p in range(count)]}


        consumer = ottla.Consumer(
            "localhost:9092", topics="flights", group_id="g", partition_assignment_strategy=[First(), "range"]
        )
        ```
    """

    name: str
    protocol: Literal["eager", "cooperative"] = "eager"

    @abc.abstractmethod
    def assign(self, members: Sequence[GroupMember], topics: Mapping[str, int]) -> Mapping[str, Iterable[Partition]]:
        """Assign all partitions; only the leader's assignor is called.

        Args:
            members: All members of the group.
            topics: The existing topics that at least one member subscribes to, with their numbers of partitions.

        Returns:
            Partitions by `member_id`, as `TopicPartition`s or `(topic, partition)` pairs. A member without an entry
            gets none, and a partition without a member is not read. Polls raise an error if a partition does not exist,
            has two members, or belongs to a topic that its member does not subscribe to.
        """

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:  # noqa: ARG002 for overrides
        """Return user data for the leader's assignor; it is called each time before this member joins.

        Args:
            topics: The topics that this member subscribes to.

        Returns:
            The bytes that `GroupMember.user_data` has for this member; None sends nothing.
        """
        return None


# `ottla` shows the class as its own, and `typing.get_type_hints` would look for `Literal` there.
Assignor.__annotations__.update(get_type_hints(Assignor))


class _Work(threading.Thread):
    """Calls assignors on its own thread."""

    def __init__(self, call: AssignorQuestion, assignors: Mapping[str, Assignor], done: Callable[[], object]) -> None:
        super().__init__(name="ottla-assignor", daemon=True)
        self.failure: KafkaError | None = None
        self._call, self._assignors, self._done = call, assignors, done
        self.names = ", ".join([*call.subscribes, *filter(None, [call.assigns])])

    def run(self) -> None:
        name = ""
        try:
            call = self._call
            topics = call.topics
            collected: list[bytes | None] = []
            for name in call.subscribes:
                user_data = self._assignors[name].subscription_user_data(list(topics))
                collected.append(_checked(user_data))
            if collected:
                call.answer_subscription(collected)
            if call.assigns is not None:
                name = call.assigns
                members = [GroupMember(*each) for each in call.members]
                assigned = self._assignors[name].assign(members, topics)
                call.answer_assignment({member: list(partitions) for member, partitions in assigned.items()})
        except BaseException as error:  # noqa: BLE001 raised by the poll
            self.failure = ArgumentError(f"partition assignor {name!r} raised {error!r}")
            self.failure.__cause__ = error
        finally:
            self._done()

    def end(self, *, in_time: bool, limit: float) -> None:
        """Raise the assignor's exception, or a timeout."""
        if not in_time:
            text = f"partition assignor {self.names!r} did not return within {limit:g} s, half of max.poll.interval.ms"
            self.failure = KafkaTimeoutError(text)
        if self.failure is not None:
            self._call.fail(str(self.failure))
            raise self.failure


def _checked(user_data: bytes | None) -> bytes | None:
    if user_data is None or isinstance(user_data, (bytes, bytearray, memoryview)):
        return None if user_data is None else bytes(user_data)
    raise TypeError(f"subscription_user_data() must return bytes or None, not {type(user_data).__name__}")


def answer(call: AssignorQuestion, assignors: Mapping[str, Assignor], limit: float) -> None:
    """Call the assignors; the core sends the result to the group.

    Raises:
        ArgumentError: An assignor raised; that is the cause.
        KafkaTimeoutError: It did not return within `limit` seconds.
    """
    done = threading.Event()
    work = _Work(call, assignors, done.set)
    work.start()
    try:
        in_time = done.wait(limit)
    except BaseException:
        call.fail("the poll that called the assignor was interrupted")
        raise
    work.end(in_time=in_time, limit=limit)


async def answer_on_loop(call: AssignorQuestion, assignors: Mapping[str, Assignor], limit: float) -> None:
    """Call the assignors as `answer` does, without blocking the loop."""
    # Programs without a loop do not need the import.
    import asyncio

    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake() -> None:
        # The loop may be closed by now.
        if not loop.is_closed():
            loop.call_soon_threadsafe(done.set)

    work = _Work(call, assignors, wake)
    work.start()
    in_time = True
    try:
        await asyncio.wait_for(done.wait(), limit)
    except TimeoutError:
        in_time = False
    except BaseException:
        call.fail("the poll that called the assignor was cancelled")
        raise
    work.end(in_time=in_time, limit=limit)
