"""Options without Spark."""

import pickle

import pytest

from ottla.spark.offsets import EARLIEST, LATEST
from ottla.spark.options import KNOWN, ReadOptions

GOOD = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def test_defaults():
    options = ReadOptions.parse(GOOD)
    assert options == ReadOptions("h:1", ("t",), None, None, None, False, True, 120.0, ())
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_in_any_case_as_spark_takes_them():
    options = ReadOptions.parse(
        {
            "KAFKA.Bootstrap.Servers": "h:1,i:2",
            "Subscribe": " b, a,b ",
            "STARTINGOFFSETS": "Earliest",
            "endingOffsets": '{"a": {"0": -1}}',
            "maxoffsetspertrigger": "7",
            "includeHEADERS": "True",
            "failOnDataLoss": "false",
            "kafkaConsumer.pollTimeoutMs": "1500",
            "kafka.isolation.level": "read_committed",
        }
    )
    assert options.bootstrap == "h:1,i:2"
    assert options.topics == ("a", "b")
    assert options.start == EARLIEST
    assert options.end == {("a", 0): LATEST}
    assert options.max_offsets == 7
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert options.poll_timeout == 1.5
    assert options.properties == (("isolation.level", "read_committed"),)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"subscribe": ","}, "subscribe is missing"),
        ({"startngOffsets": "earliest"}, "Did you mean startingOffsets?"),
        ({"startingOffsets": "soon"}, "startingOffsets must be"),
        ({"endingOffsets": '{"t": {"0": -7}}'}, "endingOffsets must be"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be a whole number above 0, not '0'"),
        ({"maxOffsetsPerTrigger": "many"}, "not 'many'"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({"kafkaConsumer.pollTimeoutMs": "-1"}, "pollTimeoutMs"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset cannot be set: say where to begin"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer cannot be set"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer cannot be set"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit cannot be set"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes cannot be set"),
    ],
)
def test_errors_name_the_option(change, why):
    with pytest.raises(ValueError, match="option|Offsets") as raised:
        ReadOptions.parse({**GOOD, **change})
    assert why in str(raised.value)


def test_a_repr_leaves_out_properties_since_some_are_secret():
    options = ReadOptions.parse({**GOOD, "kafka.sasl.password": "hunter2"})
    assert dict(options.properties) == {"sasl.password": "hunter2"}
    assert "hunter2" not in repr(options)


def test_unknown_option_lists_the_known_ones():
    with pytest.raises(ValueError, match="option topics is not known") as raised:
        ReadOptions.parse({**GOOD, "topics": "t"})
    assert all(name in str(raised.value) for name in KNOWN)


@pytest.mark.parametrize(
    "change",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"t": {"0": -1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"t": {"0": -2}}'},
    ],
)
def test_batch_that_would_read_nothing_is_refused(change):
    with pytest.raises(ValueError, match="Offsets cannot"):
        ReadOptions.parse({**GOOD, **change}).check_batch()


def test_stream_has_no_end():
    with pytest.raises(ValueError, match="availableNow"):
        ReadOptions.parse({**GOOD, "endingOffsets": "latest"}).check_stream()
