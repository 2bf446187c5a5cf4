"""The embedded schema registry, by Confluent's client, its serializers, and foreign judges of its rules."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    MetadataTags,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import any_pb2, api_pb2, descriptor_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2

import ottla
from ottla import errors
from ottla.testing import Certificates, KafkaContainer, Registry

USER = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
WITH_AGE = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int"}]}
WITH_DEFAULT = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": 0}]}


@pytest.fixture
def embedded():
    with Registry() as registry:
        yield registry


@pytest.fixture
def client(embedded):
    # Without retries, whose pauses would slow the tests of failures.
    with SchemaRegistryClient({"url": embedded.url, "max.retries": 0}) as client:
        yield client


def avro(schema, references=()):
    return Schema(json.dumps(schema), "AVRO", list(references))


def proto(text, references=()):
    return Schema(text, "PROTOBUF", list(references))


def refused(call, status, code, text):
    with pytest.raises(SchemaRegistryError, match=text) as raised:
        call()
    assert (raised.value.http_status_code, raised.value.error_code) == (status, code)


def request(embedded, method, path, body=None):
    content = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(embedded.url + path, data=content, method=method)
    with urllib.request.urlopen(asked, timeout=10) as response:
        return json.loads(response.read())


def test_subjects_versions_and_ids(client):
    first = client.register_schema("user-value", avro(USER))
    second = client.register_schema("user-value", avro(WITH_DEFAULT))
    assert (first, second) == (1, 2)
    # A schema has one id, whatever the subject is and however it is written.
    assert client.register_schema("other-value", Schema(json.dumps(USER, indent=4), "AVRO")) == first
    assert client.get_subjects() == ["other-value", "user-value"]
    assert client.get_versions("user-value") == [1, 2]
    latest = client.get_latest_version("user-value")
    assert (latest.version, latest.schema_id) == (2, second)
    assert json.loads(client.get_schema(first).schema_str) == USER
    assert client.lookup_schema("user-value", avro(USER)).version == 1
    assert client.get_subjects_by_schema_id(first) == ["other-value", "user-value"]
    assert {(one.subject, one.version) for one in client.get_schema_versions(first)} == {
        ("other-value", 1),
        ("user-value", 1),
    }
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]
    assert client.get_schema_by_guid(latest.guid).schema_str == latest.schema.schema_str


def test_errors_have_confluents_codes(client):
    client.register_schema("s", avro(USER))
    refused(lambda: client.get_versions("none"), 404, 40401, "Subject 'none' not found.")
    refused(lambda: client.get_version("s", 7), 404, 40402, "Version 7 not found.")
    refused(lambda: client.get_version("s", 0), 422, 42202, "The specified version '0' is not a valid version id.")
    refused(lambda: client.get_schema(99), 404, 40403, "Schema 99 not found")
    refused(lambda: client.lookup_schema("s", avro("int")), 404, 40403, "Schema not found")
    refused(lambda: client.get_compatibility("s"), 404, 40408, "does not have subject-level compatibility configured")
    refused(lambda: client.get_mode("s"), 404, 40409, "does not have subject-level mode configured")
    refused(lambda: client.register_schema("s", avro(WITH_AGE)), 409, 409, "incompatible with an earlier schema")
    for kind, text in [
        ("AVRO", '{"type": "record"}'),
        ("JSON", '{"type": "text"}'),
        ("PROTOBUF", "message {"),
        ("XML", "<a/>"),
    ]:
        refused(
            lambda text=text, kind=kind: client.register_schema("x", Schema(text, kind)), 422, 42201, "Invalid schema"
        )
    refused(lambda: client.set_compatibility(level="MOST"), 422, 42203, "Invalid compatibility level")
    refused(lambda: client.update_global_mode("FAST"), 422, 42204, "Invalid mode")
    assert client.get_subjects() == ["s"]


def test_deletes_are_soft_before_they_are_permanent(client):
    for schema in (USER, WITH_DEFAULT):
        client.register_schema("s", avro(schema))
    assert client.delete_version("s", 1) == 1
    refused(lambda: client.delete_version("s", 1), 404, 40406, "Version 1 was soft deleted")
    assert client.get_versions("s") == [2]
    assert client.get_versions("s", deleted=True) == [1, 2]
    # The schema of an id stays, because records have it.
    assert json.loads(client.get_schema(1).schema_str) == USER
    assert client.delete_subject("s") == [2]
    refused(lambda: client.delete_subject("s"), 404, 40404, "Subject 's' was soft deleted")
    assert client.get_subjects() == []
    assert client.get_subjects(deleted=True) == ["s"]
    # A version number is never used again.
    assert client.register_schema("s", avro(USER)) == 1
    assert client.get_versions("s") == [3]


def test_a_permanent_delete_needs_a_soft_one(embedded, client):
    client.register_schema("s", avro(USER))
    for path, code in [("/subjects/s?permanent=true", 40405), ("/subjects/s/versions/1?permanent=true", 40407)]:
        with pytest.raises(urllib.error.HTTPError) as raised:
            request(embedded, "DELETE", path)
        with raised.value as response:
            assert json.loads(response.read())["error_code"] == code
    assert request(embedded, "DELETE", "/subjects/s") == [1]
    assert request(embedded, "DELETE", "/subjects/s?permanent=true") == [1]
    client.clear_caches()
    refused(lambda: client.get_schema(1), 404, 40403, "not found")


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("NONE", {"added", "default", "removed"}),
        ("BACKWARD", {"default", "removed"}),
        ("FORWARD", {"added", "default"}),
        ("FULL", {"default"}),
    ],
)
@pytest.mark.parametrize("scope", ["global", "subject"])
def test_levels(client, level, allowed, scope):
    with_two = {**USER, "fields": [*USER["fields"], {"name": "mail", "type": "string"}]}
    client.set_compatibility(None if scope == "global" else "s", level)
    client.register_schema("s", avro(with_two))
    for name, fields in {
        "added": [*with_two["fields"], {"name": "age", "type": "int"}],
        "default": [*with_two["fields"], {"name": "age", "type": "int", "default": 0}],
        "removed": USER["fields"],
    }.items():
        asked = client.test_compatibility("s", avro({**USER, "fields": fields}))
        assert asked == (name in allowed), name


def test_transitive_levels_compare_with_all_versions(client):
    without = {**USER, "fields": [*USER["fields"], {"name": "age", "type": ["null", "string"], "default": None}]}
    for schema in (WITH_DEFAULT, USER):
        client.register_schema("s", avro(schema))
    assert client.test_compatibility("s", avro(without))
    client.set_compatibility("s", "BACKWARD_TRANSITIVE")
    refused(lambda: client.register_schema("s", avro(without)), 409, 409, "TYPE_MISMATCH|MISSING_UNION_BRANCH")
    assert not client.test_compatibility_all_versions("s", avro(without))


def test_configurations_of_a_subject_a_context_and_all(client):
    client.set_config(None, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
    client.set_config("s", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major"))
    found = client.get_config("s")
    assert (found.compatibility_level, found.compatibility_group) == (ConfigCompatibilityLevel.NONE, "major")
    assert client.get_compatibility() == "FULL"
    client.delete_config("s")
    refused(lambda: client.get_config("s"), 404, 40408, "subject-level")


def test_modes(client):
    client.register_schema("s", avro(USER))
    client.update_mode("s", "READONLY")
    refused(lambda: client.register_schema("s", avro(WITH_DEFAULT)), 422, 42205, "is in read-only mode")
    refused(lambda: client.delete_subject("s"), 422, 42205, "is in read-only mode")
    assert client.get_mode("s") == "READONLY"
    assert client.get_global_mode() == "READWRITE"
    client.delete_mode("s")
    client.register_schema("s", avro(WITH_DEFAULT))
    refused(lambda: client.update_mode("s", "IMPORT"), 422, 42205, "Cannot import since found existing subjects")


def test_an_import_keeps_ids_and_versions(embedded):
    wanted = {"schema": json.dumps(USER), "id": 77, "version": 4}
    with pytest.raises(urllib.error.HTTPError) as raised:
        request(embedded, "POST", "/subjects/s/versions", wanted)
    with raised.value as response:
        assert json.loads(response.read())["message"] == "Subject s in context . is not in import mode"
    request(embedded, "PUT", "/mode/s", {"mode": "IMPORT"})
    assert request(embedded, "POST", "/subjects/s/versions", wanted)["id"] == 77
    assert request(embedded, "GET", "/subjects/s/versions") == [4]
    request(embedded, "DELETE", "/mode/s")
    assert request(embedded, "POST", "/subjects/t/versions", {"schema": '"int"'})["id"] == 78


def test_each_context_counts_its_own_ids(embedded, client):
    client.register_schema("s", avro("int"))
    assert client.register_schema(":.staging:s", avro("long")) == 1
    assert client.get_contexts() == [".", ".staging"]
    assert client.get_subjects() == [":.staging:s", "s"]
    assert client.get_subjects(subject_prefix=":.staging:") == [":.staging:s"]
    ours = ottla.SchemaRegistry(embedded.url)
    assert ours.schema(1, subject=":.staging:s").text == '"long"'
    assert ours.schema(1).text == '"int"'
    with SchemaRegistryClient({"url": f"{embedded.url}/contexts/.staging"}) as inside:
        assert json.loads(inside.get_latest_version("s").schema.schema_str) == "long"
    guid = client.get_latest_version(":.staging:s").guid
    assert request(embedded, "GET", f"/schemas/guids/{guid}/ids") == [{"context": ".staging", "id": 1}]


def test_references_of_each_type(client):
    client.register_schema("user", avro(USER))
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "shop.User"}]}
    refused(lambda: client.register_schema("order", avro(order)), 422, 42201, "shop.User")
    reference = SchemaReference("shop.User", "user", 1)
    number = client.register_schema("order", avro(order, [reference]))
    assert client.get_schema(number).references[0].subject == "user"
    assert client.get_referenced_by("user", 1) == [number]
    refused(lambda: client.delete_subject("user"), 422, 42206, "One or more references exist to the schema")
    refused(
        lambda: client.register_schema("x", avro(order, [SchemaReference("shop.User", "user", 9)])),
        422,
        42201,
        "version 9",
    )

    client.register_schema("price.json", Schema('{"type": "number", "minimum": 0}', "JSON"))
    item = '{"type": "object", "properties": {"price": {"$ref": "price.json"}}, "additionalProperties": false}'
    refused(lambda: client.register_schema("item", Schema(item, "JSON")), 422, 42201, "cannot be resolved")
    client.register_schema("item", Schema(item, "JSON", [SchemaReference("price.json", "price.json", 1)]))
    own = '{"type": "object", "properties": {"price": {"type": "number", "minimum": 5}}, "additionalProperties": false}'
    refused(lambda: client.register_schema("item", Schema(own, "JSON")), 409, 409, "MINIMUM_INCREASED")

    client.register_schema("money.proto", proto('syntax = "proto3"; package m; message Money { int64 units = 1; }'))
    bill = 'syntax = "proto3"; import "money.proto"; message Bill { m.Money sum = 1; }'
    refused(
        lambda: client.register_schema("bill", proto(bill)), 422, 42201, 'the import "money.proto" has no reference'
    )
    client.register_schema("bill", proto(bill, [SchemaReference("money.proto", "money.proto", 1)]))


def test_normalized_schemas_are_the_same(client):
    text = '{"type": "object", "title": "T", "properties": {"a": {"type": "string"}}}'
    moved = '{"title": "T", "properties": {"a": {"type": "string"}}, "type": "object"}'
    client.register_schema("json", Schema(text, "JSON"), normalize_schemas=True)
    refused(lambda: client.lookup_schema("json", Schema(moved, "JSON")), 404, 40403, "Schema not found")
    assert client.lookup_schema("json", Schema(moved, "JSON"), normalize_schemas=True).version == 1
    fields = 'syntax = "proto3"; message M { string a = 1; M b = 2; }'
    client.register_schema("proto", proto(fields), normalize_schemas=True)
    moved = 'syntax = "proto3"; message M { .M b = 2; string a = 1; }'
    assert client.lookup_schema("proto", proto(moved), normalize_schemas=True).version == 1
    long = {
        "name": "User",
        "namespace": "shop",
        "type": "record",
        "fields": [{"type": {"type": "string"}, "name": "name"}],
    }
    client.register_schema("avro", avro(USER))
    assert client.lookup_schema("avro", avro(long)).version == 1


def test_protobuf_as_text_and_as_descriptor(embedded, client):
    text = """
    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    message Order { optional string item = 1; map<string, Line> lines = 2; oneof by { int64 id = 3; string name = 4; }
      google.protobuf.Timestamp at = 5; enum Kind { NONE = 0; GIFT = 1; } repeated Kind kinds = 6 [packed = false];
      message Line { double price = 1; } reserved 9, 20 to 30; }
    """
    number = client.register_schema("order", proto(text))
    serialized = request(embedded, "GET", f"/schemas/ids/{number}?format=serialized")["schema"]
    # The descriptor of a text is that text.
    assert client.lookup_schema("order", proto(serialized)).schema_id == number
    shown = request(embedded, "GET", f"/schemas/ids/{number}")["schema"]
    assert "optional string item = 1;" in shown
    assert "map<string, Line> lines = 2;" in shown
    assert client.register_schema("order", proto(shown)) == number
    renamed = text.replace("double price", "string price")
    refused(lambda: client.register_schema("order", proto(renamed)), 409, 409, "FIELD_SCALAR_KIND_CHANGED")


@pytest.mark.parametrize(
    "module", [any_pb2, api_pb2, descriptor_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2]
)
def test_descriptors_of_protoc_stay_the_same_as_text(module):
    """Google's compiler made these descriptors."""
    from ottla.testing._registry.protobuf import ProtobufSchema

    given = base64.b64encode(module.DESCRIPTOR.serialized_pb).decode()
    schema = ProtobufSchema.parse(given, {})
    again = ProtobufSchema.parse(schema.text, {})
    assert again.identity == schema.identity
    assert base64.b64decode(schema.formatted("serialized")) == module.DESCRIPTOR.serialized_pb


def test_confluents_serializers(embedded, client):
    text = json.dumps(WITH_DEFAULT)
    context = SerializationContext("orders", MessageField.VALUE)
    value = AvroSerializer(client, text)({"name": "Ann", "age": 3}, context)
    assert value[:5] == b"\0\0\0\0\1"
    assert AvroDeserializer(client)(value, context) == {"name": "Ann", "age": 3}
    assert client.get_subjects() == ["orders-value"]


def test_faults(embedded):
    asked = ottla.SchemaRegistry(embedded.url, retries=2)
    asked.register("s", '"int"')
    embedded.fail(503, "busy", count=2)
    assert asked.latest("s").text == '"int"'
    embedded.fail(500, "disk", count=3)
    with pytest.raises(errors.UnreachableError, match="status 500: disk"):
        asked.latest("s")
    embedded.fail(503, count=5)
    embedded.clear_faults()
    before = len(embedded.requests)
    assert asked.latest("s").version == 1
    assert embedded.requests[before:] == ["GET /subjects/s/versions/latest"]
    embedded.delay(5)
    with pytest.raises(errors.KafkaTimeoutError):
        ottla.SchemaRegistry(embedded.url, timeout=0.1).latest("s")


def test_an_alias_is_another_name_of_a_subject(embedded, client):
    number = client.register_schema("user-value", avro(USER))
    assert request(embedded, "PUT", "/config/people-value", {"alias": "user-value"}) == {"alias": "user-value"}
    assert request(embedded, "GET", "/config/people-value") == {"alias": "user-value"}
    assert client.get_latest_version("people-value").subject == "user-value"
    assert client.register_schema("people-value", avro(WITH_DEFAULT)) == number + 1
    assert client.lookup_schema("people-value", avro(USER)).version == 1
    assert client.get_versions("people-value") == [1, 2]
    assert client.get_subjects() == ["user-value"]
    other = {**USER, "fields": [{"name": "other", "type": "int"}]}
    assert client.test_compatibility("people-value", avro(other)) is False
    ours = ottla.SchemaRegistry(embedded.url)
    assert ours.schema(number, subject="people-value").text == ours.version("user-value", 1).text
    # In another context the alias means the subject of that context.
    request(embedded, "PUT", "/config/:.staging:people-value", {"alias": "user-value"})
    refused(lambda: client.get_versions(":.staging:people-value"), 404, 40401, "Subject ':.staging:user-value'")
    client.delete_subject("people-value")
    assert client.get_subjects() == []


def test_tags_of_metadata_are_returned(client):
    metadata = Metadata(MetadataTags({"**.name": ["PII"]}), MetadataProperties({"owner": "shop"}), ["owner"])
    client.register_schema("user-value", Schema(json.dumps(USER), "AVRO", [], metadata))
    found = client.get_latest_version("user-value").schema.metadata
    assert found == metadata
    assert client.get_latest_with_metadata("user-value", {"owner": "shop"}).version == 1


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"basic.auth.user.info": "alice:se:cret"}, {"auth": ("alice", "se:cret")}),
        (
            {
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": "one",
                "bearer.auth.logical.cluster": "lsrc-1",
                "bearer.auth.identity.pool.id": "pool-1",
            },
            {"token": "one"},
        ),
    ],
    ids=["basic", "bearer"],
)
def test_credentials(theirs, ours):
    with Registry(users={"alice": "se:cret"}, tokens=["one", "two"]) as registry:
        with SchemaRegistryClient({"url": registry.url, "max.retries": 0, **theirs}) as client:
            assert client.register_schema("user-value", avro(USER)) == 1
        assert ottla.SchemaRegistry(registry.url, **ours).latest("user-value").id == 1
        with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
            refused(client.get_subjects, 401, 401, "Unauthorized")
        for wrong in ({}, {"auth": ("alice", "other")}, {"auth": ("bob", "se:cret")}, {"token": "three"}):
            with pytest.raises(errors.AuthenticationError):
                ottla.SchemaRegistry(registry.url, **wrong).latest("user-value")


def test_tls():
    with Certificates() as certificates:
        alice = certificates.client("alice")
        with Registry(tls=certificates, client_auth="required") as registry:
            assert registry.url.startswith("https://")
            config = {
                "url": registry.url,
                "ssl.ca.location": str(alice.ca),
                "ssl.certificate.location": str(alice.certificate),
                "ssl.key.location": str(alice.key),
            }
            with SchemaRegistryClient(config) as client:
                assert client.register_schema("user-value", avro(USER)) == 1
            common = {"ca": str(alice.ca), "timeout": 5, "retries": 0}
            ours = ottla.SchemaRegistry(registry.url, certificate=str(alice.certificate), key=str(alice.key), **common)
            assert ours.latest("user-value").id == 1
            with pytest.raises(errors.KafkaError, match=r"(?i)certificate|tls|ssl"):
                ottla.SchemaRegistry(registry.url, **common).latest("user-value")
        with Registry(tls=certificates.server()) as registry:
            assert ottla.SchemaRegistry(registry.url, **common).register("user-value", json.dumps(USER)) == 1
            with pytest.raises(errors.KafkaError, match=r"(?i)certificate"):
                ottla.SchemaRegistry(registry.url, timeout=5, retries=0).latest("user-value")


def test_arguments_of_access():
    with pytest.raises(errors.ArgumentError, match="client_auth must be none or required, not 'maybe'"):
        Registry(client_auth="maybe")
    with pytest.raises(errors.ArgumentError, match="client_auth needs tls: pass Certificates as tls"):
        Registry(client_auth="required")


def test_start_and_stop():
    registry = Registry(compatibility="NONE")
    with pytest.raises(errors.ClosedError, match="not running"):
        registry.url  # noqa: B018
    with registry:
        url = registry.url
        assert registry.start().url == url
        assert request(registry, "GET", "/config") == {"compatibilityLevel": "NONE"}
    assert repr(registry) == "Registry(not running)"
    registry.stop()
    with pytest.raises(errors.UnreachableError):
        ottla.SchemaRegistry(url, retries=0).latest("s")
    with pytest.raises(errors.ArgumentError, match="compatibility must be one of"):
        Registry(compatibility="MOST")


def test_requests_of_many_threads_make_one_version(embedded):
    ids = []
    threads = [
        threading.Thread(target=lambda: ids.append(ottla.SchemaRegistry(embedded.url).register("s", '"int"')))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert ids == [1] * 8
    assert ottla.SchemaRegistry(embedded.url).latest("s").version == 1


def test_the_fixture(ottla_registry):
    assert ottla.SchemaRegistry(ottla_registry.url).register("s", '"int"') == 1


def test_a_container_is_a_broker():
    with KafkaContainer("confluentinc/cp-kafka:7.9.0").with_kraft().with_env("KAFKA_NUM_PARTITIONS", "3") as kafka:
        address = kafka.get_bootstrap_server()
        assert address == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        with ottla.Producer(address) as producer:
            producer.send("flights", b"N123").result(timeout=20)
        with ottla.Admin(address) as admin:
            assert len(admin.describe_topics(["flights"])["flights"].partitions) == 3
    with pytest.raises(errors.ClosedError, match="the container is not running"):
        kafka.get_bootstrap_server()
    with pytest.raises(errors.ConfigError, match="no.such.setting"):
        KafkaContainer().with_env("KAFKA_NO_SUCH_SETTING", "1").start()
    with pytest.raises(errors.ArgumentError, match="listens on one port, 9093"):
        KafkaContainer().with_bind_ports(9092, 9092)


def test_the_command():
    command = [sys.executable, "-m", "ottla", "broker", "--port", "0", "--registry", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"schema registry listens on (\S+)", process.stdout.readline())[1]
        assert ottla.SchemaRegistry(url).register("s", '"int"') == 1
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait(10)
    assert (process.returncode, err) == (0, "")
