"""The same topic through Spark's own Kafka source: same rows, same columns, and checkpoints that move both ways."""

import json

import pytest

from .conftest import rows

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(240)]


@pytest.fixture
def filled(topic):
    t = topic(3)
    t.produce(range(100))
    t.produce(range(100, 120), headers=[("h", b"x"), ("n", None)])
    return t


def test_same_schema(filled):
    for headers in ("false", "true"):
        ours, theirs = filled.read(includeHeaders=headers), filled.read("kafka", includeHeaders=headers)
        assert ours.schema == theirs.schema


@pytest.mark.parametrize(
    "options",
    [
        {"includeHeaders": "true"},
        # On real Kafka `test_conformance.py` has these.
        *(
            pytest.param(options, marks=pytest.mark.nightly)
            for options in (
                {},
                {"startingOffsets": "earliest", "endingOffsets": "latest"},
                {"startingOffsets": {"0": 5, "1": -2, "2": 0}},
            )
        ),
        {"startingOffsets": {"0": 1, "1": -2, "2": 2}, "endingOffsets": {"0": 3, "1": -1, "2": 2}},
    ],
    ids=lambda o: " ".join(o) or "plain",
)
def test_same_rows(filled, options):
    given = {k: json.dumps({filled.name: v}) if isinstance(v, dict) else v for k, v in options.items()}
    theirs = rows(filled.read("kafka", **given))
    assert rows(filled.read(**given)) == theirs
    assert theirs


# Each of the two checkpoints moves there and back; the other way round it is real Kafka's, in `test_conformance.py`.
@pytest.mark.parametrize(
    ("first", "second"), [("kafka", "ottla"), pytest.param("ottla", "kafka", marks=pytest.mark.nightly)]
)
def test_checkpoint_moves(topic, tmp_path, first, second):
    t = topic(2)
    t.produce(range(30))
    t.stream(tmp_path, first, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    t.produce(range(30, 50))
    t.stream(tmp_path, second, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    t.produce(range(50, 60))
    t.stream(tmp_path, first, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    assert t.streamed(tmp_path) == list(range(60))


@pytest.mark.parametrize("most", ["40", *(pytest.param(most, marks=pytest.mark.nightly) for most in ("7", "1000"))])
def test_same_micro_batches(topic, tmp_path, most):
    t = topic(2)
    t.produce(range(90), partition=0)
    t.produce(range(90, 97), partition=1)
    ends = {}
    for source in ("kafka", "ottla"):
        batches = t.stream(tmp_path / source, source, startingOffsets="earliest", maxOffsetsPerTrigger=most)
        ends[source] = [json.loads(b["sources"][0]["endOffset"]) for b in batches]
    assert ends["ottla"] == ends["kafka"]
