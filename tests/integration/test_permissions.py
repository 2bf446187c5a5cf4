"""What real Kafka, new and old, denies to our clients or slows down, and what they say and do then."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

import ottla
from ottla import errors
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.peers.base import DEADLINE
from tests.waiting import check_time, wait_until
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from tests.brokers.brokers import Cluster
    from tests.python.conftest import Api

pytestmark = [REAL, pytest.mark.each_api]

# Seconds that the verbs may take; a denial is told long before, since no waiting mends it.
VERB = 30.0
SOON = VERB / 3
TOPICS = ["seen", "written", "read", "hidden"]
# Of alice. Bob only sees `seen`, so that he may write nothing at all.
ACLS = [
    ("alice", AclOperation.DESCRIBE, "seen"),
    ("alice", AclOperation.WRITE, "written"),
    ("alice", AclOperation.READ, "read"),
    ("bob", AclOperation.DESCRIBE, "seen"),
]
# Types of resources, and operations, as ACLs number them.
GROUP, TRANSACTIONAL_ID = 3, 5
WRITE, DESCRIBE = 4, 8
# Bytes a second, and those of one record: each is more than a second's share.
RATE, RECORD = 20_000, 30_000


@pytest.fixture(scope="module", params=["4.4.0", pytest.param("2.8.2", marks=pytest.mark.nightly)])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker with ACLs, whose quotas look at the last two seconds."""
    options = {"version": request.param, "sasl": "plain", "acl": True, "config": {"quota.window.num": 2}}
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), **options) as cluster:
        root = AdminClient({"bootstrap.servers": cluster.st["bootstrap"]["PLAINTEXT"]})
        made = [NewTopic(name, 1, 1) for name in TOPICS]
        acls = [
            AclBinding(
                ResourceType.TOPIC,
                name,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for user, operation, name in ACLS
        ]
        # librdkafka has no ACLs of transactional ids.
        for kind in (GROUP, TRANSACTIONAL_ID):
            allow(cluster, "alice", kind, "seen", DESCRIBE)
        for future in [*root.create_topics(made).values(), *root.create_acls(acls).values()]:
            future.result(DEADLINE)
        with ottla.Admin(**user_of(cluster, "alice")) as admin:
            wait_until(lambda: set(admin.list_topics()) == {"seen", "written", "read"}, "the ACLs are in force")
        yield cluster


def allow(cluster: Cluster, user: str, kind: int, name: str, operation: int) -> None:
    acl = {"resource_type": kind, "resource_name": name, "resource_pattern_type": 3, "principal": f"User:{user}"}
    acl |= {"host": "*", "operation": operation, "permission_type": 3}
    with Connection(cluster.st["bootstrap"]["PLAINTEXT"]) as root:
        answer = root.ask("CreateAcls", 2, {"creations": [acl]})
    assert [each["error_code"] for each in answer["results"]] == [0]


def user_of(cluster: Cluster, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.st["bootstrap"]["SASL_PLAINTEXT"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_allow_plaintext": True,
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": f"{user}-secret",
        "default_api_timeout_ms": int(VERB * 1000),
    }


def denied(call: Callable[[], object], topic: str, calling: str, permission: str) -> None:
    """The call is refused soon, by an error that names what is denied, to whom, and which API was answered so."""
    begin = time.monotonic()
    with pytest.raises(errors.AuthorizationError) as caught:
        call()
    assert time.monotonic() - begin < SOON
    error = caught.value
    assert (error.topic, error.api, error.retriable) == (topic, calling, False)
    kind = "CLUSTER" if calling == "InitProducerId" else "TOPIC"
    assert error.name == f"{kind}_AUTHORIZATION_FAILED"
    said = str(error)
    for word in (topic, error.name, calling, f"an ACL that allows {permission}", "the principal"):
        assert word in said
    assert "-secret" not in said


def test_what_may_be_written_is_written(api: Api, guarded: Cluster) -> None:
    with api.producer(**user_of(guarded, "alice")) as producer:
        assert api.result(api(producer.send("written", b"v"))).offset >= 0


@pytest.mark.parametrize(
    ("user", "topic", "calling", "permission"),
    [
        ("alice", "hidden", "Metadata", "DESCRIBE on the topic"),
        ("alice", "seen", "Produce", "WRITE on the topic"),
        ("bob", "seen", "InitProducerId", "IDEMPOTENT_WRITE on the cluster"),
    ],
)
def test_a_producer_is_denied(api: Api, guarded: Cluster, user: str, topic: str, calling: str, permission: str) -> None:
    with api.producer(**user_of(guarded, user)) as producer:
        denied(lambda: api.result(api(producer.send(topic, b"v"))), topic, calling, permission)


def test_what_the_denial_of_idempotence_advises_leads_to_the_next_denial(api: Api, guarded: Cluster) -> None:
    with api.producer(**user_of(guarded, "bob"), enable_idempotence=False) as producer:
        denied(lambda: api.result(api(producer.send("seen", b"v"))), "seen", "Produce", "WRITE on the topic")


def test_a_consumer_is_denied(api: Api, guarded: Cluster) -> None:
    alice = user_of(guarded, "alice")
    for topic, calling, permission in [
        ("hidden", "Metadata", "DESCRIBE on the topic"),
        ("seen", "Fetch", "READ on the topic"),
    ]:
        with api.consumer(**alice) as consumer:
            consumer.assign([ottla.TopicPartition(topic, 0, 0)])
            denied(lambda consumer=consumer: api(consumer.poll(VERB)), topic, calling, permission)
    with api.consumer(**alice, topics=["hidden"]) as consumer:
        denied(lambda: api(consumer.poll(VERB)), "hidden", "Metadata", "DESCRIBE on the topic")
    with api.consumer(**alice) as consumer:
        denied(lambda: api(consumer.end_offsets([("hidden", 0)])), "hidden", "Metadata", "DESCRIBE on the topic")
        assert api(consumer.end_offsets([("seen", 0)])) == {ottla.TopicPartition("seen", 0): 0}


def test_an_admin_is_denied(api: Api, guarded: Cluster) -> None:
    with api.admin(**user_of(guarded, "alice")) as admin:
        assert set(api(admin.list_topics())) == {"seen", "written", "read"}
        for call, topic, calling, permission in [
            (lambda: admin.describe_topics(["hidden"]), "hidden", "Metadata", "DESCRIBE on the topic"),
            (lambda: admin.create_topics([ottla.NewTopic("n", 1, 1)]), "n", "CreateTopics", "CREATE on the topic"),
            (lambda: admin.delete_topics(["seen"]), "seen", "DeleteTopics", "DELETE on the topic"),
            (lambda: admin.describe_producers([("seen", 0)]), "seen", "DescribeProducers", "READ on the topic"),
        ]:
            denied(lambda call=call: api(call()), topic, calling, permission)


def denied_by_name(
    call: Callable[[], object],
    name: str,
    said_by: set[str],
    kind: str,
    operation: str,
    raises: type[errors.KafkaError] = errors.AuthorizationError,
) -> errors.KafkaError:
    """The call is refused soon; the error names the group or the transactional id, the broker, and the permission."""
    begin = time.monotonic()
    with pytest.raises(raises) as caught:
        call()
    assert time.monotonic() - begin < SOON
    error = caught.value
    assert (error.name, error.retriable) == (f"{kind}_AUTHORIZATION_FAILED", False)
    assert error.api in said_by
    what = "transactional id" if kind == "TRANSACTIONAL_ID" else "group"
    for word in (name, error.name, error.api, f"an ACL that allows {operation} on the {what}", "the principal"):
        assert word in str(error)
    assert error.broker
    assert f"broker {error.broker}" in str(error)
    assert "-secret" not in str(error)
    return error


def test_groups_are_denied(api: Api, guarded: Cluster) -> None:
    open_to_all = guarded.st["bootstrap"]["PLAINTEXT"]

    def is_made(group: str) -> bool:
        """Whether its first commit is taken: not while the coordinator still loads."""
        topics = [{"name": "seen", "partitions": [{"partition_index": 0, "committed_offset": 0}]}]
        commit = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        with Connection(open_to_all) as root:
            root.ask("FindCoordinator", 3, {"key_type": 0, "key": group})
            answer = root.ask("OffsetCommit", 8, commit)
        return all(part["error_code"] == 0 for topic in answer["topics"] for part in topic["partitions"])

    with api.admin(open_to_all) as admin:
        for group in ("seen", "hidden"):
            wait_until(lambda group=group: is_made(group), f"{group} is made")
        wait_until(
            lambda: {"hidden", "seen"} <= {each.group_id for each in api(admin.list_groups())}, "the groups are listed"
        )
    with api.admin(**user_of(guarded, "alice")) as admin:
        assert [each.group_id for each in api(admin.list_groups())] == ["seen"]
        assert api(admin.describe_groups("seen"))["seen"].state == "Empty"
        error = denied_by_name(
            lambda: api(admin.describe_groups(["seen", "hidden"])), "hidden", {"FindCoordinator"}, "GROUP", "DESCRIBE"
        )
        assert list(error.failures) == ["hidden"]


def test_transactions_are_denied(api: Api, guarded: Cluster) -> None:
    open_to_all = guarded.st["bootstrap"]["PLAINTEXT"]
    for transactional_id in ("seen", "hidden"):
        producer = Producer({"bootstrap.servers": open_to_all, "transactional.id": transactional_id})
        producer.init_transactions(DEADLINE)
    is_new = guarded.st["options"]["version"] == "4.4.0"
    with api.admin(**user_of(guarded, "alice")) as admin:
        if is_new:
            assert [each.transactional_id for each in api(admin.list_transactions())] == ["seen"]
            assert api(admin.describe_transactions("seen"))["seen"].state == "Empty"
            error = denied_by_name(
                lambda: api(admin.describe_transactions(["seen", "hidden"])),
                "hidden",
                {"FindCoordinator"},
                "TRANSACTIONAL_ID",
                "DESCRIBE",
            )
            assert list(error.failures) == ["hidden"]
        else:
            for call in (admin.list_transactions, lambda: admin.describe_transactions("seen")):
                with pytest.raises(errors.UnsupportedError, match=r"needs brokers of Kafka 3\.0"):
                    api(call())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_is_denied_its_group(api: Api, guarded: Cluster, protocol: str) -> None:
    if protocol == "consumer" and guarded.st["options"]["version"] != "4.4.0":
        protocol = "auto"
    joins = {"JoinGroup", "ConsumerGroupHeartbeat"}
    for group, said_by, operation in [("hidden", {"FindCoordinator"}, "DESCRIBE"), ("seen", joins, "READ")]:
        options = {**user_of(guarded, "alice"), "group_id": group, "group_protocol": protocol}
        with api.consumer(**options, topics="read") as consumer:
            denied_by_name(lambda consumer=consumer: api(consumer.poll(VERB)), group, said_by, "GROUP", operation)


def test_who_is_in_no_group_is_denied_its_offsets(api: Api, guarded: Cluster) -> None:
    for group, said_by, operation in [("hidden", {"FindCoordinator"}, "DESCRIBE"), ("seen", {"OffsetCommit"}, "READ")]:
        with api.consumer(**user_of(guarded, "alice"), group_id=group) as consumer:
            consumer.assign([ottla.TopicPartition("read", 0, 0)])
            denied_by_name(
                lambda consumer=consumer: api(consumer.commit({("read", 0): 0})), group, said_by, "GROUP", operation
            )


def test_a_transactional_producer_is_denied_its_id(api: Api, guarded: Cluster) -> None:
    for name, said_by, operation in [
        ("hidden", {"FindCoordinator"}, "DESCRIBE"),
        ("seen", {"InitProducerId"}, "WRITE"),
    ]:
        with api.producer(**user_of(guarded, "alice"), transactional_id=name) as producer:
            denied_by_name(
                lambda producer=producer: api(producer.init_transactions()),
                name,
                said_by,
                "TRANSACTIONAL_ID",
                operation,
            )


def test_a_transaction_is_denied_the_offsets_of_a_group(api: Api, guarded: Cluster) -> None:
    """It can be aborted, and the next one does without them."""
    allow(guarded, "alice", TRANSACTIONAL_ID, "mine", WRITE)
    with api.producer(**user_of(guarded, "alice"), transactional_id="mine") as producer:
        wait_until(lambda: is_ready(api, producer), "the ACL is in force")
        api(producer.begin_transaction())
        denied_by_name(
            lambda: api(producer.send_offsets({("read", 0): 1}, "seen")),
            "seen",
            {"AddOffsetsToTxn", "TxnOffsetCommit"},
            "GROUP",
            "READ",
            errors.TransactionAbortableError,
        )
        api(producer.abort_transaction())
        api(producer.begin_transaction())
        api(producer.send("written", b"v"))
        api(producer.commit_transaction())


def is_ready(api: Api, producer: Any) -> bool:
    try:
        api(producer.init_transactions())
    except errors.AuthorizationError:
        return False
    return True


class Answers(logging.Handler):
    """Notes how long each answer to an API took, and the pauses that brokers asked for, in seconds."""

    def __init__(self, api: str) -> None:
        super().__init__(logging.DEBUG)
        self.answered = re.compile(rf"responded to {api} \d+ in (\d+) us")
        self.asked = re.compile(rf"asked for a pause of (\d+) ms after {api} \(quota\)")
        self.took: list[float] = []
        self.pauses: list[float] = []
        # From when to when nothing may be asked. Two answers on their way at once ask for the same pause.
        self.silences: list[tuple[float, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if found := self.answered.search(said):
            self.took.append(int(found[1]) / 1e6)
        if found := self.asked.search(said):
            self.pauses.append(int(found[1]) / 1e3)
            self.silences.append((now := time.monotonic(), now + self.pauses[-1]))

    def silent_for(self, before: float) -> float:
        """How long the pauses that began before then last in all; what two have in common counts once."""
        total = last = 0.0
        for begin, end in self.silences:
            if begin < before:
                total += max(0.0, end - max(begin, last))
                last = max(last, end)
        return total

    def __enter__(self) -> Self:
        self.logger = logging.getLogger("ottla.connection")
        self.before = self.logger.level
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self)
        self.logger.setLevel(self.before)


def set_quota(cluster: Cluster, user: str, key: str) -> None:
    entity = [{"entity_type": "user", "entity_name": user}]
    entry = {"entity": entity, "ops": [{"key": key, "value": float(RATE), "remove": False}]}
    with Connection(cluster.st["bootstrap"]["PLAINTEXT"]) as root:
        answer = root.ask("AlterClientQuotas", 1, {"entries": [entry], "validate_only": False})
    assert [each["error_code"] for each in answer["entries"]] == [0]


def longest_pause(producer: ottla.Producer) -> float:
    """In whole milliseconds, as the log has it."""
    return round(producer.metrics().value("produce-throttle-time-max"))


def test_a_producer_keeps_the_pauses_of_its_quota(guarded: Cluster) -> None:
    """KIP-219: the answer comes at once, and the next request only when the pause is over."""
    set_quota(guarded, "alice", "producer_byte_rate")
    with Answers("Produce") as answers, ottla.Producer(**user_of(guarded, "alice"), linger_ms=0) as producer:
        deadline, sent, kept, pause, before = time.monotonic() + DEADLINE, 0, 0, 0.0, 0.0
        while kept < 2:
            check_time(deadline, "the quota is not in force")
            asked, now = len(answers.pauses), time.monotonic()
            producer.send("written", b"x" * RECORD).result(DEADLINE)
            sent, after = sent + 1, time.monotonic()
            wait_until(lambda sent=sent: len(answers.took) == sent, "the log tells of the answer")
            # The line of its pause comes after that of the answer.
            wait_until(
                lambda: longest_pause(producer) == round(1000 * max(answers.pauses, default=0)), "and of its pause"
            )
            if pause:
                assert after - before > 0.9 * pause
                assert answers.took[-1] < pause, "it was sent while the broker did not listen"
                kept += 1
            pause = answers.pauses[-1] if len(answers.pauses) > asked else 0.0
            before = now


@pytest.mark.timeout(300)
def test_a_consumer_keeps_the_pauses_of_its_quota(guarded: Cluster) -> None:
    count = 5
    with ottla.Producer(guarded.st["bootstrap"]["PLAINTEXT"]) as producer:
        for _ in range(count):
            producer.send("read", b"x" * RECORD).result(DEADLINE)
    set_quota(guarded, "alice", "consumer_byte_rate")
    options = {"max_partition_fetch_bytes": RECORD, "fetch_max_bytes": RECORD}
    with Answers("Fetch") as answers, ottla.Consumer(**user_of(guarded, "alice"), **options) as consumer:
        begin = time.monotonic()
        while len(answers.pauses) < 2:
            consumer.assign([ottla.TopicPartition("read", 0, 0)])
            read = 0
            while read < count:
                # How long a pause is depends on what alice read in the seconds before.
                due = DEADLINE + sum(answers.pauses)
                assert time.monotonic() - begin < due, f"{read} of {count} records came, {answers.pauses}"
                read += len(consumer.poll(1))
        pauses, took = list(answers.pauses), time.monotonic() - begin
        longest = consumer.metrics().value("fetch-throttle-time-max")
    # The last may go on, and one that was asked for together with it.
    assert took > 0.9 * answers.silent_for(answers.silences[-1][0] - 1)
    assert longest >= 0.9 * 1000 * max(pauses)
