"""Assignors of the caller's, on the embedded broker: who is asked what, and what becomes of those that fail."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from tests.python.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ottla._types import Partition
    from tests.python.conftest import Api


class Sized(ottla.Assignor):
    """Gives every partition to the member that tells the largest size."""

    name = "sized"

    def __init__(self, size: int, protocol: Any = "eager") -> None:
        self.size, self.protocol = size, protocol
        self.asked: list[tuple[list[ottla.GroupMember], dict[str, int]]] = []
        self.threads: set[str] = set()

    def assign(
        self, members: Sequence[ottla.GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Iterable[Partition]]:
        self.asked.append((list(members), dict(topics)))
        self.threads.add(threading.current_thread().name)
        largest = max(members, key=lambda member: int(member.user_data or b"0"))
        return {largest.member_id: [(topic, p) for topic, count in topics.items() for p in range(count)]}

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        return b"%d" % self.size if topics else None


class Failing(Sized):
    """Fails in some way, as long as it is told to."""

    def __init__(self, how: str) -> None:
        super().__init__(1)
        self.how = how
        self.released = threading.Event()

    def assign(
        self, members: Sequence[ottla.GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Iterable[Partition]]:
        good = super().assign(members, topics)
        if self.how == "raises":
            raise KeyError("no such rack")
        if self.how == "stuck":
            self.released.wait(PATIENCE)
        if self.how == "wrong":
            return {"nobody": [("t", 0)]}
        if self.how == "type":
            return [("t", 0)]  # type: ignore[return-value]
        return good

    def subscription_user_data(self, topics: Sequence[str]) -> bytes | None:
        if self.how == "told":
            raise ValueError("nothing to tell")
        if self.how == "text":
            return "text"  # type: ignore[return-value]
        return super().subscription_user_data(topics)


@contextlib.contextmanager
def polling(address: str, topic: str, assignor: Any, **options: Any) -> Iterator[Any]:
    """A consumer of the group, by a thread that polls it."""
    settings = {"heartbeat_interval_ms": 50, "auto_offset_reset": "earliest"} | options
    strategy = assignor if isinstance(assignor, (list, ottla.Assignor)) else [assignor]
    with ottla.Consumer(
        address, topics=topic, group_id=topic, partition_assignment_strategy=strategy, **settings
    ) as consumer:
        ended = threading.Event()

        def poll() -> None:
            while not ended.is_set():
                consumer.poll(0.05)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        try:
            yield consumer
        finally:
            ended.set()
            thread.join(PATIENCE)


def wait_until(happened: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_the_leader_assigns_by_what_members_tell(address: str, topic: str, protocol: str) -> None:
    small, large = Sized(1, protocol), Sized(2, protocol)
    both = [ottla.TopicPartition(topic, 0), ottla.TopicPartition(topic, 1)]
    with polling(address, topic, small, client_rack="r1") as one:
        wait_until(lambda: one.assignment() == both)
        with polling(address, topic, [large]) as two:
            wait_until(lambda: (one.assignment(), two.assignment()) == ([], both))
        wait_until(lambda: one.assignment() == both)
        members = {member.member_id: member for member in small.asked[-1][0]}
        assert small.asked[-1][1] == {topic: 2}
        assert [(member.user_data, member.rack, member.topics) for member in members.values()] == [
            (b"1", "r1", [topic])
        ]
    asked = [members for members, _ in small.asked + large.asked if len(members) == 2]
    assert {member.user_data for member in asked[0]} == {b"1", b"2"}
    owned = sorted(partition for member in asked[0] for partition in member.owned)
    # Who cooperates keeps its partitions while it joins: what moves is assigned by a second rebalance.
    assert owned == (both if protocol == "cooperative" else [])
    assert len(asked) >= (2 if protocol == "cooperative" else 1)
    assert small.threads == {"ottla-assignor"}


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("raises", errors.ArgumentError, r"'sized' raised KeyError\('no such rack'\)"),
        ("told", errors.ArgumentError, r"'sized' raised ValueError\('nothing to tell'\)"),
        ("text", errors.ArgumentError, "must return bytes or None, not str"),
        ("type", errors.ArgumentError, "'sized' raised"),
        ("wrong", errors.ArgumentError, '"sized" gives partitions to "nobody", which is no member'),
        ("stuck", errors.KafkaTimeoutError, "'sized' did not return within 0.25 s"),
    ],
)
def test_an_assignor_that_fails_is_named_by_the_poll_and_asked_again(
    api: Api, address: str, topic: str, how: str, kind: type[errors.KafkaError], said: str
) -> None:
    assignor = Failing(how)
    options: dict[str, Any] = {"max_poll_interval_ms": 500 if how == "stuck" else 300_000}
    with api.consumer(
        address, topics=topic, group_id=topic, partition_assignment_strategy=[assignor, "range"], **options
    ) as consumer:
        with pytest.raises(kind, match=said) as raised:
            poll_on(api, consumer)
        if how in {"raises", "told"}:
            assert isinstance(raised.value.__cause__, (KeyError, ValueError))
        assignor.how = "mended"
        end = time.monotonic() + PATIENCE
        while len(consumer.assignment()) < 2:
            assert time.monotonic() < end
            # A thread that starts late on a busy machine is too late for the shortest interval, too.
            with contextlib.suppress(errors.ArgumentError, kind):
                api(consumer.poll(0.1))
    assignor.released.set()


def poll_on(api: Api, consumer: Any) -> None:
    for _ in range(20):
        api(consumer.poll(1))


def test_a_group_takes_the_assignor_that_all_have(address: str, topic: str) -> None:
    mine = Sized(1)
    with (
        polling(address, topic, [mine, "range"]) as one,
        polling(address, topic, ["range"]) as two,
    ):
        wait_until(lambda: len(one.assignment()) == len(two.assignment()) == 1)


def test_settings_that_can_never_work(api: Api) -> None:
    def make(strategy: Any) -> None:
        with api.consumer("x:1", group_id="g", partition_assignment_strategy=strategy):
            pass

    class Named(Sized):
        def __init__(self, name: str, protocol: Any = "eager") -> None:
            super().__init__(1, protocol)
            self.name = name

    for strategy, said in [
        ([Named("range")], "needs a name of its own"),
        ([Named("")], "needs a name of its own"),
        ([Named("a"), Named("a")], "a is there twice"),
        ([Named("a", "lazy")], "eager or cooperative, and is 'lazy'|eager or cooperative, and is \"lazy\""),
        ([Named("a"), "rang"], '"rang" is unknown'),
        ([Named("a"), 5], "ottla.Assignor objects, and one is int"),
    ]:
        with pytest.raises(errors.ConfigError, match=f"partition_assignment_strategy: .*({said})"):
            make(strategy)
    make(Named("a"))
    make([Named("a"), "range,sticky"])
    with (
        pytest.raises(errors.ConfigError, match=r"not used with group\.protocol=consumer"),
        api.consumer("x:1", group_id="g", group_protocol="consumer", partition_assignment_strategy=Named("a")),
    ):
        pass
    with pytest.raises(TypeError, match="abstract"):
        ottla.Assignor()  # type: ignore[abstract]


def test_a_close_does_not_wait_for_an_assignor(address: str, topic: str) -> None:
    asked, ended = threading.Event(), threading.Event()

    class Slow(Sized):
        def assign(
            self, members: Sequence[ottla.GroupMember], topics: Mapping[str, int]
        ) -> Mapping[str, Iterable[Partition]]:
            asked.set()
            ended.wait(PATIENCE)
            return super().assign(members, topics)

    consumer = ottla.Consumer(address, topics=topic, group_id=topic, partition_assignment_strategy=Slow(1))

    def poll() -> None:
        with contextlib.suppress(errors.KafkaError):
            while True:
                consumer.poll(0.1)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    assert asked.wait(PATIENCE)
    # It would not end before the assignor does, which is told to after it.
    consumer.close(5)
    ended.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
