"""`ottla.protocol.error_response`: requests refused as Kafka's own classes refuse them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ottla import protocol
from ottla.errors import ProtocolError

CORPUS = Path(__file__).parents[1] / "conformance" / "refusals.jsonl.gz"
NAMES = {api.key: name for name, api in protocol.APIS.items()}
# Fewer than are equal in crates/protocol/tests/refusals.rs, which also says why the others are not.
EQUAL = 4_500


@pytest.mark.parametrize("form", ["python", "json"])
def test_answers_are_kafkas(form):
    equal = total = 0
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            name, version = NAMES[line["api"]], line["v"]
            request = protocol.decode(f"{name}Request", version, bytes.fromhex(line["request"]), form=form)
            for asked in line.get("answers", ()):
                answer = protocol.error_response(
                    name,
                    version,
                    request,
                    asked["code"],
                    message=asked["message"],
                    throttle_time_ms=asked["throttle"],
                    form=form,
                )
                total += 1
                frame = protocol.encode_response(name, version, answer, correlation_id=3, form=form)
                assert protocol.decode_frame(frame, response_to=(name, version), form=form).message == answer
                equal += protocol.encode(f"{name}Response", version, answer, form=form).hex() == asked.get("hex")
    assert equal > EQUAL, total


def test_an_error_stands_where_the_version_has_a_place_for_it():
    request = {"topics": [{"topic": "t", "partitions": [{"partition": 4}]}], "sessionId": 8}
    code = protocol.ErrorCode.NOT_LEADER_OR_FOLLOWER
    old = protocol.error_response("Fetch", 4, {"topics": request["topics"]}, code, throttle_time_ms=5)
    assert [p["errorCode"] for p in old["responses"][0]["partitions"]] == [code]
    assert "errorCode" not in old
    assert old["throttleTimeMs"] == 5
    both = protocol.error_response("Fetch", 12, request, code)
    assert (both["errorCode"], both["sessionId"], both["responses"][0]["topic"]) == (code, 8, "t")
    assert both["responses"][0]["partitions"][0]["partitionIndex"] == 4
    said = protocol.error_response("CreateTopics", 7, {"topics": [{"name": "t"}]}, 41, message="not here")
    assert (said["topics"][0]["errorCode"], said["topics"][0]["errorMessage"]) == (41, "not here")


@pytest.mark.parametrize(
    ("arguments", "options", "what"),
    [
        (("Fetsh", 4, {}, 1), {}, "no API is named 'Fetsh'; the nearest is 'Fetch'"),
        (("Fetch", 99, {}, 1), {}, "99"),
        (("Fetch", 1 << 20, {}, 1), {}, "FetchRequest has no version 1048576"),
        (("Fetch", 4, {"topiks": []}, 1), {}, "topiks"),
        (("Fetch", 4, {}, 1 << 15), {}, "32768 is no error code"),
        (("Fetch", 4, {}, 1), {"throttle_time_ms": 1 << 31}, "2147483648 is no throttle time"),
        (("DescribeCluster", 0, {}, 1), {"message": "x" * 32_768}, "errorMessage|error_message"),
    ],
)
def test_what_cannot_be_said_is_an_error(arguments, options, what):
    with pytest.raises(ProtocolError, match=what):
        protocol.error_response(*arguments, **options)
