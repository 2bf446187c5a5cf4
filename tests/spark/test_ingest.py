"""`ottla ingest`: what stands in the table, whatever happens on the way. Tables are read with pyarrow, and not with Spark."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pyarrow.dataset as ds
import pytest

import ottla
from ottla import cli
from ottla.errors import ConfigError
from ottla.spark import ingest
from ottla.spark.ingest.batches import Batches
from ottla.spark.ingest.job import Stop
from ottla.spark.ingest.moves import Moves
from ottla.spark.ingest.report import Report
from ottla.spark.ingest.settings import parse
from ottla.spark.ingest.spark_errors import IngestError, innermost
from ottla.spark.shared.storage import Folder

from .test_past import made_anew

# Spark takes its time on a machine that does other things too.
pytestmark = pytest.mark.timeout(300)

SCHEMA = "n int, day string"


class Job:
    """A job on a topic of its own, in a folder of its own."""

    def __init__(self, topic, folder, partitions):
        self.topic, self.folder, self.partitions = topic, folder, partitions
        self.spark = topic.spark
        self.sent = 0

    def produce(self, count, *bad):
        """Send numbers that go on from the last ones, and values that are none: as many to each partition, of both days."""
        numbers = range(self.sent, self.sent + count)
        values = [*(b'{"n":%d,"day":"d%d"}' % (n, n % 2) for n in numbers), *bad]
        places = [n // 2 % self.partitions for n in range(len(values))]
        with ottla.Producer(self.topic.bootstrap) as producer:
            producer.send_many(self.topic.name, values, partitions=places).result(timeout=30)
        self.sent += count

    def text(self, source="", table="", run="", more=""):
        return f"""
            name = "job"
            [source]
            kafka.bootstrap.servers = "{self.topic.bootstrap}"
            subscribe = "{self.topic.name}"
            value.format = "json"
            "value.schema" = "{SCHEMA}"
            {source}
            [table]
            path = "{self.folder}/table"
            {table or 'select = ["value.*"]'}
            [run]
            checkpoint = "{self.folder}/checkpoint"
            {run}
            {more}
        """

    def settings(self, **parts):
        return parse(self.text(**parts).encode(), "job.toml", {})

    def run(self, stop=None, **parts):
        return ingest.run(self.settings(**parts), self.spark, stop)

    def files(self, name="table"):
        """The data files that a reader sees."""
        # Folders of tasks may go meanwhile.
        found = (Path(at) / file for at, _, files in os.walk(self.folder / name) for file in files)
        data = (path for path in found if path.suffix == ".parquet")
        return sorted(path for path in data if not any(part.startswith(("_", ".")) for part in path.parts))

    def numbers(self):
        return sorted(ds.dataset(self.files(), format="parquet").to_table().column("n").to_pylist())


@pytest.fixture
def job(topic, tmp_path):
    return lambda partitions=4: Job(topic(partitions), tmp_path, partitions)


def test_batches_become_few_files_and_bad_records_dead_letters(job):
    job = job()
    job.produce(400, b"no json", b"{}}")
    parts = {
        "source": "maxOffsetsPerTrigger = 150",
        "table": 'select = ["value.*", "offset"]\npartition-by = ["day"]',
        "more": f'[dead-letters]\nfolder = "{job.folder}/dead"',
    }
    first = job.run(**parts)
    assert (first.records, first.bad, first.behind, first.stopped) == (402, 2, 0, False)
    assert first.batches == 3
    assert job.numbers() == list(range(400))
    # Four partitions are four tasks, and a file for each would be 24.
    assert len(job.files()) == 6
    assert {path.parent.name for path in job.files()} == {"day=d0", "day=d1"}
    dead = ds.dataset(job.files("dead"), format="parquet").to_table().to_pylist()
    assert {row["value"] for row in dead} == {b"no json", b"{}}"}
    assert {row["topic"] for row in dead} == {job.topic.name}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": job.topic.bootstrap, "group.id": "dead"})
    for row in dead:
        consumer.assign([confluent_kafka.TopicPartition(row["topic"], row["partition"], row["offset"])])
        assert consumer.poll(30).value() == row["value"], "a dead letter says where it was"
    consumer.close()
    # The next run goes on where this one ended.
    job.produce(50)
    second = job.run(**parts)
    assert (second.records, second.bad) == (50, 0)
    assert job.numbers() == list(range(450))


@pytest.mark.parametrize("when", ["staged", "moved", "added"])
def test_each_record_is_there_once_whatever_fails(job, monkeypatch, when):
    job = job()
    job.produce(200, b"bad")
    parts = {
        "table": 'select = ["value.*"]\npartition-by = ["day"]',
        "more": f'[dead-letters]\nfolder = "{job.folder}/dead"',
    }
    move, take = Folder.move, Batches.__call__
    moved = []

    def dying_make(self, name, text):
        # Staged anew, since nobody had decided for it.
        raise OSError("the disk is gone")

    def dying_move(self, source, target):
        if moved:
            raise OSError("the disk is gone")
        moved.append(target)
        return move(self, source, target)

    def dying_batch(self, frame, batch):
        take(self, frame, batch)
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        if when == "staged":
            patched.setattr(Folder, "make", dying_make)
        elif when == "moved":
            patched.setattr(Folder, "move", dying_move)
        else:
            patched.setattr(Batches, "__call__", dying_batch)
        with pytest.raises(IngestError, match=r"^job: .*the disk is gone$"):
            job.run(**parts)
    assert len(job.files()) == {"staged": 0, "moved": 1, "added": 2}[when]
    job.run(**parts)
    assert job.numbers() == list(range(200))
    assert ds.dataset(job.files("dead"), format="parquet").to_table().column("value").to_pylist() == [b"bad"]


@pytest.mark.parametrize("letters", [False, True])
def test_a_checkpoint_that_was_set_back_is_an_error(job, letters):
    """Spark plans other records under a number that the table has: they were passed over, and the job was done."""
    job = job(1)
    parts = {"more": f'[dead-letters]\nfolder = "{job.folder}/dead"' if letters else ""}
    for _ in range(2):
        job.produce(10)
        job.run(**parts)
    for name in ("offsets", "commits"):
        for path in (job.folder / "checkpoint" / name).glob("*1*"):
            path.unlink()
    job.produce(30)
    with pytest.raises(IngestError, match=r'has batch 1 with .*"0":20.* plans batch 1 with .*"0":50'):
        job.run(**parts)
    assert job.numbers() == list(range(20))


@pytest.mark.parametrize("wrong", ["n int, day decimal(99)", "n int, day decimal(x)", "n int, day string not comment"])
def test_a_schema_that_only_spark_can_refuse_names_its_option(job, monkeypatch, wrong):
    """And not a text that Spark was given in its place. What `--check` sees, Spark never gets."""
    job = job(1)
    monkeypatch.setattr(sys.modules[__name__], "SCHEMA", wrong)
    with pytest.raises(
        IngestError, match=rf"^job.toml: \[source\] value.schema: {re.escape(repr(wrong))} is wrong: "
    ) as raised:
        job.run()
    assert "struct<" not in str(raised.value)
    assert not (job.folder / "checkpoint").exists()


def test_a_checkpoint_that_was_set_back_goes_on_where_the_batches_are_the_same(job):
    """With dead letters, too: the counts of a batch that is not computed were waited for without end."""
    job = job(1)
    parts = {"source": "maxOffsetsPerTrigger = 10", "more": f'[dead-letters]\nfolder = "{job.folder}/dead"'}
    job.produce(29, b"bad")
    job.run(**parts)
    for name in ("offsets", "commits"):
        for number in (1, 2):
            for path in (job.folder / "checkpoint" / name).glob(f"*{number}*"):
                path.unlink()
    job.produce(10)
    job.run(**parts)
    assert job.numbers() == list(range(39))
    assert ds.dataset(job.files("dead"), format="parquet").count_rows() == 1


def test_rows_that_readers_of_the_folder_could_not_read_are_refused(job):
    """Spark reads a folder with and without `day=` only in part, and none of one with two types for a column."""
    job = job(1)
    job.produce(20)
    parted = 'select = ["value.*"]\npartition-by = ["day"]'
    job.run(table=parted)
    before = job.files()
    job.produce(10)
    by = r'^job.toml: \[table\] partition-by is \[{}\], and the files in .*/table are partitioned by \["day"\]'
    with pytest.raises(IngestError, match=by.format("")):
        job.run()
    with pytest.raises(IngestError, match=by.format('"n"')):
        job.run(table='select = ["value.*"]\npartition-by = ["n"]')
    with pytest.raises(IngestError, match=r"^job.toml: \[table\] .* n is int in the folder and string now"):
        job.run(table='select = ["string(value.n) n", "value.day"]\npartition-by = ["day"]')
    assert job.files() == before
    job.run(table='select = ["value.*", "offset"]\npartition-by = ["day"]')
    assert job.spark.read.parquet(str(job.folder / "table")).count() == 30


def test_a_topic_made_anew_between_two_runs_is_noticed(job):
    job = job(1)
    job.produce(20)
    job.run()
    was, now = made_anew(job.topic.bootstrap, job.topic.name)
    job.produce(30)
    with pytest.raises(IngestError, match=f"^job: topic .* id {was}.* id {now} has other records"):
        job.run()
    job.run(source="failOnDataLoss = false")
    assert job.numbers() == [*range(20), *range(40, 50)]


def test_folders_of_spark_make_texts_once(spark, tmp_path):
    folder = Folder(spark, str(tmp_path))
    assert folder.make("own/plan.json", "one")
    assert not folder.make("own/plan.json", "two")
    assert folder.read("own/plan.json") == (tmp_path / "own" / "plan.json").read_text() == "one"
    assert folder.names("own") == ["plan.json"]
    assert folder.local("own") == str(tmp_path / "own")
    assert (folder.names("absent"), folder.size("absent"), folder.read("absent")) == ([], None, None)
    folder.move("own/plan.json", "day=1/plan.json")
    assert (folder.size("day=1/plan.json"), folder.size("own/plan.json")) == (3, None)
    folder.delete("day=1")
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


@contextmanager
def when(happened, then):
    """Do something in another thread as soon as an event is set, unless the block ends before."""
    over = threading.Event()

    def wait():
        while not happened.wait(0.01):
            if over.is_set():
                return
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_ends_the_job_after_the_running_batch(job, monkeypatch):
    job = job()
    job.produce(1000)
    take, running, allowed, stop = Batches.__call__, threading.Event(), threading.Event(), Stop()

    def slow(self, frame, batch):
        if batch == 1:
            running.set()
            assert allowed.wait(30)
        take(self, frame, batch)

    def signalled():
        try:
            interrupt()
            assert stop.softly.wait(30)
        finally:
            allowed.set()

    with monkeypatch.context() as patched:
        patched.setattr(Batches, "__call__", slow)
        before = signal.getsignal(signal.SIGINT)
        with when(running, signalled):
            # Without a pause between batches: the next one begins before anybody has seen that the last one ended.
            outcome = job.run(stop, source="maxOffsetsPerTrigger = 100", run='trigger = "0s"')
    assert signal.getsignal(signal.SIGINT) is before
    assert outcome.stopped
    assert outcome.records in (100, 200), (
        "batch 1 had begun: it is whole, or it began after the signal and took nothing"
    )
    assert len(job.numbers()) == outcome.records
    assert job.run(source="maxOffsetsPerTrigger = 500").records == 1000 - outcome.records
    assert job.numbers() == list(range(1000))


def test_a_second_signal_ends_the_running_batch(job, monkeypatch):
    job = job()
    job.produce(500)
    move, running, allowed, stop = Folder.move, threading.Event(), threading.Event(), Stop()

    def held(self, source, target):
        running.set()
        assert allowed.wait(60)
        move(self, source, target)

    def twice():
        try:
            for asked in (stop.softly, stop.at_once):
                interrupt()
                assert asked.wait(30)
        finally:
            allowed.set()

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "move", held)
        with when(running, twice), pytest.raises(KeyboardInterrupt):
            job.run(stop, source="maxOffsetsPerTrigger = 100", run='trigger = "0s"')
    job.run()
    assert job.numbers() == list(range(500))


def test_the_first_batch_begins_where_it_was_decided(job, monkeypatch):
    """Also if the group, whose place that was, has gone on since."""
    job = job(1)
    job.produce(100)
    group = f"g-{job.topic.name}"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": job.topic.bootstrap, "group.id": group})

    def committed(offset):
        consumer.commit(offsets=[confluent_kafka.TopicPartition(job.topic.name, 0, offset)], asynchronous=False)

    def dying(self, batch, moves):
        raise OSError("the disk is gone")

    source = f'startingOffsets = "group:{group}"'
    committed(10)
    with monkeypatch.context() as patched:
        patched.setattr(Moves, "plan", dying)
        with pytest.raises(IngestError, match="the disk is gone"):
            job.run(source=source)
    committed(60)
    consumer.close()
    outcome = job.run(source=source)
    assert (outcome.records, outcome.batches) == (90, 1)
    assert job.numbers() == list(range(10, 100))
    job.produce(5)
    assert job.run(source=source).records == 5
    assert job.numbers() == list(range(10, 105))


def test_rows_and_sizes_of_files(job):
    job = job()
    job.produce(1000)
    job.run()
    (whole,) = job.files()
    for _ in range(3):
        job.produce(1000)
    # As large as 300 rows of that.
    size = whole.stat().st_size * 300 // 1000
    job.run(source="maxOffsetsPerTrigger = 1000", more=f'[files]\nrows = 600\nsize = "{size}B"')
    rows = [ds.dataset(path, format="parquet").count_rows() for path in job.files() if path != whole]
    assert sum(rows) == 3000
    assert max(rows) <= 600
    # The first of the three batches goes by rows alone, the others by the bytes of the one before.
    assert len([count for count in rows if count <= 350]) >= 6
    assert job.numbers() == list(range(4000))


@pytest.mark.parametrize("columns", ["", 'columns = "value,offset"'])
def test_dead_letters_go_to_a_topic_with_their_reason(job, topic, capsys, columns):
    job, dead = job(), topic(1)
    job.produce(20, b"no json")
    outcome = job.run(
        source=columns,
        table='where = "value.n >= 10"\nselect = ["value.n AS n", "*"]',
        more=f'[dead-letters]\ntopic = "{dead.name}"',
    )
    assert (outcome.records, outcome.bad, job.numbers()) == (21, 1, list(range(10, 20)))
    assert f"/table, 1 of them dead letters in topic {dead.name}\n" in capsys.readouterr().err
    kept = {"value", "offset"} if columns else {"key", "value", "topic", "partition", "offset", "timestamp"}
    names = set(ds.dataset(job.files(), format="parquet").schema.names)
    assert names - {"timestampType"} == kept | {"n"}, "nothing of what dead letters need"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": dead.bootstrap, "group.id": "dead"})
    consumer.assign([confluent_kafka.TopicPartition(dead.name, 0, 0)])
    letter = consumer.poll(30)
    consumer.close()
    assert letter.value() == b"no json"
    assert "not JSON" in dict(letter.headers())["__ottla.errors.message"].decode()


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"table": 'select = ["nothing"]'}, r"job\.toml: \[table\] select: \[UNRESOLVED_COLUMN.*`nothing` cannot be resolved"),
        ({"table": 'where = "value.n >"'}, r"job\.toml: \[table\] where: \[PARSE_SYNTAX_ERROR\]"),
        ({"table": 'partition-by = ["dya"]'}, r"job\.toml: \[table\] partition-by names dya, and the columns are key, value,"),
        ({"table": 'format = "delta"'}, r"job\.toml: \[table\] format = \"delta\" needs the package io\.delta:delta-spark_\d\.\d_2\.13, "),
        ({}, r"job: the value of the record at offset 0 of partition \d of topic .* does not decode: it is not JSON"),
    ],
)  # fmt: skip
def test_errors_are_a_sentence_without_options(job, parts, told, caplog):
    job = job()
    job.produce(0, b"bad")
    parts = {"source": 'kafka.client.id = "hush-hush"', **parts}
    with pytest.raises((IngestError, ConfigError), match=f"^{told}") as caught:
        job.run(**parts)
    assert "\n" not in str(caught.value)
    assert "hush-hush" not in str(caught.value) + caplog.text
    assert job.files() == []


def test_what_spark_says_about_causes():
    trace = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n    raise ValueError("no: not this")\n'
        "ottla.errors.NotFoundError: topic a does not exist\n SQLSTATE: 38000\n=== Streaming Query ===\n"
        "java.lang.IllegalStateException: later\n"
    )
    assert innermost(trace) == "topic a does not exist"
    cause = "py4j.protocol.Py4JJavaError: An error occurred\n: org.apache.spark.SparkException: Job aborted\nCaused by: java.io.IOException: No space left on device\n"
    assert innermost(cause) == "IOException: No space left on device"
    assert innermost("\n[CODE] Something. SQLSTATE: 42703; line 1 pos 0;\nplan") == "[CODE] Something."


def progress(batch, start, end, latest, rows=None):
    def offsets(n):
        return f'{{"t":{{"0":{n}}}}}' if n is not None else None

    source = {"startOffset": offsets(start), "endOffset": offsets(end), "latestOffset": offsets(latest)}
    rows = (end or 0) - (start or 0) if rows is None else rows
    # Of a trigger without records it is not that of the batch, which has the same number.
    return {"batchId": batch, "timestamp": f"{batch} {rows > 0}", "numInputRows": rows, "sources": [source]}


def test_lines_of_a_log_come_every_ten_seconds():
    out, clock = io.StringIO(), [0.0]
    report = Report("job", out, lambda: clock[0])
    report.doing("starting")
    report.start()
    for batch in range(30):
        clock[0] += 1
        report.progress([progress(batch, 100 * batch or None, 100 * batch + 100, 5000)], 3)
    report.end(3)
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in out.getvalue().splitlines()]
    assert lines == [
        "job: batch 9, 1,000 records, 100/s, 4,000 behind, 3 dead letters",
        "job: batch 19, 2,000 records, 100/s, 3,000 behind, 3 dead letters",
        "job: batch 29, 3,000 records, 100/s, 2,000 behind, 3 dead letters",
    ]


def test_each_batch_counts_once_whatever_comes_between():
    report = Report("job", io.StringIO())
    report.start()
    told = [progress(4, 100, 150, 150), progress(5, 150, 150, 150), progress(5, 150, 170, 170)]
    report.progress(told[:1], 0)
    assert (report.records, report.batches) == (50, 1)
    # Two at once, and the second has the number of the first, which had no records.
    report.progress(told, 0)
    assert (report.records, report.batches) == (70, 2)
    assert report.knows(told[-1])
    assert not report.knows(told[0])
    report.progress(told, 0)
    # What a query keeps goes on, and the one that was taken last may be gone.
    report.progress([progress(6, 170, 180, 180), progress(7, 180, 200, 200)], 0)
    assert (report.records, report.batches) == (100, 4)


@pytest.mark.parametrize(("begin", "records"), [({("t", 0): 40}, 60), (None, 55)])
def test_the_first_batch_counts_from_where_it_begins(begin, records):
    """Spark does not say where that is; without it rows are counted."""
    report = Report("job", io.StringIO())
    report.start(begin)
    report.progress([progress(0, None, 100, 100, rows=55), progress(1, 100, 110, 110)], 0)
    assert (report.records, report.batches) == (records + 10, 2)


def test_what_is_hidden_is_not_told():
    out = io.StringIO()
    Report("job", out, shown=lambda text: text.replace("sesame", "${PASSWORD}")).write("done: open sesame")
    assert out.getvalue().endswith("job: done: open ${PASSWORD}\n")


def test_a_terminal_has_one_line_that_moves():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out, clock = Terminal(), [0.0]
    report = Report("job", out, lambda: clock[0])
    report.doing("starting Spark")
    report.start()
    clock[0] = 0.5
    report.progress([progress(7, 1000, 1500, 1500)], 0)
    report.end(0)
    report.write("done")
    assert out.getvalue().split("\r\x1b[K") == [
        "",
        "job: starting Spark",
        "job: batch 7, 500 records, 1,000/s, 0 behind",
        "job: done\n",
    ]


def test_the_command_ends_well_by_ctrl_c(job):
    """As a terminal does it: the whole group of processes gets the signal."""
    job = job()
    job.produce(30)
    file = job.folder / "job.toml"
    file.write_text(job.text(run='trigger = "200ms"', more='[spark]\nmaster = "local[2]"'))
    with (job.folder / "told").open("w+") as told:
        command = [sys.executable, "-m", "ottla.spark.ingest", str(file)]
        process = subprocess.Popen(command, stderr=told, stdout=told, start_new_session=True)
        try:
            end = time.monotonic() + 200
            while not job.files() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
        told.seek(0)
        text = told.read()
    assert code == 0, text
    assert "job: stopped after 30 records in 1 batch into parquet " in text
    assert "Traceback" not in text
    assert job.numbers() == list(range(30))


def test_a_program_reads_the_outcome_as_json(job, capsysbinary):
    job = job()
    job.produce(30)
    file = job.folder / "job.toml"
    file.write_text(job.text())
    assert cli.main(["ingest", str(file), "--format", "json"]) in (None, 0)
    told = json.loads(capsysbinary.readouterr().out)
    # In the envelope that every command has.
    (row,) = told["items"]
    assert row["name"] == "job"
    assert row["table"].endswith(f"{job.folder}/table")
    figures = {name: row[name] for name in ("records", "batches", "bad", "stopped")}
    assert figures == {"records": 30, "batches": 1, "bad": 0, "stopped": False}
    assert job.numbers() == list(range(30))
