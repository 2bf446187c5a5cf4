"""Messages from Python, in both forms, against what Kafka's own classes wrote (`tests/conformance/README.md`)."""

from __future__ import annotations

import array
import base64
import collections
import gzip
import json
import mmap
import pickle
import threading
import types
import uuid
from enum import IntEnum
from pathlib import Path

import pytest

from ottla import protocol
from ottla.errors import ArgumentError, ProtocolError

CONFORMANCE = Path(__file__).parents[1] / "conformance"


def today(line):
    """The line under the names and versions of today: one API was renamed, keys had their type for a version."""
    name, version = line["name"], line["v"]
    if name.startswith("ListClientMetricsResources"):
        name = name.replace("ListClientMetricsResources", "ListConfigResources")
        if "clientMetricsResources" in line.get("json", {}):
            resources = line["json"].pop("clientMetricsResources")
            line["json"]["configResources"] = [
                {("resourceName" if key == "name" else key): value for key, value in resource.items()}
                for resource in resources
            ]
    elif line["type"] == "data" and name.endswith("Key") and version not in protocol.MESSAGES[name]:
        version = 0
    return name, version


@pytest.fixture(scope="module")
def corpus():
    lines = []
    for file in ("schemas-4.4.0.jsonl.gz", "schemas-3.9.1-only.jsonl.gz"):
        with gzip.open(CONFORMANCE / file, "rt") as texts:
            lines += [json.loads(text) for text in texts]
    assert len(lines) == 14_578 + 2_681
    return [(*today(line), line) for line in lines]


def as_json(value):
    """What a value of the Python form is in JSON, by the rules of Kafka's JsonConverter."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        shown = {name: as_json(item) for name, item in value.items()}
        if "_unknownTaggedFields" in value:
            fields = value["_unknownTaggedFields"]
            shown["_unknownTaggedFields"] = [{"tag": f["tag"], "hex": f["bytes"].hex()} for f in fields]
        return shown
    assert value is None or type(value) in {bool, int, float, str}
    return value


def holds(shown, expected):
    """Is `expected` all there, with more only in structs: the tagged fields that JSON leaves out?"""
    if isinstance(expected, dict):
        return shown.keys() >= expected.keys() and all(holds(shown[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(shown) == len(expected) and all(map(holds, shown, expected))
    return shown == expected and type(shown) is type(expected)


def test_every_sample_both_ways_in_both_forms(corpus):
    pairs = set()
    for name, version, line in corpus:
        if line["kind"] == "mut" or line["kind"].startswith("enc-"):
            continue
        data, expected = bytes.fromhex(line["hex"]), line["json"]
        where = f"{name} {version} {line['kind']}"
        assert protocol.decode(name, version, data, form="json") == expected, where
        assert protocol.encode(name, version, expected, form="json") == data, where
        decoded = protocol.decode(name, version, data)
        assert holds(as_json(decoded), expected), where
        assert protocol.encode(name, version, decoded) == data, where
        if len(data) < 300:
            for cut in range(0, len(data), 7):
                with pytest.raises(ProtocolError):
                    protocol.decode(name, version, data[:cut])
        pairs.add((line["name"], line["v"]))
    assert len(pairs) == 877


def test_what_a_version_lacks_is_dropped_or_refused(corpus):
    kinds = collections.Counter()
    for name, version, line in corpus:
        kind = line["kind"]
        if kind == "enc-ignorable":
            written = protocol.encode(name, version, line["json"], form="json")
            assert written.hex() == line["hex"], (name, version, line["field"])
        elif kind.startswith("enc-"):
            with pytest.raises(ProtocolError) as refused:
                protocol.encode(name, version, line["json"], form="json")
            text = str(refused.value).lower()
            assert text.startswith(name.lower()), text
            assert line["field"].lower().split(".")[-1].replace("[]", "") in text, (line["field"], text)
        kinds[kind] += 1
    assert (kinds["enc-ignorable"], kinds["enc-unsupported"], kinds["enc-null"]) == (631, 356, 40)


def test_damaged_bytes_are_refused_or_come_back(corpus):
    taken, texts = 0, []
    for name, version, line in corpus:
        if line["kind"] != "mut":
            continue
        data = bytes.fromhex(line["hex"])
        try:
            decoded = protocol.decode(name, version, data)
        except ProtocolError as error:
            texts.append((name, str(error)))
        else:
            assert (line["verdict"], line["left"]) == ("ok", 0)
            assert protocol.encode(name, version, decoded).hex() == line.get("rehex", line["hex"])
            taken += 1
    assert taken > 1000
    assert len(texts) > 1000
    assert all(text.startswith(name) for name, text in texts)


def test_the_json_form_is_ready_for_json():
    message = {"topics": [{"topicId": uuid.uuid4(), "name": "t"}]}
    data = protocol.encode("MetadataRequest", 12, message)
    text = json.dumps(protocol.decode("MetadataRequest", 12, data, form="json"))
    assert protocol.encode("MetadataRequest", 12, json.loads(text), form="json") == data


FETCH = {"maxWaitMs": 1, "minBytes": 1, "topics": [{"topic": "t", "partitions": [{"partition": 0}]}]}


def fetch(**partition):
    return {"topics": [{}, {"partitions": [{}, partition]}]}


@pytest.mark.parametrize(
    ("name", "version", "message", "text"),
    [
        ("FetchRequst", 4, {}, 'no message is named "FetchRequst"; the nearest is "FetchRequest"'),
        ("FetchRequest", 99, {}, "FetchRequest has no version 99 here, only 0-18"),
        ("FetchRequest", -1, {}, "FetchRequest has no version -1 here, only 0-18"),
        ("FetchRequest", 2**40, {}, "FetchRequest has no version 1099511627776"),
        (
            "FetchRequest",
            4,
            fetch(partitionMaxBytes="x"),
            "FetchRequest.topics[1].partitions[1].partitionMaxBytes: an int wanted, str given",
        ),
        (
            "FetchRequest",
            4,
            fetch(partition=True),
            "FetchRequest.topics[1].partitions[1].partition: an int wanted, bool given",
        ),
        (
            "FetchRequest",
            4,
            fetch(partition=1.0),
            "FetchRequest.topics[1].partitions[1].partition: an int wanted, float given",
        ),
        (
            "FetchRequest",
            4,
            fetch(partition=None),
            "FetchRequest.topics[1].partitions[1].partition: an int wanted, None given",
        ),
        (
            "FetchRequest",
            4,
            fetch(partition=2**31),
            "FetchRequest.topics[1].partitions[1].partition: 2147483648 is not an int32, from -2147483648 to 2147483647",
        ),
        (
            "FetchRequest",
            4,
            fetch(fetchOffset=2**63),
            "FetchRequest.topics[1].partitions[1].fetchOffset: 9223372036854775808 is not an int64, from -9223372036854775808",
        ),
        (
            "FetchRequest",
            4,
            fetch(fetchoffset=1),
            'FetchRequest.topics[1].partitions[1]: no field is named "fetchoffset"; the nearest is "fetchOffset"',
        ),
        ("FetchRequest", 4, {5: 1}, 'FetchRequest: no field is named "5"; the nearest is'),
        ("FetchRequest", 4, {"topics": 5}, "FetchRequest.topics: a list wanted, int given"),
        ("FetchRequest", 4, {"topics": "ab"}, "FetchRequest.topics: a list wanted, str given"),
        ("FetchRequest", 4, {"topics": b"ab"}, "FetchRequest.topics: a list wanted, bytes given"),
        ("FetchRequest", 4, {"topics": None}, "FetchRequest.topics: a list wanted, None given"),
        ("FetchRequest", 4, {"topics": [5]}, "FetchRequest.topics[0]: a dict wanted, int given"),
        ("FetchRequest", 4, [], "FetchRequest: a dict wanted, list given"),
        ("FetchRequest", 4, {"topics": [{"topic": b"t"}]}, "FetchRequest.topics[0].topic: a str wanted, bytes given"),
        ("FetchRequest", 4, {"topics": [{"topic": "\ud800"}]}, "FetchRequest.topics[0].topic: UnicodeEncodeError"),
        (
            "FetchRequest",
            4,
            {"topics": [{"topic": "t" * 32768}]},
            "topics[0].topic: a string of 32768 bytes; at most 32767 are allowed",
        ),
        (
            "FetchRequest",
            13,
            {"topics": [{"topicId": "x"}]},
            "FetchRequest.topics[0].topicId: a uuid.UUID wanted, str given",
        ),
        (
            "FetchRequest",
            4,
            {"forgottenTopicsData": [{"topic": "t"}]},
            "FetchRequest.forgottenTopicsData: version 4 has no such field, so it must have its default",
        ),
        ("MetadataRequest", 0, {"topics": None}, "MetadataRequest.topics: null is not allowed in version 0"),
        (
            "MetadataRequest",
            4,
            {"allowAutoTopicCreation": 1},
            "MetadataRequest.allowAutoTopicCreation: a bool wanted, int given",
        ),
        (
            "JoinGroupRequest",
            1,
            {"protocols": [{"metadata": "x"}]},
            "JoinGroupRequest.protocols[0].metadata: bytes wanted, str given",
        ),
        (
            "AlterClientQuotasRequest",
            0,
            {"entries": [{"ops": [{"value": "1"}]}]},
            "entries[0].ops[0].value: a float wanted, str given",
        ),
        (
            "MetadataRequest",
            9,
            {"_unknownTaggedFields": [{"tag": 1, "hex": "00"}]},
            'MetadataRequest._unknownTaggedFields: a list of {"tag": int, "bytes": bytes} wanted, list given',
        ),
        (
            "MetadataRequest",
            8,
            {"_unknownTaggedFields": [{"tag": 1, "bytes": b""}]},
            "MetadataRequest: version 8 has no tagged fields",
        ),
        (
            "SaslHandshakeRequest",
            0,
            {"_unknownTaggedFields": []},
            "SaslHandshakeRequest: _unknownTaggedFields stands here",
        ),
    ],
)
def test_errors_of_encoding_name_the_field(name, version, message, text):
    with pytest.raises(ProtocolError) as refused:
        protocol.encode(name, version, message)
    assert text in str(refused.value)
    assert refused.value.cause == str(refused.value)
    assert isinstance(refused.value, ValueError)
    assert pickle.loads(pickle.dumps(refused.value)).args == refused.value.args


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"topics": []}, "MetadataRequest.includeTopicAuthorizedOperations: missing in version 12"),
        ({"topics": [{"topicId": "!" * 22, "name": "t"}]}, "MetadataRequest.topics[0].topicId: not a uuid"),
        ({"topics": [{"topicId": uuid.UUID(int=0)}]}, "MetadataRequest.topics[0].topicId: a uuid wanted, UUID given"),
        ({"nothing": 1}, "MetadataRequest"),
    ],
)
def test_errors_of_encoding_json(message, text):
    message = {"allowAutoTopicCreation": True, **message}
    with pytest.raises(ProtocolError) as refused:
        protocol.encode("MetadataRequest", 12, message, form="json")
    assert text in str(refused.value)


def test_base64_is_checked():
    join = {
        "groupId": "", "sessionTimeoutMs": 1, "memberId": "", "protocolType": "",
        "protocols": [{"name": "range", "metadata": "a"}],
    }  # fmt: skip
    with pytest.raises(ProtocolError, match=r"^JoinGroupRequest.protocols\[0\].metadata: not base64$"):
        protocol.encode("JoinGroupRequest", 0, join, form="json")


def test_errors_of_decoding_name_the_field():
    # A Fetch response whose last records are cut.
    start = protocol.encode(
        "FetchResponse", 4, {"responses": [{"topic": "t", "partitions": [{"records": bytes(812)}]}] * 4}
    )
    text = "FetchResponse.responses[3].partitions[0].records: 812 bytes needed, 40 left"
    for buffer in (start[:-772], bytearray(start[:-772])):
        with pytest.raises(ProtocolError) as refused:
            protocol.decode("FetchResponse", 4, buffer)
        assert str(refused.value) == text
    with pytest.raises(ProtocolError, match=r"^FetchResponse: 3 bytes left over$"):
        protocol.decode("FetchResponse", 4, start + b"abc")
    with pytest.raises(ProtocolError, match='the nearest is "FetchResponse"'):
        protocol.decode("FetchRespons", 4, start)
    with pytest.raises(ProtocolError, match="FetchResponse has no version 19 here, only 0-18"):
        protocol.decode("FetchResponse", 19, start)


def test_forms_there_are():
    with pytest.raises(ArgumentError, match='form is "python" or "json", and was \'xml\''):
        protocol.decode("MetadataRequest", 0, b"", form="xml")
    with pytest.raises(ArgumentError, match="and was 5"):
        protocol.encode("MetadataRequest", 0, {}, form=5)


def test_a_field_that_is_missing_takes_its_default():
    decoded = protocol.decode("FetchRequest", 12, protocol.encode("FetchRequest", 12, {}))
    assert decoded["replicaId"] == -1
    assert decoded["maxBytes"] == 2**31 - 1
    assert decoded["clusterId"] is None
    assert decoded["topics"] == []
    assert "clusterId" not in protocol.decode("FetchRequest", 12, protocol.encode("FetchRequest", 12, {}), form="json")


def test_values_that_stand_for_others_are_taken():
    class Number(IntEnum):
        SEVEN = 7

    class Index:
        def __index__(self):
            return 7

    plain = protocol.encode("FetchRequest", 4, {"maxWaitMs": 7, "topics": [{"topic": "t"}]})
    for wait in (Number.SEVEN, Index(), protocol.ErrorCode(7)):
        assert protocol.encode("FetchRequest", 4, {"maxWaitMs": wait, "topics": [{"topic": "t"}]}) == plain
    topics = [({"topic": "t"},), collections.deque([{"topic": "t"}]), [types.MappingProxyType({"topic": "t"})]]
    for given in topics:
        message = collections.OrderedDict(maxWaitMs=7, topics=given)
        assert protocol.encode("FetchRequest", 4, message) == plain
    sync = protocol.encode("SyncGroupResponse", 0, {"assignment": b"abcd" * 5000})
    for data in (bytearray(b"abcd" * 5000), memoryview(b"abcd" * 5000), array.array("B", b"abcd" * 5000)):
        assert protocol.encode("SyncGroupResponse", 0, {"assignment": data}) == sync


def test_exceptions_of_the_callers_objects_are_told():
    class Broken:
        def __index__(self):
            raise RuntimeError("no number today")

    with pytest.raises(ProtocolError, match=r"^FetchRequest.maxWaitMs: RuntimeError: no number today$"):
        protocol.encode("FetchRequest", 4, {"maxWaitMs": Broken()})


def test_unknown_tagged_fields_are_kept_where_they_stand():
    tags = [{"tag": 9, "bytes": b"\x01\x02"}]
    message = {"topics": [{"name": "t", "_unknownTaggedFields": tags}], "_unknownTaggedFields": tags}
    data = protocol.encode("MetadataRequest", 9, message)
    decoded = protocol.decode("MetadataRequest", 9, data)
    assert decoded["_unknownTaggedFields"] == decoded["topics"][0]["_unknownTaggedFields"] == tags
    shown = protocol.decode("MetadataRequest", 9, data, form="json")
    assert shown["topics"][0]["_unknownTaggedFields"] == [{"tag": 9, "hex": "0102"}]
    assert protocol.encode("MetadataRequest", 9, shown, form="json") == data


def test_every_kind_of_buffer_decodes(tmp_path):
    data = protocol.encode("FetchResponse", 4, {"responses": [{"topic": "t", "partitions": [{"records": b"x" * 9}]}]})
    expected = protocol.decode("FetchResponse", 4, data)
    file = tmp_path / "frame"
    file.write_bytes(data)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for buffer in (bytearray(data), memoryview(data), memoryview(b"x" + data)[1:], array.array("B", data), mapped):
            assert protocol.decode("FetchResponse", 4, buffer) == expected
    for wrong in ("text", 5, None, [1]):
        with pytest.raises(TypeError, match="data must be bytes-like, not"):
            protocol.decode("FetchResponse", 4, wrong)


def test_threads_share_the_module():
    message = {"topics": [{"name": f"topic-{i}"} for i in range(200)]}
    data = protocol.encode("MetadataRequest", 9, message)
    large = protocol.encode("FetchResponse", 4, {"responses": [{"partitions": [{"records": bytes(200_000)}]}]})
    wrong = []

    def work():
        for _ in range(30):
            names = [t["name"] for t in protocol.decode("MetadataRequest", 9, data)["topics"]]
            fetched = protocol.decode("FetchResponse", 4, large)
            if (
                names != [t["name"] for t in message["topics"]]
                or protocol.encode("MetadataRequest", 9, message) != data
            ):
                wrong.append(names)
            if len(fetched["responses"][0]["partitions"][0]["records"]) != 200_000:
                wrong.append(fetched)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


def test_a_key_of_a_decoded_message_is_one_object():
    data = protocol.encode("MetadataRequest", 4, {"topics": [{"name": "a"}, {"name": "b"}]})
    first, second = protocol.decode("MetadataRequest", 4, data)["topics"]
    assert next(iter(first)) is next(iter(second))
