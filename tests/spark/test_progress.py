"""How far a stream is behind, from what Spark reports."""

import json
from types import SimpleNamespace

import pytest

from ottla.spark import offsets_behind_latest

LATEST = {"t": {"0": 100, "1": 40}, "u": {"0": 7}}
END = {"t": {"0": 60, "1": 40}}
BEHIND = {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 40, "avgOffsetsBehindLatest": 47 / 3}


@pytest.mark.parametrize(
    "source",
    [
        {"latestOffset": json.dumps(LATEST), "endOffset": json.dumps(END)},
        {"latestOffset": LATEST, "endOffset": END},
        {"latestOffset": str(LATEST), "endOffset": str(END)},
        SimpleNamespace(latestOffset=json.dumps(LATEST), endOffset=json.dumps(END)),
    ],
    ids=["classic", "objects", "classic before 4.2", "listener"],
)
def test_offsets_behind_latest(source):
    assert offsets_behind_latest(source) == BEHIND


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"latestOffset": None, "endOffset": None},
        {"latestOffset": "None"},
        {"latestOffset": "{}", "endOffset": "{}"},
    ],
)
def test_nothing_is_known(source):
    assert offsets_behind_latest(source) == {}
