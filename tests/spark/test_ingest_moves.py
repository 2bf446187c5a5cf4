"""The moves of `ottla ingest` in a folder of this machine, without Spark, and with what can happen between two of them."""

import json
import shutil

import pytest

from ottla.spark.ingest.identity import Batch
from ottla.spark.ingest.moves import KEPT, Move, Moves
from ottla.spark.ingest.spark_errors import IngestError


class Disk:
    """What `Folder` does, by pathlib."""

    def __init__(self, path):
        self.path = path

    def __str__(self):
        return str(self.path)

    def names(self, name):
        at = self.path / name
        return sorted(one.name for one in at.iterdir()) if at.exists() else []

    def read(self, name):
        at = self.path / name
        return at.read_text() if at.exists() else None

    def size(self, name):
        at = self.path / name
        return at.stat().st_size if at.exists() else None

    def make(self, name, text):
        at = self.path / name
        at.parent.mkdir(parents=True, exist_ok=True)
        if at.exists():
            return False
        at.write_text(text)
        return True

    def move(self, name, other):
        assert not (self.path / other).exists()
        (self.path / other).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).rename(self.path / other)

    def delete(self, name):
        at = self.path / name
        if at.is_dir():
            shutil.rmtree(at)
        else:
            at.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


@pytest.fixture
def moves(disk):
    return Moves(disk, "_ottla/q")


def batch(number, end=None):
    """A batch of ten records, or with another end."""
    return Batch(number, {("t", 0): 10 * number}, {("t", 0): 10 * number + 10 if end is None else end})


def staged(disk, moves, number, *texts):
    """An attempt at a batch: its files, and the moves of them."""
    folder = moves.staging(number)
    made = [Move(f"{folder}/{n}", f"day=1/{number}-{n}") for n in range(len(texts))]
    for move, text in zip(made, texts, strict=True):
        disk.make(move.source, text)
    return made


def data(disk):
    return {path.name: path.read_text() for path in disk.path.glob("day=1/*")}


def test_a_plan_is_made_and_done_and_nothing_stays_staged(disk, moves):
    failed, plan = staged(disk, moves, 3, "failed"), staged(disk, moves, 3, "a", "bb")
    assert moves.planned(batch(3)) is None
    moves.plan(batch(3), plan)
    assert moves.planned(batch(3)) == plan
    moves.make(3, plan, again=False)
    assert data(disk) == {"3-0": "a", "3-1": "bb"}
    assert failed[0].source.split("/")[:2] == ["_ottla", "q"]
    assert disk.names("_ottla/q") == ["plans"]
    moves.make(3, moves.planned(batch(3)), again=True)
    assert data(disk) == {"3-0": "a", "3-1": "bb"}


def test_of_two_jobs_one_decides(disk, moves):
    first, second = staged(disk, moves, 3, "a"), staged(disk, moves, 3, "a", "a")
    assert first[0].source != second[0].source
    moves.plan(batch(3), first)
    with pytest.raises(
        IngestError, match=r"^another job runs on this checkpoint: it has made .*/_ottla/q/plans/3\.json"
    ):
        moves.plan(batch(3), second)
    assert moves.planned(batch(3)) == first
    # A rename that is reported as failed and was none: it is the same plan.
    moves.plan(batch(3), first)
    # Another one may be at work on a later batch.
    later = staged(disk, moves, 4, "b")
    moves.make(3, first, again=False)
    assert disk.size(later[0].source) == 1


def test_a_file_that_is_gone_is_told(disk, moves):
    plan = staged(disk, moves, 3, "a", "bb")
    moves.plan(batch(3), plan)
    disk.delete(plan[1].source)
    told = r"^a file of batch 3 is gone: neither .*/1 nor day=1/3-1 is there\. .* take its move out of _ottla/q/plans/3\.json$"
    with pytest.raises(IngestError, match=told):
        moves.make(3, plan, again=False)
    # The first one has been moved.
    with pytest.raises(IngestError, match=told):
        moves.make(3, plan, again=True)
    disk.make(plan[1].source, "bb")
    moves.make(3, plan, again=True)
    assert data(disk) == {"3-0": "a", "3-1": "bb"}


def test_a_copy_that_was_not_deleted_is_deleted(disk, moves):
    """As a rename of S3A leaves it that ends between its copy and its delete."""
    plan = staged(disk, moves, 3, "a")
    moves.plan(batch(3), plan)
    disk.make(plan[0].target, "a")
    with pytest.raises(
        IngestError, match=r"day=1/3-0 is there already, with 1 bytes, where .* with 1 bytes is to stand"
    ):
        moves.make(3, plan, again=False)
    moves.make(3, plan, again=True)
    assert data(disk) == {"3-0": "a"}
    assert disk.size(plan[0].source) is None


def test_a_file_of_somebody_else_stays(disk, moves):
    plan = staged(disk, moves, 3, "a")
    moves.plan(batch(3), plan)
    disk.make(plan[0].target, "other")
    with pytest.raises(
        IngestError, match=r"day=1/3-0 is there already, with 5 bytes, where .* with 1 bytes is to stand"
    ):
        moves.make(3, plan, again=True)
    assert data(disk) == {"3-0": "other"}
    assert disk.size(plan[0].source) == 1


def test_old_plans_go(disk, moves):
    for number in (0, 1, KEPT):
        moves.plan(batch(number), [])
    moves.make(KEPT, [], again=False)
    assert disk.names("_ottla/q/plans") == ["1.json", f"{KEPT}.json"]
    # The checkpoint was set back so far that the plan is gone: without it the batch would be added a second time.
    with pytest.raises(IngestError, match=rf"has batch {KEPT} already, and the checkpoint plans batch 0 with"):
        moves.planned(batch(0))


def test_a_plan_for_other_offsets_is_an_error_that_names_both(disk, moves):
    """As after a checkpoint was set back: the records of the new plan would be passed over."""
    plan = staged(disk, moves, 3, "a")
    moves.plan(batch(3), plan)
    moves.make(3, plan, again=False)
    with pytest.raises(IngestError) as raised:
        moves.planned(batch(3, end=55))
    told = str(raised.value)
    assert '/_ottla/q/plans/3.json has batch 3 with {"start":{"t":{"0":30}},"end":{"t":{"0":40}}}' in told
    assert 'plans batch 3 with {"start":{"t":{"0":30}},"end":{"t":{"0":55}}}' in told
    assert moves.planned(batch(3)) == plan


def test_a_plan_of_an_earlier_version_is_done_if_it_is_the_last(disk, moves):
    plan = staged(disk, moves, 3, "a")
    disk.make("_ottla/q/plans/3.json", json.dumps({"batch": 3, "moves": plan}))
    assert moves.planned(batch(3)) == plan
    moves.plan(batch(4), [])
    with pytest.raises(IngestError, match="has batch 3 with other offsets, which it did not keep"):
        moves.planned(batch(3))
