"""What a task does to write exactly once, on real Kafka; without a Spark session."""

import uuid
from contextlib import closing

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from tests.brokers.running import running
from tests.integration.conftest import REAL, wait_for_markers
from tests.integration.peers.confluent import Confluent
from tests.waiting import wait_until
from tests.wire import Connection

import ottla
from ottla.errors import AuthorizationError, ConfigError, FencedError
from ottla.spark.write import transactions
from ottla.spark.write.exactly_once import ExactlyOnceError
from ottla.spark.write.options import WriteOptions
from ottla.spark.write.sending import send

from .tasks import inside

pytestmark = [REAL, pytest.mark.timeout(120)]

PARTITIONS = 4
# Types of resources and operations, as ACLs number them; librdkafka has no ACLs of transactional ids.
TRANSACTIONAL_ID, WRITE, PREFIXED = 5, 4, 4


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    # A coordinator looks for transactions that are open for too long every 10 s, if it is not told otherwise.
    config = {
        "auto.create.topics.enable": "false",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with running(tmp_path_factory.mktemp("kafka"), config=config, sasl="plain", acl=True) as cluster:
        yield cluster.st["bootstrap"]
    transactions._readers.close()


class Sink:
    """A new topic, written under an appId of its own."""

    def __init__(self, bootstrap):
        self.bootstrap, self.topic = bootstrap, f"once-{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap["PLAINTEXT"]})
        self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(30)
        with ottla.Admin(bootstrap["PLAINTEXT"]) as admin:
            wait_until(lambda: self.topic in admin.list_topics(), f"the broker knows {self.topic}")

    def write(self, given, shard=0, batch=0, query="q", columns=("value",), **options):
        """Write as a task of a stream does."""
        options = {"exactlyOnce": "true", "appId": self.topic, "shards": str(PARTITIONS), **options}
        options = {"kafka.bootstrap.servers": self.bootstrap["PLAINTEXT"], "topic": self.topic, **options}
        parsed = WriteOptions.parse({name: value for name, value in options.items() if value is not None})
        with inside(shard, batch, query):
            send(parsed, tuple((name, place) for place, name in enumerate(columns)), given)

    def committed(self):
        wait_for_markers(self.bootstrap["PLAINTEXT"], self.topic, PARTITIONS)
        messages = Confluent().consume_committed(self.bootstrap["PLAINTEXT"], self.topic, PARTITIONS)
        return sorted(message.value.decode() for message in messages)


@pytest.fixture
def sink(kafka):
    return Sink(kafka)


def rows(*values):
    return pa.RecordBatch.from_arrays([pa.array(values, pa.string())], ["value"])


def test_a_batch_is_written_once_however_often_it_is_replayed(sink):
    for batch in range(2):
        for _ in range(3):
            for shard in range(PARTITIONS):
                sink.write([rows(f"{batch}{shard}a"), rows(f"{batch}{shard}b")], shard, batch)
    assert sink.committed() == sorted(f"{b}{s}{x}" for b in range(2) for s in range(PARTITIONS) for x in "ab")


def test_what_a_task_wrote_before_it_failed_does_not_take_effect(sink):
    def failing():
        yield rows("a")
        raise RuntimeError("the query fails")

    with pytest.raises(RuntimeError, match="the query fails"):
        sink.write(failing())
    assert sink.committed() == []
    sink.write([rows("a"), rows("b")])
    assert sink.committed() == ["a", "b"]


def test_an_attempt_that_was_taken_for_dead_commits_nothing(sink):
    def overtaken():
        yield rows("first attempt")
        sink.write([rows("second attempt")])
        yield rows("first attempt goes on")

    with pytest.raises(
        FencedError, match="another attempt .* has taken over shard 0 of once-.* batch 0, or another write"
    ):
        sink.write(overtaken())
    assert sink.committed() == ["second attempt"]


def test_an_attempt_that_comes_late_takes_over_and_writes_nothing_twice(sink):
    def overtaken_in_the_end():
        yield rows("first attempt")
        with pytest.raises(RuntimeError, match="dies"):
            sink.write(dies())

    def dies():
        yield rows("second attempt")
        raise RuntimeError("dies")

    with pytest.raises(FencedError, match="another attempt of this task has taken over"):
        sink.write(overtaken_in_the_end())
    sink.write([rows("third attempt")])
    assert sink.committed() == ["third attempt"]


def test_rows_name_their_topics(sink):
    frame = pa.RecordBatch.from_pydict({"value": ["a", "b"], "topic": [sink.topic, sink.topic]})
    for _ in range(2):
        sink.write([frame], columns=("value", "topic"), topic=None, markerTopic=sink.topic)
    assert sink.committed() == ["a", "b"]


def test_versions_of_batches(sink):
    for version in (3, 3, 5):
        sink.write([rows(str(version))], batch=None, version=str(version))
    with pytest.raises(ExactlyOnceError, match="written batch 5 already, while option version is 4"):
        sink.write([rows("4")], batch=None, version="4")
    assert sink.committed() == ["3", "5"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"shards": "2"}, "written with shards=4, and now with shards=2"),
        ({"query": "other"}, "belongs to query q"),
        ({"batch": None, "version": "1"}, "belongs to query q"),
    ],
)
@pytest.mark.parametrize("shard", [0, 1])
def test_a_write_that_is_another_is_refused_by_each_task(sink, shard, change, why):
    """Shard 1 has no mark of its own yet."""
    sink.write([rows("a")])
    with pytest.raises(ExactlyOnceError, match=why):
        sink.write([rows("b")], shard, **{"batch": 1, **change})
    assert sink.committed() == ["a"]


def test_a_replay_that_is_divided_otherwise_is_refused(sink):
    sink.write([rows("a", "b")])
    with pytest.raises(ExactlyOnceError, match="replayed with 3 rows in shard 0 .*, which wrote 2"):
        sink.write([rows("a", "b"), rows("c")])
    assert sink.committed() == ["a", "b"]


def test_marks_that_brokers_have_forgotten_are_missed(sink):
    sink.write([rows("a")], batch=4, firstBatch="4")
    sink.admin.delete_consumer_groups([f"ottla-sink-{sink.topic}"])[f"ottla-sink-{sink.topic}"].result(30)
    with pytest.raises(ExactlyOnceError, match="Kafka knows nothing of .*, while its query is at batch 5"):
        sink.write([rows("a")], batch=5, firstBatch="4")
    assert sink.committed() == ["a"]


def test_a_group_of_somebody_else_is_left_alone(sink):
    group = {"group.id": f"ottla-sink-{sink.topic}", "bootstrap.servers": sink.bootstrap["PLAINTEXT"]}
    with closing(confluent_kafka.Consumer(group)) as other:
        other.commit(offsets=[confluent_kafka.TopicPartition(sink.topic, 0, 17)], asynchronous=False)
    with pytest.raises(ExactlyOnceError, match="holds offset 17 .* no write of ottla"):
        sink.write([rows("a")])
    assert sink.committed() == []


def test_more_shards_than_partitions_are_refused(sink):
    with pytest.raises(ExactlyOnceError, match="option shards is 5, but topic .* has 4 partitions, .* markerTopic"):
        sink.write([rows("a")], shards="5")


def test_a_batch_that_takes_longer_than_its_transaction_may_is_told_so(sink):
    def slow():
        yield rows("a")
        with ottla.Admin(sink.bootstrap["PLAINTEXT"]) as admin:
            name = f"ottla-sink-{sink.topic}-0"
            begun = lambda: admin.describe_transactions(name)[name].state  # noqa: E731
            wait_until(lambda: begun() != "Empty", "the transaction has begun")
            wait_until(lambda: begun() == "CompleteAbort", "the transaction is aborted")
        yield rows("b")

    with pytest.raises(
        FencedError, match=r"open for \d+ s, .* longer than kafka.transaction.timeout.ms \(1000\)"
    ) as told:
        sink.write(slow(), **{"kafka.transaction.timeout.ms": "1000", "kafka.linger.ms": "0"})
    assert "transaction.max.timeout.ms" in str(told.value)
    assert sink.committed() == []


def test_a_transaction_longer_than_brokers_allow_is_refused(sink):
    with pytest.raises(ConfigError, match="kafka.transaction.timeout.ms is 10000000, .* transaction.max.timeout.ms"):
        sink.write([rows("a")], **{"kafka.transaction.timeout.ms": "10000000"})


def allow(sink, kind, name, operation):
    if kind is TRANSACTIONAL_ID:
        acl = {"resource_type": kind, "resource_name": name, "resource_pattern_type": PREFIXED, "host": "*"}
        acl |= {"principal": "User:alice", "operation": WRITE, "permission_type": 3}
        with Connection(sink.bootstrap["PLAINTEXT"]) as root:
            assert root.ask("CreateAcls", 2, {"creations": [acl]})["results"][0]["error_code"] == 0
        return
    binding = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW)
    for future in sink.admin.create_acls([binding]).values():
        future.result(30)


def test_permissions_that_are_missing_are_named_until_all_are_there(sink):
    group = f"ottla-sink-{sink.topic}"
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="alice-secret";'
    alice = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    alice |= {"kafka.sasl.jaas.config": login, "kafka.sasl.allow.plaintext": "true"}
    alice |= {"kafka.bootstrap.servers": sink.bootstrap["SASL_PLAINTEXT"]}
    told = f"WRITE on transactional ids that begin with {group}-, READ on group {group}, and READ on topic {sink.topic}"

    def refusal():
        # At once: a write tries for 120 s what it may try again, which is as long as this test has.
        try:
            sink.write([rows("a")], **alice)
        except AuthorizationError as error:
            return str(error)
        return ""

    allow(sink, ResourceType.TOPIC, sink.topic, AclOperation.WRITE)
    for kind, name, operation, code in [
        (TRANSACTIONAL_ID, group, None, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        (ResourceType.GROUP, group, AclOperation.READ, "GROUP_AUTHORIZATION_FAILED"),
        (ResourceType.TOPIC, sink.topic, AclOperation.READ, "TOPIC_AUTHORIZATION_FAILED"),
    ]:
        # A broker learns of an ACL a little after it was made.
        wait_until(lambda code=code: code in refusal(), f"the write is refused by {code}")
        assert told in refusal()
        assert "alice-secret" not in refusal()
        allow(sink, kind, name, operation)
    wait_until(lambda: not refusal(), "the write is allowed")
    assert sink.committed() == ["a"]
