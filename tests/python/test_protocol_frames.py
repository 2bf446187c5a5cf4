"""Frames, APIs and error codes from Python, against vectors of Kafka's documentation, the corpus and kafka-python."""

from __future__ import annotations

import gzip
import json
import pickle
import runpy
from pathlib import Path

import kafka.protocol.metadata as foreign
import pytest

import ottla
from ottla import protocol
from ottla.errors import ProtocolError

ROOT = Path(__file__).parents[2]
CONFORMANCE = ROOT / "tests" / "conformance"


@pytest.mark.parametrize("version", range(10))
def test_requests_are_those_of_kafka_python(version):
    request = foreign.MetadataRequest(
        topics=[foreign.MetadataRequest.MetadataRequestTopic(name="flights")], allow_auto_topic_creation=True
    )
    request.API_VERSION = version
    request.with_header(correlation_id=7, client_id="me")
    theirs = bytes(request.encode(version=version, header=True, framed=True))
    # The default is true, so nothing is dropped where a version has no such field.
    message = {"topics": [{"name": "flights"}]}
    ours = protocol.encode_request("Metadata", version, message, correlation_id=7, client_id="me")
    assert ours == theirs
    frame = protocol.decode_frame(theirs)
    assert (frame.api, frame.version, frame.correlation_id, frame.client_id) == ("Metadata", version, 7, "me")
    assert [topic["name"] for topic in frame.message["topics"]] == ["flights"]


def header_versions():
    """The header version of every request and response, as Kafka's ApiMessageType says it."""
    for file in ("schemas-4.4.0.jsonl.gz", "schemas-3.9.1-only.jsonl.gz"):
        with gzip.open(CONFORMANCE / file, "rt") as lines:
            for text in lines:
                line = json.loads(text)
                if line["kind"] == "default" and line["type"] in {"request", "response"}:
                    yield line


def test_every_frame_has_the_header_that_kafka_gives_it():
    by_key = {api.key: api for api in protocol.APIS.values()}
    assert sorted(by_key) == list(range(95))
    seen = 0
    for line in header_versions():
        api, version = by_key[line["api"]], line["v"]
        assert version in api.versions
        assert line["flex"] == api.is_flexible(version)
        body = bytes.fromhex(line["hex"])
        if line["type"] == "request":
            assert api.request_header(version) == line["hv"]
            head = {"requestApiKey": api.key, "requestApiVersion": version, "correlationId": 5, "clientId": "me"}
            if line["hv"] == 0:
                del head["clientId"]
            frame = protocol.encode("RequestHeader", line["hv"], head) + body
            decoded = protocol.decode_frame(len(frame).to_bytes(4, "big") + frame)
            assert decoded.client_id == head.get("clientId")
        else:
            assert api.response_header(version) == line["hv"]
            frame = protocol.encode("ResponseHeader", line["hv"], {"correlationId": 5}) + body
            decoded = protocol.decode_frame(len(frame).to_bytes(4, "big") + frame, response_to=(api.name, version))
            assert decoded.client_id is None
        assert (decoded.api, decoded.version, decoded.correlation_id) == (api.name, version, 5)
        if line["type"] == "request":
            again = protocol.encode_request(
                api.name, version, decoded.message, correlation_id=5, client_id=decoded.client_id
            )
        else:
            again = protocol.encode_response(api.name, version, decoded.message, correlation_id=5)
        assert again[4:] == frame, (line["name"], version)
        seen += 1
    assert seen == 738


def test_controlled_shutdown_0_has_no_client_id():
    frame = protocol.encode_request("ControlledShutdown", 0, {"brokerId": 5}, correlation_id=1, client_id="me")
    assert frame.hex(" ") == "00 00 00 0c 00 07 00 00 00 00 00 01 00 00 00 05"
    assert protocol.decode_frame(frame) == protocol.Frame("ControlledShutdown", 0, 1, None, {"brokerId": 5})


@pytest.mark.parametrize("asked", [0, 3, 4])
def test_a_refused_api_versions_is_read_in_version_0(asked):
    # KIP-511: error 35 and no API, whatever was asked.
    frame = protocol.decode_frame(bytes.fromhex("0000000a 00000003 0023 00000000"), response_to=("ApiVersions", asked))
    assert (frame.version, frame.message) == (0, {"errorCode": 35, "apiKeys": []})
    assert protocol.ErrorCode(frame.message["errorCode"]) is protocol.ErrorCode.UNSUPPORTED_VERSION


def test_api_versions_answers_with_header_0():
    frame = protocol.encode_response("ApiVersions", 3, {}, correlation_id=3)
    assert frame[:8].hex(" ") == "00 00 00 0c 00 00 00 03"
    assert protocol.decode_frame(frame, response_to=("ApiVersions", 3)).correlation_id == 3


@pytest.mark.parametrize(
    ("data", "response_to", "text"),
    [
        ("", None, "frame: 4 bytes of length wanted, 0 there"),
        ("000000", None, "frame: 4 bytes of length wanted, 3 there"),
        ("ffffffff", None, "frame: its length is negative: -1"),
        ("00000005 00", None, "frame: its length is 5, and only 1 bytes follow"),
        (
            "00000001 0000",
            None,
            "frame: its length is 1, and 1 bytes are left over after it: decode one frame at a time",
        ),
        ("00000002 0012", None, "2 bytes needed, 0 left"),
        ("0000000a 005f 0000 00000001 0000", None, "RequestHeader: no API has the key 95, only 0 to 94 are known"),
        ("0000000a 0012 0063 00000001 0000", None, "RequestHeader: "),
        ("0000000b 0012 0063 00000001 0000 00", None, "ApiVersionsRequest has no version 99 here, only 0-"),
        ("0000000b 0012 0000 00000001 0000 07", None, "ApiVersionsRequest: 1 bytes left over"),
        ("00000003 000000", ("Fetch", 4), "ResponseHeader.correlationId: 4 bytes needed, 3 left"),
        ("00000004 00000001", ("Fetch", 4), "FetchResponse.throttleTimeMs: 4 bytes needed, 0 left"),
        ("00000004 00000001", ("Fetch", 99), "FetchResponse has no version 99 here, only 0-18"),
        ("00000004 00000001", ("Fetsh", 4), "no API is named 'Fetsh'; the nearest is 'Fetch'"),
    ],
)
def test_what_is_no_frame_is_refused(data, response_to, text):
    with pytest.raises(ProtocolError) as refused:
        protocol.decode_frame(bytes.fromhex(data), response_to=response_to)
    assert text in str(refused.value)


def test_frames_that_cannot_be_written():
    with pytest.raises(ProtocolError, match="no API is named 'Metadat'; the nearest is 'Metadata'"):
        protocol.encode_request("Metadat", 1, {})
    with pytest.raises(ProtocolError, match="MetadataRequest has no version 99 here"):
        protocol.encode_request("Metadata", 99, {})
    with pytest.raises(ProtocolError, match=r"MetadataResponse.brokers\[0\].nodeId: an int wanted, str given"):
        protocol.encode_response("Metadata", 1, {"brokers": [{"nodeId": "1"}]})
    with pytest.raises(ProtocolError, match=r"RequestHeader.clientId: a string of 40000 bytes"):
        protocol.encode_request("Metadata", 1, {}, client_id="x" * 40000)


def test_forms_of_frames():
    frame = protocol.encode_request("SaslAuthenticate", 0, {"authBytes": b"\0u\0p"})
    assert protocol.decode_frame(frame, form="json").message == {"authBytes": "AHUAcA=="}
    assert protocol.encode_request("SaslAuthenticate", 0, {"authBytes": "AHUAcA=="}, form="json") == frame


def test_values_pickle():
    frame = protocol.decode_frame(protocol.encode_request("Metadata", 1, {"topics": [{"name": "t"}]}))
    for value in (frame, protocol.APIS["Fetch"], protocol.MESSAGES["FetchRequest"], protocol.ErrorCode.NONE):
        assert pickle.loads(pickle.dumps(value)) == value


def test_the_tables():
    fetch = protocol.APIS["Fetch"]
    assert (fetch.key, str(fetch.versions), fetch.flexible, fetch.listeners) == (
        1,
        "0-18",
        12,
        ("broker", "controller"),
    )
    assert 18 in fetch.versions
    assert 19 not in fetch.versions
    assert list(protocol.MESSAGES["RequestHeader"]) == [0, 1, 2]
    assert len(protocol.MESSAGES["RequestHeader"]) == 3
    assert [api.name for api in protocol.APIS.values() if api.unstable] == ["InitProducerId"]
    for api in protocol.APIS.values():
        assert protocol.MESSAGES[f"{api.name}Request"] == protocol.MESSAGES[f"{api.name}Response"] == api.versions
    with pytest.raises(TypeError):
        protocol.APIS["Mine"] = fetch


def test_error_codes_are_those_of_the_schemas():
    text = runpy.run_path(str(ROOT / "scripts" / "error_codes.py"))["text"]()
    assert Path(protocol._error_codes.__file__).read_text() == text, "run scripts/error_codes.py"
    table = json.loads((ROOT / "schemas" / "errors.json").read_text())
    assert [(code.value, code.name, code.retriable) for code in protocol.ErrorCode] == [
        (row["code"], row["name"], row["retriable"]) for row in table
    ]


def test_an_error_code_of_tomorrow_is_shown():
    code = protocol.ErrorCode(9999)
    assert (code, code.name, code.retriable) == (9999, "UNKNOWN_ERROR_CODE", False)
    assert str(code) == f"{code}" == "UNKNOWN_ERROR_CODE (9999)"
    assert pickle.loads(pickle.dumps(code)) == code
    for wrong in (2**15, "6", None):
        with pytest.raises(ValueError, match="is not a valid ErrorCode"):
            protocol.ErrorCode(wrong)


def test_the_module_is_part_of_the_package():
    assert ottla.protocol is protocol
    assert "protocol" in ottla.__all__


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**70])
def test_a_correlation_id_has_32_bits(number):
    for write in (protocol.encode_request, protocol.encode_response):
        with pytest.raises(ProtocolError, match=rf"^correlation_id: {number} is not an int32"):
            write("ApiVersions", 0, {}, correlation_id=number)
