"""Options without Spark."""

import pickle

import pytest

import ottla
from ottla.errors import ConfigError
from ottla.spark.plan.positions import EARLIEST, LATEST, Position
from ottla.spark.plan.read_options import KNOWN, ReadOptions, Topics
from ottla.spark.read import client_pool
from ottla.spark.write.options import WriteOptions

GOOD = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def test_defaults():
    options = ReadOptions.parse(GOOD)
    assert options == ReadOptions("h:1", Topics(names=("t",)))
    assert (options.start, options.end, options.max_offsets, options.max_delay) == (None, None, None, 900.0)
    assert (options.include_headers, options.fail_on_data_loss, options.poll_timeout) == (False, True, 120.0)
    assert (options.fetch_attempts, options.fetch_interval, options.latest_if_none) == (3, 1.0, False)
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_in_any_case_as_spark_takes_them():
    options = ReadOptions.parse(
        {
            "KAFKA.Bootstrap.Servers": "h:1,i:2",
            "Subscribe": " b, a,b ",
            "STARTINGOFFSETS": "Earliest",
            "endingOffsets": '{"a": {"0": -1}}',
            "maxoffsetspertrigger": "7",
            "minOffsetsPerTrigger": "5",
            "maxTriggerDelay": "90s",
            "maxBytesPerTrigger": "1000",
            "minPartitions": "3",
            "maxRecordsPerPartition": "4",
            "fetchOffset.numRetries": "9",
            "fetchOffset.retryIntervalMs": "20",
            "startingOffsetsByTimestampStrategy": "LATEST",
            "includeHEADERS": "True",
            "failOnDataLoss": "false",
            "onCorrupt": "SKIP",
            "kafkaConsumer.pollTimeoutMs": "1500",
            "kafka.isolation.level": "read_committed",
        }
    )
    assert options.bootstrap == "h:1,i:2"
    assert options.topics == Topics(names=("a", "b"))
    assert options.start == Position("startingOffsets", EARLIEST)
    assert options.end == Position("endingOffsets", {("a", 0): LATEST})
    assert options.max_offsets == 7
    assert (options.min_offsets, options.max_delay, options.max_bytes) == (5, 90.0, 1000)
    assert (options.min_partitions, options.max_records) == (3, 4)
    assert (options.fetch_attempts, options.fetch_interval, options.latest_if_none) == (9, 0.02, True)
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert options.skip_corrupt
    assert options.poll_timeout == 1.5
    assert options.properties == (("isolation.level", "read_committed"),)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"subscribe": ","}, "option subscribe names no topic"),
        ({"assign": '{"t":[0]}'}, "options subscribe and assign exclude each other"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number above 0"),
        ({"maxRecordsPerPartition": "x"}, "maxRecordsPerPartition must be"),
        ({"minRecordsPerPartition": "0"}, "minRecordsPerPartition must be a whole number above 0"),
        *(
            ({"minRecordsPerPartition": "9", name: "9"}, f"minRecordsPerPartition joins what {name} divides")
            for name in ("minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition")
        ),
        ({"minOffsetsPerTrigger": "8", "maxOffsetsPerTrigger": "7"}, "minOffsetsPerTrigger (8) is above maxOffsetsPer"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a time with a Spark unit"),
        ({"maxTriggerDelay": "3weeks"}, "not '3weeks'"),
        ({"maxBytesPerTrigger": "1k"}, "maxBytesPerTrigger must be"),
        ({"fetchOffset.numRetries": "0"}, "fetchOffset.numRetries must be"),
        ({"fetchOffset.retryIntervalMs": "-1"}, "fetchOffset.retryIntervalMs must be a whole number, 0 or above"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "must be error or latest, not 'earliest'"),
        ({"startngOffsets": "earliest"}, "did you mean startingOffsets?"),
        ({"startingOffsets": "soon"}, "startingOffsets must be"),
        ({"startingOffsets": "group: "}, "option startingOffsets names no group"),
        ({"endingOffsets": "group:g"}, "option endingOffsets must be"),
        ({"startingOffsets": "group:g", "kafka.auto.offset.reset": "none"}, "must be latest or earliest, not 'none'"),
        ({"commitOffsetsToGroup": ""}, "option commitOffsetsToGroup names no group"),
        ({"endingOffsets": '{"t": {"0": -7}}'}, "endingOffsets must be"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be a whole number above 0, not '0'"),
        ({"maxOffsetsPerTrigger": "many"}, "not 'many'"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({"kafkaConsumer.pollTimeoutMs": "-1"}, "pollTimeoutMs"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset cannot be set: use startingOffsets"),
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


def test_what_to_read():
    def topics(**given):
        return ReadOptions.parse({"kafka.bootstrap.servers": "h:1", **given}).topics

    assert topics(subscribePattern=" orders-.* ") == Topics(pattern="orders-.*")
    assert topics(assign='{"t": [1, 0]}') == Topics(assigned=(("t", 0), ("t", 1)))
    for given, why in [
        ({}, "one of the options subscribe, subscribePattern and assign must be set"),
        ({"subscribePattern": ""}, "option subscribePattern is empty"),
        ({"subscribePattern": "(a"}, r"option subscribePattern is not a regular expression.*\(a"),
        ({"assign": "t"}, "option assign must be JSON"),
        ({"subscribe": "t", "subscribePattern": "t"}, "subscribe and subscribePattern exclude each other"),
    ]:
        with pytest.raises(ValueError, match=why):
            topics(**given)


@pytest.mark.parametrize(("text", "seconds"), [("1500", 1.5), ("100ms", 0.1), ("2min", 120), ("1D", 86400)])
def test_delays_have_the_units_of_spark(text, seconds):
    assert ReadOptions.parse({**GOOD, "maxTriggerDelay": text}).max_delay == seconds


def test_groups_are_taken_and_left_unused(caplog):
    given = {"kafka.group.id": "g", "groupIdPrefix": "p", "kafka.session.timeout.ms": "9", "kafka.client.id": "c"}
    options = ReadOptions.parse({**GOOD, **given})
    assert options.properties == (("client.id", "c"),)
    assert "leaves kafka.group.id, kafka.session.timeout.ms unused" in caplog.text


@pytest.mark.parametrize("package", ["software.amazon.msk.auth.iam", "shadedmskiam.software.amazon.msk.auth.iam"])
def test_what_only_a_jvm_needs_is_taken_and_left_unused(package, caplog):
    """As every query on MSK has it."""
    given = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": f"{package}.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": f"{package}.IAMClientCallbackHandler",
        "kafka.metric.reporters": "com.example.Reporter",
        "kafka.security.providers": "com.example.Provider",
    }
    options = ReadOptions.parse({**GOOD, **given})
    left = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
    left["sasl.jaas.config"] = given["kafka.sasl.jaas.config"]
    assert dict(options.properties) == left
    unused = "ignores kafka.metric.reporters, kafka.sasl.client.callback.handler.class, kafka.security.providers"
    assert caplog.text.count(unused) == 1
    written = WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t", **given})
    assert dict(written.properties) == left
    ottla.Consumer("h:1", config=dict(options.properties)).close(timeout=0)


def test_a_class_of_ones_own_is_refused():
    given = {"kafka.sasl.mechanism": "OAUTHBEARER", "kafka.sasl.login.callback.handler.class": "com.example.Vault"}
    options = ReadOptions.parse({**GOOD, "kafka.security.protocol": "SASL_SSL", **given})
    with (
        pytest.raises(ConfigError, match=r"option kafka\.sasl\.login\.callback\.handler\.class: names a Java class"),
        client_pool.consumer(options),
    ):
        pass


def test_an_unknown_property_is_named_with_its_neighbour_and_the_list():
    with (
        pytest.raises(
            ConfigError,
            match=r"option kafka\.fetch\.max\.byte: .*did you mean fetch\.max\.bytes\? \(`ottla config consumer` lists all",
        ),
        client_pool.consumer(ReadOptions.parse({**GOOD, "kafka.fetch.max.byte": "1"})),
    ):
        pass


def test_a_batch_commits_to_no_group():
    with pytest.raises(ValueError, match="option commitOffsetsToGroup has no meaning in a batch"):
        ReadOptions.parse({**GOOD, "commitOffsetsToGroup": "g"}).check_batch()


def test_a_batch_says_that_it_has_no_triggers(caplog):
    ReadOptions.parse({**GOOD, "maxOffsetsPerTrigger": "7"}).check_batch()
    assert "ignores maxOffsetsPerTrigger" in caplog.text


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


@pytest.mark.parametrize(
    ("option", "value"),
    [("endingOffsets", "latest"), ("endingTimestamp", "7"), ("endingOffsetsByTimestamp", '{"t":{"0":7}}')],
)
def test_stream_has_no_end(option, value):
    with pytest.raises(ValueError, match=f"option {option} has no meaning in a stream: use the trigger availableNow"):
        ReadOptions.parse({**GOOD, option: value}).check_stream()


def test_a_batch_ends_after_it_begins():
    text = '{"t": {"0": %d}}'
    given = {"startingOffsets": text % 5, "endingOffsets": text % 4}
    with pytest.raises(ValueError, match="option endingOffsets ends t-0 at 4, before 5"):
        ReadOptions.parse({**GOOD, **given}).check_batch()


def test_a_time_wins_over_a_word_that_a_batch_cannot_have():
    ReadOptions.parse({**GOOD, "startingOffsets": "latest", "startingTimestamp": "7"}).check_batch()
