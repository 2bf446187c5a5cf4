"""The plain values."""

import pickle

import pytest

import ottla
from ottla import NewTopic, TopicPartition, _types


def test_a_partition_is_the_same_with_any_offset():
    assert TopicPartition("t", 1, 5) == TopicPartition("t", 1)
    assert {TopicPartition("t", 1, 5): "found"}[TopicPartition("t", 1)] == "found"
    assert TopicPartition("t", 1) != TopicPartition("t", 2)
    assert TopicPartition("t", 1, 5).offset == 5


def test_values_are_frozen_and_pickle():
    for value in (TopicPartition("t", 1, 5), NewTopic("t", 3, 1, {"a": "b"})):
        assert pickle.loads(pickle.dumps(value)) == value
        with pytest.raises(AttributeError):
            setattr(value, type(value).__match_args__[0], "other")
    assert hash(NewTopic("t", config={"a": "b"})) == hash(NewTopic("t"))


def test_submodules_come_when_they_are_asked_for():
    assert ottla.aio.Producer.__module__ == "ottla.aio._producer"
    assert ottla.testing.Broker
    with pytest.raises(AttributeError, match="nothing"):
        _ = ottla.nothing


def test_there_is_a_name_for_everything_public():
    for name in ottla.__all__:
        assert getattr(ottla, name) is not None
    assert set(_types.__all__) <= set(ottla.__all__)
