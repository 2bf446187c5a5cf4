"""What a client may get wrong about transactions, frame by frame: scripts whose answers real Kafka and the embedded broker share.

A script plays against any broker and gives what it was told. Producer ids are told in the order in which they came up,
so that two brokers' answers can be compared.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ottla import protocol
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    19: "NOT_ENOUGH_REPLICAS",
    22: "ILLEGAL_GENERATION",
    23: "INCONSISTENT_GROUP_PROTOCOL",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    27: "REBALANCE_IN_PROGRESS",
    35: "UNSUPPORTED_VERSION",
    40: "INVALID_CONFIG",
    42: "INVALID_REQUEST",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    55: "OPERATION_NOT_ATTEMPTED",
    59: "UNKNOWN_PRODUCER_ID",
    68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND",
    79: "MEMBER_ID_REQUIRED",
    82: "FENCED_INSTANCE_ID",
    86: "GROUP_SUBSCRIBED_TO_TOPIC",
    88: "UNSTABLE_OFFSET_COMMIT",
    90: "PRODUCER_FENCED",
    100: "UNKNOWN_TOPIC_ID",
    105: "TRANSACTIONAL_ID_NOT_FOUND",
    110: "FENCED_MEMBER_EPOCH",
    111: "UNRELEASED_INSTANCE_ID",
    112: "UNSUPPORTED_ASSIGNOR",
    113: "STALE_MEMBER_EPOCH",
    120: "TRANSACTION_ABORTABLE",
    128: "INVALID_REGULAR_EXPRESSION",
    87: "INVALID_RECORD",
}
CONCURRENT = {"CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}
PATIENCE = 20.0


def named(code: int) -> str:
    return NAMES.get(code, str(code))


class Stage:
    """A connection to a broker of one node, a transactional id, and a topic of two partitions, both new."""

    def __init__(self, address: str, topic: str, transactional_id: str, group: str, produce_version: int) -> None:
        self.wire = Connection(address)
        self.topic, self.id, self.group = topic, transactional_id, group
        self.produce_version = produce_version
        self.producers: dict[int, str] = {-1: "none"}
        self.told: list[Any] = []
        self.reach()
        self.find(0, group)
        self.find(1, transactional_id)
        self.load()

    def reach(self) -> None:
        """Wait until the broker leads the topic, of which it hears from the controller."""
        asked = [{"partition_index": i, "current_leader_epoch": -1, "timestamp": -1} for i in range(2)]
        topics = [{"name": self.topic, "partitions": asked}]
        message = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        for _ in patiently():
            partitions = self.wire.ask("ListOffsets", 7, message)["topics"][0]["partitions"]
            if all(it["error_code"] == 0 for it in partitions):
                return
        raise AssertionError(f"no leader of {self.topic}: {partitions}")

    def find(self, kind: int, key: str) -> None:
        """Have the coordinator's topic made."""
        for _ in patiently():
            answer = self.wire.ask("FindCoordinator", 3, {"key_type": kind, "key": key})
            if answer["error_code"] == 0:
                return
        raise AssertionError(f"no coordinator for {key}: {answer}")

    def load(self) -> None:
        """Wait until the coordinators have loaded the partitions that they lead, which they are named for before."""
        groups = {"groups": [{"group_id": self.group, "topics": None}], "require_stable": False}
        transactions = {"transactional_ids": [self.id]}
        for _ in patiently():
            codes = [
                self.wire.ask("OffsetFetch", 8, groups)["groups"][0]["error_code"],
                self.wire.ask("DescribeTransactions", 0, transactions)["transaction_states"][0]["error_code"],
            ]
            if not CONCURRENT & set(map(named, codes)):
                return
        raise AssertionError(f"the coordinators do not load: {codes}")

    def tell(self, *what: Any) -> None:
        self.told.append(what)

    def name(self, producer: int) -> str:
        return self.producers.setdefault(producer, f"producer {len(self.producers)}")

    def ready(self, ask: Callable[[], Any], code: Callable[[Any], str]) -> Any:
        """The answer once the transaction before has ended."""
        for _ in patiently():
            answer = ask()
            if code(answer) not in CONCURRENT:
                return answer
        raise AssertionError(f"the transaction before does not end: {answer}")

    def init(
        self,
        *,
        version: int = 5,
        timeout: int = 60_000,
        expected: tuple[int, int] = (-1, -1),
        wait: bool = True,
        **more: Any,
    ) -> tuple[int, int]:
        message = {"transactional_id": more.pop("id", self.id), "transaction_timeout_ms": timeout}
        if version >= 3:
            message |= {"producer_id": expected[0], "producer_epoch": expected[1]}

        def ask() -> Any:
            return self.wire.ask("InitProducerId", version, message | more)

        answer = self.ready(ask, lambda it: named(it["error_code"])) if wait else ask()
        more_told = [
            (self.name(answer[f"{o}_producer_id"]), answer[f"{o}_producer_epoch"])
            for o in ("ongoing_txn",)
            if version >= 6
        ]
        self.tell(
            "init", named(answer["error_code"]), self.name(answer["producer_id"]), answer["producer_epoch"], *more_told
        )
        return answer["producer_id"], answer["producer_epoch"]

    def add(
        self, producer: tuple[int, int], *partitions: int, version: int = 3, wait: bool = True, **more: Any
    ) -> None:
        topics = [{"name": more.get("topic", self.topic), "partitions": list(partitions)}]
        message = {
            "v3_and_below_transactional_id": more.get("id", self.id),
            "v3_and_below_producer_id": producer[0],
            "v3_and_below_producer_epoch": producer[1],
            "v3_and_below_topics": topics,
        }

        def ask() -> Any:
            return self.wire.ask("AddPartitionsToTxn", version, message)

        def codes(answer: Any) -> list[str]:
            topics = answer["results_by_topic_v3_and_below"]
            return [named(p["partition_error_code"]) for t in topics for p in t["results_by_partition"]]

        answer = self.ready(ask, lambda it: codes(it)[0]) if wait else ask()
        # Which of a topic's partitions is told first is left to chance.
        self.tell("add", *sorted(codes(answer)))

    def verify(self, producer: tuple[int, int], *partitions: int, only: bool = True, version: int = 5) -> None:
        transaction = {
            "transactional_id": self.id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "verify_only": only,
            "topics": [{"name": self.topic, "partitions": list(partitions)}],
        }
        answer = self.wire.ask("AddPartitionsToTxn", version, {"transactions": [transaction]})
        codes = [
            named(partition["partition_error_code"])
            for result in answer["results_by_transaction"]
            for topic in result["topic_results"]
            for partition in topic["results_by_partition"]
        ]
        self.tell("verify", named(answer["error_code"]), *sorted(codes))

    def produce(
        self,
        producer: tuple[int, int],
        sequence: int,
        partition: int = 0,
        *,
        wait: bool = True,
        transactional: bool = True,
        **more: Any,
    ) -> None:
        version = more.get("version", self.produce_version)
        records = protocol.encode_records(
            [protocol.Record(offset=0, timestamp=int(time.time() * 1000), key=b"k", value=b"v")],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=transactional,
        )
        topic: dict[str, Any] = {"partition_data": [{"index": partition, "records": records}], "name": self.topic}
        message = {
            "transactional_id": more.get("id", self.id),
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [topic],
        }

        def ask() -> Any:
            answer = self.wire.ask("Produce", version, message)
            return answer["responses"][0]["partition_responses"][0]

        answer = self.ready(ask, lambda it: named(it["error_code"])) if wait else ask()
        self.tell("produce", named(answer["error_code"]), answer["base_offset"])

    def add_offsets(self, producer: tuple[int, int], *, version: int = 3, wait: bool = True) -> None:
        message = {
            "transactional_id": self.id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "group_id": self.group,
        }

        def ask() -> Any:
            return self.wire.ask("AddOffsetsToTxn", version, message)

        answer = self.ready(ask, lambda it: named(it["error_code"])) if wait else ask()
        self.tell("add offsets", named(answer["error_code"]))

    def commit_offset(
        self, producer: tuple[int, int], offset: int, *, version: int = 3, wait: bool = True, **more: Any
    ) -> None:
        message = {
            "transactional_id": self.id,
            "group_id": self.group,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "topics": [
                {
                    "name": self.topic,
                    "partitions": [
                        {
                            "partition_index": more.pop("partition", 0),
                            "committed_offset": offset,
                            "committed_metadata": "m",
                        }
                    ],
                }
            ],
        }
        if version >= 3:
            message |= {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None} | more

        def ask() -> Any:
            return self.wire.ask("TxnOffsetCommit", version, message)["topics"][0]["partitions"][0]["error_code"]

        answer = self.ready(ask, named) if wait else ask()
        self.tell("commit offset", named(answer))

    def offset(self, *, stable: bool) -> None:
        topics = [{"name": self.topic, "partition_indexes": [0]}]
        message = {"groups": [{"group_id": self.group, "topics": topics}], "require_stable": stable}
        answer = self.wire.ask("OffsetFetch", 8, message)["groups"][0]["topics"][0]["partitions"][0]
        self.tell("offset", named(answer["error_code"]), answer["committed_offset"], answer["metadata"])

    def end(
        self, producer: tuple[int, int], *, commit: bool = True, version: int = 3, wait: bool = False, **more: Any
    ) -> tuple[int, int]:
        message = {
            "transactional_id": more.get("id", self.id),
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "committed": commit,
        }

        def ask() -> Any:
            return self.wire.ask("EndTxn", version, message)

        answer = self.ready(ask, lambda it: named(it["error_code"])) if wait else ask()
        if version < 5:
            self.tell("end", named(answer["error_code"]))
            return producer
        self.tell("end", named(answer["error_code"]), self.name(answer["producer_id"]), answer["producer_epoch"])
        return answer["producer_id"], answer["producer_epoch"]

    def settled(self, state: str) -> None:
        """What DescribeTransactions says once this state is reached."""
        for _ in patiently():
            answer = self.wire.ask("DescribeTransactions", 0, {"transactional_ids": [self.id]})["transaction_states"][0]
            if answer["transaction_state"] == state:
                break
        topics = {
            ("offsets" if t["topic"] == "__consumer_offsets" else "t"): sorted(t["partitions"])
            if t["topic"] == self.topic
            else []
            for t in answer["topics"]
        }
        self.tell(
            "state",
            named(answer["error_code"]),
            answer["transaction_state"],
            answer["transaction_timeout_ms"],
            # Where there is no transactional id, 0 stands in the field of the producer's, which the first producer has, too.
            answer["producer_id"] if answer["error_code"] else self.name(answer["producer_id"]),
            answer["producer_epoch"],
            "begun" if answer["transaction_start_time_ms"] > 0 else answer["transaction_start_time_ms"],
            topics,
        )

    def listed(self, **filters: Any) -> None:
        message = {
            "state_filters": [],
            "producer_id_filters": [],
            "duration_filter": -1,
            "transactional_id_pattern": None,
        }
        answer = self.wire.ask("ListTransactions", 2, message | filters)
        found = [
            (self.name(it["producer_id"]), it["transaction_state"])
            for it in answer["transaction_states"]
            if it["transactional_id"] == self.id
        ]
        self.tell("list", named(answer["error_code"]), answer["unknown_state_filters"], found)

    def ends(self, partition: int = 0) -> None:
        """The end of a partition for who reads all, and for who reads what is committed."""
        ends = []
        for isolation in (0, 1):
            partitions = [{"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}]
            message = {
                "replica_id": -1,
                "isolation_level": isolation,
                "topics": [{"name": self.topic, "partitions": partitions}],
            }
            answer = self.wire.ask("ListOffsets", 7, message)["topics"][0]["partitions"][0]
            ends.append(answer["offset"])
        self.tell("ends", *ends)

    def read(self, partition: int = 0, isolation: int = 1) -> None:
        """What a Fetch from the beginning gives."""
        partitions = [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        message = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "isolation_level": isolation,
            "topics": [{"topic": self.topic, "partitions": partitions}],
        }
        answer = self.wire.ask("Fetch", 12, message)["responses"][0]["partitions"][0]
        batches = [
            (b.base_offset, b.last_offset, self.name(b.producer_id), b.producer_epoch, b.transactional, b.control)
            for b in protocol.decode_records(answer["records"] or b"")
        ]
        aborted = answer["aborted_transactions"]
        aborted = aborted and sorted((self.name(it["producer_id"]), it["first_offset"]) for it in aborted)
        self.tell("read", answer["high_watermark"], answer["last_stable_offset"], batches, aborted)

    def producing(self, partition: int = 0) -> None:
        topics = [{"name": self.topic, "partition_indexes": [partition]}]
        answer = self.wire.ask("DescribeProducers", 0, {"topics": topics})["topics"][0]["partitions"][0]
        states = [
            (
                self.name(it["producer_id"]),
                it["producer_epoch"],
                it["last_sequence"],
                it["current_txn_start_offset"],
                it["coordinator_epoch"],
            )
            for it in answer["active_producers"]
        ]
        self.tell("producers", named(answer["error_code"]), states)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.__exit__()


def patiently() -> Any:
    end = time.monotonic() + PATIENCE
    pause = 0.001
    while time.monotonic() < end:
        yield
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


# Protocol of before KIP-890: partitions are added first, and the epoch stays.


def commits_and_aborts(t: Stage) -> None:
    p = t.init(version=0)
    t.settled("Empty")
    t.produce(p, 0, wait=False)
    t.add(p, 0, 1)
    t.add(p, 0)
    t.settled("Ongoing")
    t.produce(p, 0)
    t.produce(p, 1)
    t.produce(p, 0, 1)
    t.producing()
    t.ends()
    t.read()
    t.read(isolation=0)
    t.end(p)
    t.settled("CompleteCommit")
    t.end(p)
    t.end(p, commit=False)
    t.ends()
    t.read()
    t.producing()
    t.add(p, 0)
    t.produce(p, 2)
    t.produce(p, 3, transactional=False, wait=False)
    t.end(p, commit=False)
    t.settled("CompleteAbort")
    t.end(p, commit=False)
    t.end(p)
    t.ends()
    t.read()
    t.produce(p, 3, wait=False)
    t.produce(p, 3, transactional=False, wait=False)


def unknown_ids_and_wrong_epochs(t: Stage) -> None:
    for version in range(6):
        t.init(version=version, id="", wait=False)
    t.add((7, 0), 0, wait=False)
    t.end((7, 0))
    t.add_offsets((7, 0), wait=False)
    t.commit_offset((7, 0), 5, wait=False)
    t.produce((7, 0), 0, wait=False)
    # An id that is not known is in no state.
    t.settled("")
    p = t.init()
    for version in range(4):
        t.add((p[0] + 1_000_000, p[1]), 0, version=version, wait=False)
        t.add((p[0], p[1] + 1), 0, version=version, wait=False)
        t.add((p[0], -1), 0, version=version, wait=False)
        t.end((p[0] + 1_000_000, p[1]), version=version)
        t.end((p[0], p[1] + 1), version=version)
        t.end((p[0], -1), version=version)
        t.add_offsets((p[0] + 1_000_000, p[1]), version=version, wait=False)
        t.add_offsets((p[0], p[1] + 1), version=version, wait=False)
    for version in range(4, 6):
        t.end((p[0] + 1_000_000, p[1]), version=version)
        t.end((p[0], p[1] + 1), version=version)
    t.add_offsets((p[0], p[1] + 1), version=4, wait=False)
    t.end(p)
    t.end(p, commit=False)
    t.end(p, commit=True, version=5)
    t.add(p, 0, topic="no-such-topic", wait=False)
    t.add(p, 0, 9, wait=False)
    t.add(p, 0, id="", wait=False)
    t.end(p, id="")
    t.produce((p[0], p[1] + 1), 0, wait=False)
    t.produce((p[0] + 1_000_000, p[1]), 0, wait=False)
    t.produce(p, 0, id=None, wait=False)
    t.produce(p, 0, id="another", wait=False)
    t.settled("Empty")


def timeouts_are_bounded(t: Stage) -> None:
    for timeout in (0, -1, 900_001):
        t.init(timeout=timeout, wait=False)
    t.init(timeout=900_000)
    t.init(timeout=1)


def a_second_producer_fences_the_first(t: Stage) -> None:
    first = t.init(version=2)
    t.add(first, 0)
    t.produce(first, 0)
    t.init(version=2, wait=False)
    second = t.init(version=2)
    t.settled("Empty")
    t.produce(first, 1, wait=False)
    for version in range(5):
        t.end(first, version=version)
    t.end(first, version=5)
    for version in range(4):
        t.add(first, 0, version=version, wait=False)
        t.add_offsets(first, version=version, wait=False)
        t.commit_offset(first, 5, version=version, wait=False)
    t.add_offsets(first, version=4, wait=False)
    t.read()
    t.add(second, 0)
    t.produce(second, 0)
    t.produce(first, 1, wait=False)
    t.end(second)
    t.settled("CompleteCommit")
    t.read()
    t.producing()


def epochs_are_bumped_by_their_owner(t: Stage) -> None:
    first = t.init(version=3)
    second = t.init(version=3, expected=first)
    t.init(version=3, expected=first)
    third = t.init(version=3, expected=second)
    t.init(version=3, expected=first)
    t.init(version=4, expected=first)
    t.init(version=4, expected=(third[0] + 1_000_000, 0))
    t.init(version=4, expected=(third[0], third[1] + 1))
    fourth = t.init(version=4)
    t.init(version=4, expected=third)
    t.init(version=4, expected=fourth)


def an_ongoing_transaction_is_taken_over(t: Stage) -> None:
    first = t.init(version=4)
    t.add(first, 0)
    t.produce(first, 0)
    t.init(version=4, expected=first, wait=False)
    t.init(version=4, expected=first)
    t.settled("Empty")
    t.read()


def partitions_must_be_added(t: Stage) -> None:
    p = t.init()
    t.add(p, 0)
    for version in (3, 10, 11):
        t.produce(p, 0, 1, version=version, wait=False)
    t.verify(p, 0, 1)
    t.verify(p, 1, only=False)
    t.verify(p, 0, 1)
    t.verify((p[0], p[1] + 1), 0)
    t.verify((p[0] + 1_000_000, p[1]), 0)
    t.produce(p, 0, 1)
    t.produce(p, 5, 1, wait=False)
    t.produce(p, 0, 1, wait=False)
    t.end(p)
    t.settled("CompleteCommit")
    t.verify(p, 0)
    t.ends(1)


def offsets_go_with_the_transaction(t: Stage) -> None:
    p = t.init()
    for version in range(5):
        t.commit_offset(p, 5, version=version, wait=False)
    t.add_offsets(p)
    t.commit_offset(p, 5)
    t.commit_offset(p, 5, partition=9)
    t.commit_offset(p, 5, generation_id_or_member_epoch=3, member_id="nobody")
    t.commit_offset(p, 5, generation_id_or_member_epoch=3)
    t.commit_offset(p, 5, generation_id_or_member_epoch=-1, member_id="nobody")
    t.settled("Ongoing")
    t.offset(stable=False)
    t.offset(stable=True)
    t.end(p, commit=False)
    t.settled("CompleteAbort")
    t.offset(stable=False)
    t.offset(stable=True)
    t.commit_offset(p, 6, wait=False)
    t.add_offsets(p)
    t.commit_offset(p, 6, version=2)
    t.commit_offset(p, 7, version=0)
    t.end(p)
    t.settled("CompleteCommit")
    t.offset(stable=True)


# With KIP-890: brokers add partitions by themselves, and each transaction has an epoch of its own.


def each_transaction_has_an_epoch(t: Stage) -> None:
    p = t.init()
    t.produce(p, 0, version=12)
    t.produce(p, 1, version=12)
    t.produce(p, 0, 1, version=12)
    t.settled("Ongoing")
    after = t.end(p, version=5)
    t.settled("CompleteCommit")
    t.end(p, version=5)
    t.end(p, commit=False, version=5)
    t.end(after, version=5)
    t.settled("CompleteCommit")
    t.producing()
    t.read()
    t.produce(p, 2, version=12, wait=False)
    t.produce(after, 2, version=12, wait=False)
    t.produce(after, 0, version=12)
    last = t.end(after, commit=False, version=5)
    t.settled("CompleteAbort")
    t.end(after, commit=False, version=5)
    t.end(after, commit=True, version=5)
    t.end(last, commit=True, version=5)
    t.end(last, commit=False, version=5)
    t.settled("CompleteAbort")
    t.read()
    t.producing()
    t.produce(last, 0, version=12, wait=False)


def an_empty_transaction_can_be_aborted(t: Stage) -> None:
    p = t.init()
    t.end(p, version=5)
    p = t.end(p, commit=False, version=5)
    t.settled("CompleteAbort")
    t.produce(p, 0, version=12)
    t.end(p, version=5)
    t.settled("CompleteCommit")
    t.read()


def a_second_producer_fences_the_first_of_the_new_protocol(t: Stage) -> None:
    first = t.init()
    t.produce(first, 0, version=12)
    t.init(wait=False)
    second = t.init()
    t.settled("Empty")
    t.produce(first, 1, version=12, wait=False)
    t.end(first, version=5)
    t.produce(second, 0, version=12)
    t.end(second, version=5)
    t.settled("CompleteCommit")
    t.read()
    t.producing()


def offsets_of_the_new_protocol(t: Stage) -> None:
    p = t.init()
    t.commit_offset(p, 5, version=5)
    t.settled("Ongoing")
    t.offset(stable=True)
    after = t.end(p, version=5)
    t.settled("CompleteCommit")
    t.offset(stable=True)
    t.commit_offset(p, 6, version=5, wait=False)
    t.commit_offset(after, 6, version=5)
    t.end(after, commit=False, version=5)
    t.settled("CompleteAbort")
    t.offset(stable=True)


def a_transaction_times_out(t: Stage) -> None:
    p = t.init(timeout=1000)
    t.produce(p, 0, version=12)
    t.settled("CompleteAbort")
    t.read()
    t.end(p, version=5)
    t.end(p, version=4)
    t.end(p, version=1)
    t.produce(p, 1, version=12, wait=False)
    t.init(expected=p)
    t.init()


def transactions_are_listed(t: Stage) -> None:
    t.listed()
    p = t.init()
    t.listed()
    t.listed(state_filters=["Empty", "Nonsense"])
    t.listed(state_filters=["Ongoing"])
    t.add(p, 0)
    t.listed(state_filters=["Ongoing"])
    t.listed(producer_id_filters=[p[0]])
    t.listed(producer_id_filters=[p[0] + 1_000_000])
    t.listed(duration_filter=1_000_000)
    time.sleep(0.01)
    t.listed(duration_filter=0)
    t.listed(transactional_id_pattern="scr.*")
    t.listed(transactional_id_pattern="nothing.*")
    t.listed(transactional_id_pattern="(")
    t.producing(9)


# KIP-939, which brokers offer under unstable versions.


def two_phases(t: Stage) -> None:
    p = t.init(version=6, enable2_pc=True, keep_prepared_txn=False, timeout=5000)
    t.settled("Empty")
    t.produce(p, 0, version=12)
    t.end(p, version=5)
    t.settled("CompleteCommit")


# Kafka 4.4 refuses it, and has the fields for it.


def a_prepared_transaction_is_kept(t: Stage) -> None:
    p = t.init(version=6, enable2_pc=True, keep_prepared_txn=False)
    t.produce(p, 0, version=12)
    q = t.init(version=6, enable2_pc=True, keep_prepared_txn=True, wait=False)
    t.settled("Ongoing")
    t.end(q if q[0] >= 0 else p, version=5)
    t.settled("CompleteCommit")


SCRIPTS = [
    commits_and_aborts,
    unknown_ids_and_wrong_epochs,
    timeouts_are_bounded,
    a_second_producer_fences_the_first,
    epochs_are_bumped_by_their_owner,
    an_ongoing_transaction_is_taken_over,
    partitions_must_be_added,
    offsets_go_with_the_transaction,
    each_transaction_has_an_epoch,
    an_empty_transaction_can_be_aborted,
    a_second_producer_fences_the_first_of_the_new_protocol,
    offsets_of_the_new_protocol,
    a_transaction_times_out,
    transactions_are_listed,
    two_phases,
]
