"""Partition assignors of the caller's: what they look like, and how a poll asks them.

An assignor runs on a thread of its own: a loop goes on meanwhile, and what does not end in time is left behind.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ottla._ottla import AssignorQuestion
from ottla._types import Partition, TopicPartition
from ottla.errors import ArgumentError, KafkaError, KafkaTimeoutError


class GroupMember(NamedTuple):
    """A member of a group, as an assignor sees it.

    Attributes:
        member_id: The id that the coordinator gave it.
        group_instance_id: Its `group.instance.id` if it is a static member (KIP-345).
        topics: The topics that it subscribes to.
        owned: The partitions that it has not given up: with the cooperative protocol those that it reads.
        generation: The generation in which it got them; -1 if it has none, or does not tell.
        rack: Its `client.rack`.
        user_data: What its own assignor of the same name told, by `subscription_user_data`.
    """

    member_id: str
    group_instance_id: str | None
    topics: list[str]
    owned: list[TopicPartition]
    generation: int
    rack: str | None
    user_data: bytes | None


class Assignor(abc.ABC):
    """Decides who gets which partition, where the group has the classic protocol. Derive from it, and pass an object.

    All members of a group need an assignor of the same name, of whichever client: one of them, the leader, is asked for
    all. A poll asks it, on another thread than its own, and for half of `max.poll.interval.ms` at most. What it raises,
    or that it takes too long, the poll raises; the member then tries again.

    Attributes:
        name: Its name, by which members agree on it.
        protocol: `"eager"`, where members give up all partitions before each rebalance; or `"cooperative"`, where they
            keep them, and give up only those that move (KIP-429). What moves then is assigned when its owner gave it
            up: `assign` is asked again for that. Every assignor that a member offers must be cooperative for this.

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
        """Assigns all partitions; only the leader's assignor is asked.

        Args:
            members: All members of the group.
            topics: The topics that somebody subscribes to and that exist, with their numbers of partitions.

        Returns:
            Partitions by `member_id`, as `TopicPartition`s or `(topic, partition)` pairs. A member without an entry
            gets none, and a partition that nobody has is not read. A partition that does not exist, that two members
            have, or whose topic its member does not subscribe to, is an error of polls.
        """

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:  # noqa: ARG002 for who overrides it
        """What this member tells the leader's assignor, each time before it joins; None tells nothing.

        Args:
            topics: The topics that this member subscribes to.
        """
        return None


class _Work(threading.Thread):
    """Asks assignors, on a thread of its own."""

    def __init__(
        self, question: AssignorQuestion, assignors: Mapping[str, Assignor], done: Callable[[], object]
    ) -> None:
        super().__init__(name="ottla-assignor", daemon=True)
        self.failure: KafkaError | None = None
        self._question, self._assignors, self._done = question, assignors, done
        self.asked = ", ".join([*question.subscribes, *filter(None, [question.assigns])])

    def run(self) -> None:
        name = ""
        try:
            question = self._question
            topics = question.topics
            told: list[bytes | None] = []
            for name in question.subscribes:
                user_data = self._assignors[name].subscription_user_data(list(topics))
                told.append(_checked(user_data))
            if told:
                question.answer_subscription(told)
            if question.assigns is not None:
                name = question.assigns
                members = [GroupMember(*each) for each in question.members]
                assigned = self._assignors[name].assign(members, topics)
                question.answer_assignment({member: list(partitions) for member, partitions in assigned.items()})
        except BaseException as error:  # noqa: BLE001 raised by the poll
            self.failure = ArgumentError(f"partition assignor {name!r} raised {error!r}")
            self.failure.__cause__ = error
        finally:
            self._done()

    def end(self, *, in_time: bool, limit: float) -> None:
        """Raise what it raised, or that it did not end."""
        if not in_time:
            text = f"partition assignor {self.asked!r} did not answer within {limit:g} s, half of max.poll.interval.ms"
            self.failure = KafkaTimeoutError(text)
        if self.failure is not None:
            self._question.fail(str(self.failure))
            raise self.failure


def _checked(user_data: bytes | None) -> bytes | None:
    if user_data is None or isinstance(user_data, (bytes, bytearray, memoryview)):
        return None if user_data is None else bytes(user_data)
    raise TypeError(f"subscription_user_data() must return bytes or None, not {type(user_data).__name__}")


def answer(question: AssignorQuestion, assignors: Mapping[str, Assignor], limit: float) -> None:
    """Ask the assignors; the core answers the group.

    Raises:
        ArgumentError: An assignor raised; that is the cause.
        KafkaTimeoutError: It did not answer within `limit` seconds.
    """
    done = threading.Event()
    work = _Work(question, assignors, done.set)
    work.start()
    try:
        in_time = done.wait(limit)
    except BaseException:
        question.fail("the poll that asked was interrupted")
        raise
    work.end(in_time=in_time, limit=limit)


async def answer_on_loop(question: AssignorQuestion, assignors: Mapping[str, Assignor], limit: float) -> None:
    """Ask as `answer` does, and leave the loop free."""
    # Programs without a loop do without the import, too.
    import asyncio

    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake() -> None:
        # The loop may be closed by now.
        if not loop.is_closed():
            loop.call_soon_threadsafe(done.set)

    work = _Work(question, assignors, wake)
    work.start()
    in_time = True
    try:
        await asyncio.wait_for(done.wait(), limit)
    except TimeoutError:
        in_time = False
    except BaseException:
        question.fail("the poll that asked was cancelled")
        raise
    work.end(in_time=in_time, limit=limit)
