"""Streams notice that a topic was made anew, or a log cut, between two of their batches, though the offsets fit."""

import json
import time
import uuid
import warnings

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from tests.waiting import wait_for_end

import ottla
from ottla.spark import stream_kafka
from ottla.spark.plan.planner import DataLossError, DataLossWarning, Planner
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.plan.tasks import split
from ottla.spark.plan.topic_history import TopicHistory
from ottla.spark.plan.topic_history_file import TopicHistoryFile
from ottla.spark.read import client_pool, foreach_batch, kafka_log
from ottla.spark.read.schema import layout, schema
from ottla.spark.read.stream import UnlimitedStreamReader
from ottla.spark.shared.ranges import Range, Seen
from ottla.testing import Broker

from .conftest import done
from .starts import begun
from .test_planner import DictLog

pytestmark = pytest.mark.timeout(180)

AT = ("t", 0)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A look for the last record ends as soon as it is found: on a busy machine that takes longer than a stream would wait."""
    monkeypatch.setattr(kafka_log, "LOOKING", 30.0)


def options(bootstrap="h:1", **given):
    return ReadOptions.parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "t", **given})


def reader(checked):
    """What a query's process has, and its tasks."""
    return UnlimitedStreamReader(checked, layout(checked, schema(checked, {}), {}))


def values(made, start, end):
    parts = made.partitions(start, end)
    return [value for part in parts for batch in made.read(part) for value in batch.column("value").to_pylist()]


def made_anew(bootstrap, topic="t"):
    """Another topic of the same name. Gives the ids of both."""
    with ottla.Admin(bootstrap) as admin:
        (was,) = admin.describe_topics([topic]).values()
        admin.delete_topics([topic])
        admin.create_topics([ottla.NewTopic(topic, partitions=1)])
        (now,) = admin.describe_topics([topic]).values()
    return was.id, now.id


def write(bootstrap, *sent, **properties):
    with ottla.Producer(bootstrap, **properties) as producer:
        for value in sent:
            producer.send("t", value, partition=0).result(30)


def await_replicas(cluster):
    """Until both nodes have all records."""
    end = time.monotonic() + 30
    while len(cluster.partition("t", 0).in_sync) != 2:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def closed():
    """What this process reads by is closed before its brokers are."""
    yield
    for _, bootstrap, _ in client_pool._idle.waiting():
        client_pool.close_idle(options(bootstrap))


@pytest.fixture
def kafka():
    with Broker(topics=["t"]) as one:
        yield one


def test_a_topic_made_anew_is_named_with_ids_and_offsets():
    log, past = DictLog({AT: (0, 50)}), TopicHistory()
    log.ids = {"t": "id-1"}
    plan = Planner(options(), log, past)
    assert plan.latest({AT: 20}) == {AT: 50}
    log.ids, log.held = {"t": "id-2"}, {AT: (0, 90)}
    why = (
        r"topic t was deleted and recreated: .* id id-1 \(t-0 to offset 50\), and the one with id id-2 .*failOnDataLoss"
    )
    for _ in range(2):
        with pytest.raises(DataLossError, match=why):
            plan.latest({AT: 50})
    lenient = Planner(options(failOnDataLoss="false"), log, past)
    with pytest.warns(DataLossWarning, match="id id-2"):
        assert lenient.latest({AT: 50}) == {AT: 90}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lenient.latest({AT: 50}) == {AT: 90}, "told once"


def test_available_now_compares_the_topics_between_its_batches(monkeypatch):
    admission = pytest.importorskip("ottla.spark.read.limited_stream", reason="availableNow came with Spark 4.2")
    checked, log = options(maxOffsetsPerTrigger="20"), DictLog({AT: (0, 50)})
    log.ids = {"t": "id-1"}
    made = admission.LimitedStreamReader(checked, layout(checked, schema(checked, {}), {}))
    monkeypatch.setattr(made, "_planner", lambda: Planner(checked, log, made._past))
    made.prepareForTriggerAvailableNow()
    at = made.latestOffset({"t": {"0": 0}}, made.getDefaultReadLimit())
    assert at == {"t": {"0": 20}}
    log.ids = {"t": "id-2"}
    with pytest.raises(DataLossError, match=r"id id-1 \(t-0 to offset 20\), and the one with id id-2"):
        made.latestOffset(at, made.getDefaultReadLimit())


def test_a_stream_that_catches_up_compares_the_topics_between_its_batches(monkeypatch):
    class FakeCheckpoint:
        last, begin = (lambda _: None), (lambda _, first: first())
        plan = remember = commit = lambda *_: None

    checked, log = options(maxOffsetsPerTrigger="20", startingOffsets="earliest"), DictLog({AT: (0, 50)})
    log.ids, written = {"t": "id-1"}, []
    monkeypatch.setattr(kafka_log, "planner", lambda checked, past: Planner(checked, log, past))

    def write(spans, number):
        written.append((number, spans[0].start))
        log.ids = {"t": "id-2"}

    stream = foreach_batch._Stream(checked, FakeCheckpoint(), lambda _, spans: spans, write)
    with pytest.raises(DataLossError, match=r"id id-1 \(t-0 to offset 20\), and the one with id id-2"):
        stream.catch_up(None)
    assert written == [(0, 0)]


def test_a_batch_goes_on_behind_the_record_that_was_seen():
    log, past = DictLog({AT: (0, 50)}), TopicHistory()
    plan = Planner(options(minPartitions="2"), log, past)
    assert [span.seen for span in plan.ranges({AT: 0}, {AT: 20})] == [None, None]
    assert plan.ranges({AT: 20}, {AT: 40}) == [Range(*AT, 20, 30, Seen(20, 3)), Range(*AT, 30, 40)]
    assert [span.seen for span in plan.ranges({AT: 30}, {AT: 50})] == [None, None], "another offset than it stood at"


def test_a_batch_that_is_given_again_goes_on_behind_the_same_record():
    """After it was planned nobody knows whether it was done."""
    log, past = DictLog({AT: (0, 50)}), TopicHistory()
    plan = Planner(options(), log, past)
    plan.ranges({AT: 0}, {AT: 20})
    for again in (past, TopicHistory.from_json(json.loads(json.dumps(past.to_json())))):
        batch = Planner(options(), log, again).ranges({AT: 20}, {AT: 40})
        assert batch == [Range(*AT, 20, 40, Seen(20, 3))]
        assert Planner(options(), log, again).ranges({AT: 20}, {AT: 40}) == batch
        restarted = TopicHistory.from_json(json.loads(json.dumps(again.to_json())))
        assert Planner(options(), log, restarted).ranges({AT: 20}, {AT: 40}) == batch
        # Of what was before it, nothing is kept.
        assert len(restarted.to_json()["seen"]) == 2


def test_what_is_remembered_of_a_topic_goes_with_it():
    past = TopicHistory()
    past.topics_are({"t": "id-1", "u": "id-3"})
    past.stands({}, {AT: 20, ("u", 0): 9}, {AT: Seen(20, 3), ("u", 0): Seen(8, 1)})
    kept = TopicHistory.from_json(json.loads(json.dumps(past.to_json())))
    kept.topics_are({"t": "id-2"})
    assert kept.marked([Range(*AT, 20, 30), Range("u", 0, 9, 12)]) == [
        Range(*AT, 20, 30),
        Range("u", 0, 9, 12, Seen(8, 1)),
    ]
    assert kept.replaced({"t": "id-2", "u": "id-4"}) == [("u", "id-3", "id-4")]
    assert split([Range(*AT, 20, 30, Seen(20, 3))], None, 5)[1].seen is None


def test_a_running_query_notices_a_topic_made_anew(topic, tmp_path):
    """The new one has as many records as the query has read."""
    t = topic(1)
    t.produce(range(5))
    frame = t.spark.readStream.format("ottla").options(**t.options(startingOffsets="earliest")).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = begun(writer.trigger(processingTime="5 seconds").start)
    try:
        query.processAllAvailable()
        # It looks when the clock is at a multiple of 5 s; just after that it does not find the topic gone.
        time.sleep(5 - time.time() % 5 + 0.5)
        while query.status["isTriggerActive"]:
            time.sleep(0.05)
        was, now = made_anew(t.bootstrap, t.name)
        with pytest.raises(PySparkException) as raised:
            query.awaitTermination(60)
    finally:
        query.stop()
    assert was != now
    told = f"topic {t.name} was deleted and recreated: the stream has read the topic with id {was} ({t.name}-0 to offset 5)"
    assert told in str(raised.value)
    assert f"the one with id {now} has other records" in str(raised.value)
    kept = (tmp_path / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(kept) == {t.name: {"0": 5}}, "what Spark's own source keeps, and nothing else"


@pytest.mark.filterwarnings("default::ottla.spark.plan.planner.DataLossWarning")
def test_a_topic_made_anew_is_noticed_after_a_restart_where_the_folder_is_ours(topic, tmp_path):
    t, seen = topic(1), []

    def run(**given):
        query = stream_kafka(
            t.spark,
            t.options(startingOffsets="earliest", **given),
            lambda rows, _: seen.extend(int(bytes(row.value)) for row in rows.collect()),
            str(tmp_path),
            available_now=True,
        )
        try:
            wait_for_end(query)
        finally:
            query.stop()

    t.produce(range(5))
    run()
    was, now = made_anew(t.bootstrap, t.name)
    t.produce(range(100, 107))
    with pytest.raises(PySparkException, match=f"id {was} .*{t.name}-0 to offset 5.* id {now} has other records"):
        run()
    with pytest.raises(PySparkException, match=f"id {was}"):
        run()
    run(failOnDataLoss="false")
    run()
    assert seen == [*range(5), 105, 106]


@pytest.mark.filterwarnings("default::ottla.spark.plan.planner.DataLossWarning")
def test_a_topic_made_anew_is_noticed_after_a_restart_with_a_folder_to_remember_in(topic, tmp_path):
    """The new one has more records than the checkpoint's offset."""
    t = topic(1)
    given = {"startingOffsets": "earliest", "rememberTopicsIn": str(tmp_path / "remembered")}
    t.produce(range(5))
    t.stream(tmp_path, **given)
    t.produce([5])
    t.stream(tmp_path, **given)
    was, now = made_anew(t.bootstrap, t.name)
    t.produce(range(100, 108))
    for _ in range(2):
        with pytest.raises(PySparkException, match=f"id {was}.* id {now} has other records"):
            t.stream(tmp_path, **given)
    t.stream(tmp_path, **given, failOnDataLoss="false")
    t.produce([108])
    t.stream(tmp_path, **given)
    assert t.streamed(tmp_path) == [*range(6), 106, 107, 108]
    kept = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(kept) == {t.name: {"0": 5}}, "what Spark's own source keeps, and nothing else"


@pytest.mark.parametrize("where", ["a path", "a URL"])
def test_a_batch_that_is_replayed_after_a_restart_is_compared(tmp_path, where):
    folder = str(tmp_path / "a" / "b") if where == "a path" else f"memory://{uuid.uuid4().hex}/b"
    with Broker(topics=["t"]) as broker:
        bootstrap = broker.bootstrap_servers
        write(bootstrap, b"0", b"1")
        checked = options(bootstrap, startingOffsets="earliest", rememberTopicsIn=folder)
        made = reader(checked)
        start, end = made.initialOffset(), made.latestOffset()
        assert values(made, start, end) == [b"0", b"1"]
        assert values(reader(checked), start, end) == [b"0", b"1"]
        was, now = made_anew(bootstrap)
        write(bootstrap, b"2", b"3")
        assert values(reader(options(bootstrap)), start, end) == [b"2", b"3"], "nobody else notices"
        with pytest.raises(DataLossError, match=rf"id {was} \(t-0 to offset 0\), and the one with id {now}"):
            reader(checked).partitions(start, end)


def test_a_log_that_was_cut_is_noticed_after_a_restart(tmp_path):
    """By what is kept of the last record before the offset."""
    past = TopicHistory()
    past.topics_are({"t": "id-1"})
    past.stands({}, {AT: 5}, {AT: Seen(5, 3)})
    folder = TopicHistoryFile(str(tmp_path))
    assert folder.past().to_json() == TopicHistory().to_json()
    folder.keep(TopicHistory())
    folder.keep(past)
    assert TopicHistoryFile(str(tmp_path)).past().marked([Range(*AT, 5, 9)]) == [Range(*AT, 5, 9, Seen(5, 3))]
    assert [path.name for path in tmp_path.iterdir()] == ["topics.json"]
    (tmp_path / "topics.json").write_text("{}")
    with pytest.raises(ValueError, match=f"topics.json in {tmp_path} is damaged"):
        folder.past()


def test_a_folder_to_remember_in_is_for_streams(spark):
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "rememberTopicsIn": "/folder"}
    with pytest.raises(ValueError, match="rememberTopicsIn has no meaning in a batch"):
        ReadOptions.parse(given).check_batch()
    with pytest.raises(ValueError, match="rememberTopicsIn is empty"):
        ReadOptions.parse({**given, "rememberTopicsIn": " "})
    with pytest.raises(ValueError, match="rememberTopicsIn has no meaning here: the checkpoint of stream_kafka"):
        stream_kafka(spark, given, print, "/checkpoint")


def test_a_cut_log_is_noticed_though_it_has_grown_past_the_offset():
    """An unclean leader lacks two of the five records that the first batch read, and has taken four others since."""
    config = {"replica.lag.time.max.ms": 300, "min.insync.replicas": 1}
    with Broker(nodes=2, topics=["t"], config=config) as cluster:
        bootstrap = cluster.bootstrap_servers
        write(bootstrap, b"0", b"1", b"2")
        await_replicas(cluster)
        other = 3 - cluster.leader("t")
        cluster.pause_replication(other)
        write(bootstrap, b"3", b"4")
        strict = reader(options(bootstrap, startingOffsets="earliest"))
        lenient = reader(options(bootstrap, startingOffsets="earliest", failOnDataLoss="false"))
        begun = strict.initialOffset()
        for made in (strict, lenient):
            made.initialOffset()
            assert values(made, begun, made.latestOffset()) == [b"0", b"1", b"2", b"3", b"4"]
        read = {"t": {"0": 5}}
        cluster.move_leader("t", to=other, unclean=True)
        cluster.resume_replication(other)
        write(bootstrap, b"three", b"four", b"five", b"six")
        assert strict.latestOffset() == {"t": {"0": 7}}
        # However often the batch is given again.
        for _ in range(3):
            with pytest.raises(DataLossError) as caught:
                values(strict, read, {"t": {"0": 7}})
        told = str(caught.value)
        assert told.startswith("t-0 5 to 7: ")
        assert "offset 5 was read (leader epoch 0)" in told
        assert "from offset 3 on (leader epoch 0 before it)" in told
        assert "seek" not in told, "a stream has other ways"
        with pytest.warns(DataLossWarning, match="t-0 5 to 7: .*truncated"):
            assert values(lenient, read, {"t": {"0": 7}}) == [b"five", b"six"]
        write(bootstrap, b"seven")
        assert values(lenient, {"t": {"0": 7}}, {"t": {"0": 8}}) == [b"seven"], "told once"


def test_leaders_that_take_over_with_all_records_are_no_loss():
    """With and without records in their epochs, and behind the marker of a transaction."""
    with Broker(nodes=2, topics=["t"], config={"replica.lag.time.max.ms": 5000}) as cluster:
        bootstrap = cluster.bootstrap_servers
        made = reader(options(bootstrap, startingOffsets="earliest"))
        start, read, sent = made.initialOffset(), [], 0
        with ottla.Producer(bootstrap, transactional_id=uuid.uuid4().hex) as transactional:
            for step in range(8):
                if step % 3 != 1:
                    write(bootstrap, b"%d" % sent)
                    sent += 1
                if step % 2:
                    with transactional.transaction():
                        transactional.send("t", b"%d" % sent)
                        sent += 1
                end = made.latestOffset()
                read += values(made, start, end)
                start = end
                await_replicas(cluster)
                cluster.move_leader("t", to=3 - cluster.leader("t"))
        write(bootstrap, b"%d" % sent)
        epochs = [seen.epoch for _, seen in sorted(made._past._seen.items())]
        read += values(made, start, made.latestOffset())
    assert read == [b"%d" % n for n in range(sent + 1)]
    assert epochs[-1] >= 6, "the leaders were others"


def test_a_record_that_was_deleted_since_is_no_loss(kafka):
    """Behind a transaction the last record stands before its marker, and the next batch does not need it any more."""
    bootstrap = kafka.bootstrap_servers
    write(bootstrap, b"0")
    with ottla.Producer(bootstrap, transactional_id=uuid.uuid4().hex) as producer, producer.transaction():
        producer.send("t", b"1")
    checked = options(bootstrap, startingOffsets="earliest")
    made = reader(checked)
    assert values(made, made.initialOffset(), made.latestOffset()) == [b"0", b"1"]
    write(bootstrap, b"3")
    (part,) = made.partitions({"t": {"0": 3}}, {"t": {"0": 4}})
    assert part.value == [Range(*AT, 3, 4, Seen(2, 0))]
    assert [value for batch in made.read(part) for value in batch.column("value").to_pylist()] == [b"3"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    done(admin.delete_records([TopicPartition(*AT, 3)]))
    assert [value for batch in made.read(part) for value in batch.column("value").to_pylist()] == [b"3"]


def test_brokers_that_do_not_answer_keep_no_stream_from_going_on(kafka, monkeypatch):
    monkeypatch.setattr(kafka_log, "LOOKING", 0.3)
    write(kafka.bootstrap_servers, b"0")
    checked = options(kafka.bootstrap_servers)
    kafka.ignore("Fetch", count=1_000_000)
    assert kafka_log.KafkaLog(checked).last_seen([Range(*AT, 0, 1)]) == {}
    kafka.clear_faults()
    monkeypatch.setattr(kafka_log, "LOOKING", 30.0)
    assert kafka_log.KafkaLog(checked).last_seen([Range(*AT, 0, 1)]) == {AT: Seen(1, 0)}


def test_the_first_batch_begins_again_where_it_began(tmp_path):
    """Spark has the end of a first batch that failed, and asks a source in Python anew where it begins."""
    with Broker(topics={"t": 1}) as broker:
        checked = options(broker.bootstrap_servers, rememberTopicsIn=str(tmp_path), startingOffsets="latest")
        failed = reader(checked)
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"0", b"1"]).result(30)
            begin = failed.initialOffset()
            producer.send_many("t", [b"2", b"3"]).result(30)
            end = failed.latestOffset()
            failed.partitions(begin, end)
            producer.send_many("t", [b"4"]).result(30)
            again = reader(checked)
            assert again.initialOffset() == begin
            assert values(again, begin, end) == [b"2", b"3"]
            # As soon as the first batch is past, it is of no use, and another query would begin there.
            again.partitions(end, end)
            assert reader(checked).initialOffset() == {"t": {"0": 5}}
        client_pool.close_idle(checked)


@pytest.mark.parametrize("later", [0, 1])
def test_a_first_batch_whose_beginning_is_not_known_is_named(later):
    """Also if nothing came since: it would be taken for an empty batch."""
    with Broker(topics={"t": 1}) as broker:
        checked = options(broker.bootstrap_servers, startingOffsets="latest")
        failed = reader(checked)
        with ottla.Producer(broker.bootstrap_servers) as producer:
            begin = failed.initialOffset()
            producer.send_many("t", [b"0", b"1"]).result(30)
            end = failed.latestOffset()
            failed.partitions(begin, end)
            for _ in range(later):
                producer.send_many("t", [b"2"]).result(30)
        again = reader(checked)
        told = r"first batch .* ends at t-0 2, .* startingOffsets begins at t-0 [23] now.* set rememberTopicsIn"
        begin = again.initialOffset()
        with pytest.raises(DataLossError, match=told):
            again.partitions(begin, end)
        loose = reader(options(broker.bootstrap_servers, startingOffsets="latest", failOnDataLoss="false"))
        with pytest.warns(DataLossWarning, match=told) as warned:
            assert loose.partitions(loose.initialOffset(), end) == []
        assert len(warned) == 1
        # A query that asks for its end first plans a batch of its own.
        fresh = reader(checked)
        begin = fresh.initialOffset()
        assert fresh.partitions(begin, fresh.latestOffset()) == []
        client_pool.close_idle(checked)
