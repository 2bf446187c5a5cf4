"""Members that are killed repeat at most what `auto.commit.interval.ms` allows, and skip nothing, on real Kafka by both protocols; and
the judge finds members that are broken on purpose."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.kills import PARTITIONS, SESSION, TOPIC, Control, Flow, Life, judge, run
from tests.integration.peers.java import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    # What became of the members of each group, and how long commits took meanwhile.
    Runs = tuple[dict[str, Future[list[Life]]], Control]

BEAT = 300
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": str(BEAT),
    "group.consumer.heartbeat.interval.ms": str(BEAT),
    "group.consumer.min.session.timeout.ms": str(int(SESSION * 1000)),
    "group.consumer.session.timeout.ms": str(int(SESSION * 1000)),
}
CLASSIC: dict[str, Any] = {"session_timeout_ms": int(SESSION * 1000), "heartbeat_interval_ms": BEAT}
# The groups, and how they are run.
HONEST: dict[str, dict[str, Any]] = {
    "classic": {"kills": 3, "group_protocol": "classic", **CLASSIC},
    "consumer": {"kills": 3, "group_protocol": "consumer"},
}
# Those whose members are broken, and what the judge says of them. What they repeat is much older than a busy broker could explain.
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    # They repeat what they were given before the second one came, too.
    "never": ({"kills": 1, "peace": 6.0, "enable_auto_commit": False, **CLASSIC}, "given by never"),
    "seldom": ({"kills": 1, "peace": 6.0, "auto_commit_interval_ms": 60_000, **CLASSIC}, "are allowed"),
    "ahead": ({"kills": 1, "ahead": 50, **CLASSIC}, "are skipped"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """All groups at once, since they wait for sessions most of the time."""
    groups = HONEST | {group: options for group, (options, _) in BROKEN.items()}
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=VERSION, config=BROKER) as cluster:
        bootstrap = str(cluster.st["bootstrap"]["PLAINTEXT"])
        with ottla.Admin(bootstrap) as admin:
            admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, 1)])
        with Control(bootstrap) as control, Flow(bootstrap), ThreadPoolExecutor(len(groups)) as pool:
            begun = {group: pool.submit(run, bootstrap, group, **options) for group, options in groups.items()}
            for each in begun.values():
                each.exception()
        yield begun, control


@REAL
@pytest.mark.parametrize("group", HONEST)
def test_killed_members_repeat_what_the_commit_interval_allows(runs: Runs, group: str) -> None:
    begun, control = runs
    lives = begun[group].result()
    assert sum(life.killed is not None for life in lives) == HONEST[group]["kills"]
    said = judge(lives, control)
    print(f"{group}: {said}")
    # At this pace somebody has been given something since its last commit.
    assert ", 0 of them twice" not in said, said


@REAL
@pytest.mark.parametrize(("group", "said"), [(group, said) for group, (_, said) in BROKEN.items()])
def test_members_that_are_broken_on_purpose_are_found(runs: Runs, group: str, said: str) -> None:
    begun, control = runs
    with pytest.raises(AssertionError, match=said) as found:
        judge(begun[group].result(), control)
    print(f"{group}: {found.value}")


def life(name: str, *polls: tuple[float, list[int]], killed: float | None = None) -> Life:
    """One that read partition 0."""
    return Life(name, [(at, [(0, offset) for offset in offsets]) for at, offsets in polls], killed=killed)


# Polls ten times in a second until it is killed, and is given a record each time.
STEADY = [(n / 10, [n]) for n in range(50)]


def test_what_the_interval_allows_passes() -> None:
    first = life("a", *STEADY, killed=5.0)
    assert "51 records, 0 of them twice" in judge([first, life("b", (9, [50]))])
    assert "52 records, 10 of them twice" in judge([first, life("b", (9, list(range(40, 52))))])
    # It had no time for a commit while it slept.
    late = life("a", (0, [0]), (2, [1]), (4.9, [2]), killed=5.0)
    judge([late, life("b", (9, [1, 2, 3]))])


@pytest.mark.parametrize(
    ("second", "killed", "said"),
    [
        (life("b", (9, list(range(35, 52)))), 5.0, r"1.50 s before the kill, of which 1.30 s are allowed"),
        (life("b", (9, [51, 52])), 5.0, "1 records are skipped, such as 50"),
        (life("b", (9, [49, 50])), None, "though nobody was killed"),
        (life("b", (9, [50]), (10, [50]), killed=11.0), 5.0, "which is the same"),
    ],
)
def test_each_fault_is_found(second: Life, killed: float | None, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        judge([life("a", *STEADY, killed=killed), second])


def test_a_member_that_the_group_gave_up_says_so() -> None:
    lost = life("a", *STEADY)
    lost.lost.append(4.0)
    with pytest.raises(AssertionError, match="too busy"):
        judge([lost])
