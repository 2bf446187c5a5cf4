"""A batch of `ottla ingest` is its offsets: what a table does if Spark plans others under a number that it has. Without Spark."""

import json
from types import SimpleNamespace

import pytest

from ottla.spark.ingest.delta_history import DeltaHistory, kept_by
from ottla.spark.ingest.identity import Batch, is_added
from ottla.spark.ingest.spark_errors import IngestError


def batch(number, start, end):
    return Batch(number, {("t", 0): start} if start is not None else {}, {("t", 0): end})


def test_the_same_batch_is_added_once():
    kept = {3: batch(3, 30, 40), 4: batch(4, 40, 50)}
    assert is_added(batch(4, 40, 50), kept, "iceberg t")
    assert is_added(batch(3, 30, 40), kept, "iceberg t")
    assert not is_added(batch(5, 50, 60), kept, "iceberg t")
    assert not is_added(batch(0, None, 10), {}, "iceberg t")


@pytest.mark.parametrize(("start", "end"), [(40, 70), (0, 50)])
def test_another_batch_of_the_same_number_is_an_error_that_names_both(start, end):
    with pytest.raises(IngestError) as raised:
        is_added(batch(4, start, end), {4: batch(4, 40, 50)}, "iceberg t")
    told = str(raised.value)
    assert 'iceberg t has batch 4 with {"start":{"t":{"0":40}},"end":{"t":{"0":50}}}' in told
    assert f'plans batch 4 with {{"start":{{"t":{{"0":{start}}}}},"end":{{"t":{{"0":{end}}}}}}}' in told
    assert "Nothing was written. Restore the checkpoint" in told


def test_a_batch_of_an_earlier_version_is_only_taken_for_a_replay_of_the_last_one():
    """It has no offsets, and Spark replays its last batch alone."""
    assert is_added(batch(4, 40, 50), {3: None, 4: None}, "iceberg t")
    with pytest.raises(IngestError, match="has batch 3 with other offsets, which it did not keep, and the checkpoint"):
        is_added(batch(3, 30, 40), {3: None, 4: None}, "iceberg t")


def test_a_batch_whose_snapshot_expired_is_not_added_again():
    with pytest.raises(IngestError, match="has batch 4 already, and no record of batch 2"):
        is_added(batch(2, 20, 30), {4: batch(4, 40, 50)}, "iceberg t")


def test_batches_come_back_from_json():
    one = Batch(3, {("t", 1): 5, ("a", 0): 2}, {("t", 1): 7, ("t", 0): 3, ("a", 0): 2})
    assert Batch.from_json(3, json.loads(one.text())) == one
    assert one.text() == Batch(3, dict(reversed(one.start.items())), dict(reversed(one.end.items()))).text()
    for earlier in (None, {"batch": 3, "moves": []}, [], {"start": 1, "end": 2}):
        assert Batch.from_json(3, earlier) is None


def test_commits_of_others_are_passed_over():
    def told(**changed):
        about = {"ottla.query": "q", "ottla.batch": 4, "ottla.offsets": batch(4, 40, 50).to_json(), **changed}
        return json.dumps(about)

    others = [None, "a note", "7", "[]", '{"by":"me"}', told(**{"ottla.query": "other"})]
    assert kept_by("q", [*others, told()]) == {4: batch(4, 40, 50)}


class History:
    """A session whose table has these commits, the newest first."""

    def __init__(self, *commits):
        self.commits = list(commits)
        self.looks = []

    def sql(self, text):
        limit = int(text.rpartition(" LIMIT ")[2])
        self.looks.append(limit)
        versions = range(len(self.commits) - 1, -1, -1)
        found = list(zip(versions, self.commits, strict=True))[:limit]
        return SimpleNamespace(select=lambda *_: SimpleNamespace(collect=lambda: found))


def commit(number):
    return json.dumps({"ottla.query": "q", "ottla.batch": number, "ottla.offsets": batch(number, 0, 1).to_json()})


def test_a_commit_of_delta_is_found_though_others_follow_it():
    """Delta compacts after a write (`autoCompact`). The rows were taken for those of a batch that the table had."""
    session = History(commit(3), "OPTIMIZE", commit(2))
    history = DeltaHistory(session, "t", "q")
    assert 3 in history.batches(4)
    session.commits[:0] = [None, None, commit(4)]
    assert history.has_new(4)
    session.commits[:0] = [commit(5)]
    session.looks.clear()
    assert history.has_new(5)
    assert session.looks == [1], "as long as nobody else commits, one commit is read"
    session.commits[:0] = [None]
    assert not history.has_new(6)


def test_no_more_of_a_history_is_read_than_it_takes():
    """Delta reads a file for each commit, and a table may have very many."""
    session = History(*(commit(number) for number in range(999, -1, -1)))
    history = DeltaHistory(session, "t", "q")
    assert history.batches(1000).keys() >= {999}
    assert session.looks == [1]
    # The checkpoint was set back: those from there on are needed.
    assert history.batches(995).keys() >= set(range(995, 1000))
    assert history.batches(0).keys() == set(range(1000))
    new = DeltaHistory(History(*[None] * 20), "t", "q")
    assert new.batches(0) == {}
