"""The tree of exceptions: which class an error has, what it carries, and that it travels."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest

from ottla import _ottla, errors

CODES = json.loads((Path(__file__).parents[2] / "schemas" / "errors.json").read_text())
CLASSES = [getattr(errors, name) for name in errors.__all__]
FACTS = {
    "kind": "broker",
    "code": 29,
    "name": "TOPIC_AUTHORIZATION_FAILED",
    "retriable": False,
    "broker": "localhost:9092",
    "api": "Produce",
    "topic": "t",
    "partition": 3,
    "cause": "no",
    "attempts": 4,
    "written": False,
}


def test_both_languages_name_the_same_kinds():
    assert set(_ottla.error_kinds()) == set(errors._BY_KIND) - {"forked", "decode", "encode"}


def test_classes_of_codes_are_of_codes_that_there_are():
    assert set(errors._BY_CODE) <= {row["name"] for row in CODES}


def test_a_code_chooses_the_class_before_the_kind():
    error = errors._from_native("no (topic t)", FACTS)
    assert type(error) is errors.AuthorizationError
    assert str(error) == "no (topic t)"
    assert {name: getattr(error, name) for name in FACTS} == FACTS


def test_what_a_transaction_needs_next_chooses_the_class_whatever_the_code():
    for kind, error_class in [
        ("abortable", errors.TransactionAbortableError),
        ("fenced", errors.FencedError),
        ("fatal", errors.FatalError),
        ("outcome_unknown", errors.UnknownOutcomeError),
    ]:
        assert type(errors._from_native("x", FACTS | {"kind": kind})) is error_class


def test_a_kind_chooses_the_class_without_a_code():
    for kind, kind_class in errors._BY_KIND.items():
        assert type(errors._from_native("x", {"kind": kind})) is kind_class
    assert type(errors._from_native("x", {"kind": "broker", "name": "NOT_CONTROLLER"})) is errors.BrokerError


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_every_error_pickles_with_all_it_knows(error_class):
    error = error_class("text")
    error.__dict__.update(FACTS)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is error_class
        assert str(again) == "text"
        assert again.__dict__ == error.__dict__


def test_the_offsets_of_a_truncated_log_are_attributes():
    """As in Java's LogTruncationException, which has the divergent offset with its leader epoch."""
    facts = {"offset": 9, "leader_epoch": 2, "divergent_offset": 5, "divergent_epoch": None}
    error = errors._from_native("text", {"kind": "truncated", **facts})
    assert type(error) is errors.LogTruncatedError
    for again in (error, pickle.loads(pickle.dumps(error))):
        assert {name: getattr(again, name) for name in facts} == facts
    unknown = errors.LogTruncatedError("text")
    assert [getattr(unknown, name) for name in facts] == [-1, None, None, None]


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_every_error_is_a_kafka_error_with_defaults(error_class):
    error = error_class("text")
    assert isinstance(error, errors.KafkaError)
    assert (error.code, error.topic, error.attempts, error.retriable, error.failures) == (None, None, 0, False, {})
    assert error_class.__doc__


def test_errors_are_also_what_python_calls_them():
    for error_class, builtin in [
        (errors.ConfigError, ValueError),
        (errors.ArgumentError, ValueError),
        (errors.TooLargeError, ValueError),
        (errors.ProtocolError, ValueError),
        (errors.UnreachableError, ConnectionError),
        (errors.KafkaTimeoutError, TimeoutError),
        (errors.UnknownOutcomeError, TimeoutError),
        (errors.ClosedError, RuntimeError),
        (errors.ForkedError, RuntimeError),
    ]:
        assert issubclass(error_class, builtin)


def test_the_docstring_draws_the_whole_tree():
    for error_class in CLASSES:
        assert error_class.__name__ in errors.__doc__
