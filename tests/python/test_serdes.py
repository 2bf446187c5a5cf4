"""Encoders and decoders on the embedded registry, compared with Confluent's serializers."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import ottla
from ottla import errors
from ottla.testing import Broker

USER = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
# Confluent's deserializer rejects values of less than 6 bytes, also when their ids are in headers.
ROWS = [{"name": "Annabel"}, {"name": "Bernard"}]


@pytest.fixture
def ours(ottla_registry):
    return ottla.SchemaRegistry(ottla_registry.url)


@pytest.fixture
def theirs(ottla_registry):
    with SchemaRegistryClient({"url": ottla_registry.url}) as client:
        yield client


@pytest.mark.parametrize(
    ("strategy", "subject"), [("topic", "t-value"), ("record", "shop.User"), ("topic_record", "t-shop.User")]
)
def test_strategies(ours, theirs, strategy, subject):
    encoder = ottla.Encoder(USER, "avro", registry=ours, strategy=strategy)
    values = encoder.encode(ROWS, topic="t")
    assert theirs.get_subjects() == [subject]
    context = SerializationContext("t", MessageField.VALUE)
    assert [AvroDeserializer(theirs)(value, context) for value in values] == ROWS


def test_the_record_strategy_needs_no_topic_but_a_name(ours, theirs):
    encoder = ottla.Encoder(USER, "avro", registry=ours, strategy="record")
    settings = {"subject.name.strategy": record_subject_name_strategy}
    context = SerializationContext("t", MessageField.VALUE)
    wanted = AvroSerializer(theirs, json.dumps(USER), conf=settings)(ROWS[0], context)
    assert encoder.encode(ROWS)[0] == wanted
    with pytest.raises(errors.ArgumentError, match="the schema has no name"):
        ottla.Encoder('{"type": "object"}', "json", registry=ours, strategy="record").encode(ROWS)
    titled = ottla.Encoder('{"type": "object", "title": "Titled"}', "json", registry=ours, strategy="record")
    titled.encode(ROWS)
    assert theirs.get_subjects() == ["Titled", "shop.User"]


def test_an_id_that_is_known(ours, theirs):
    number = theirs.register_schema("elsewhere", Schema(json.dumps(USER), "AVRO"))
    values = ottla.Encoder(ours.schema(number), "avro", registry=ours).encode(ROWS)
    assert values[0][:5] == b"\0" + number.to_bytes(4, "big")
    assert theirs.get_subjects() == ["elsewhere"]


def test_ids_in_headers(ours, theirs):
    encoder = ottla.Encoder(USER, "avro", registry=ours, id_in="header")
    values = encoder.encode(ROWS, topic="t")
    name, guid = encoder.header(topic="t")
    assert (name, guid[:1], len(guid)) == ("__value_schema_id", b"\1", 17)
    context = SerializationContext("t", MessageField.VALUE, [(name, guid)])
    assert [AvroDeserializer(theirs)(value, context) for value in values] == ROWS
    with Broker(topics=["t"]) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for value in values:
                producer.send("t", value, headers=[(name, guid)]).result(timeout=20)
        batch = ottla.read(broker.bootstrap_servers, "t")
        assert pa.table(batch.decode(format="avro", registry=ours)).to_pylist() == ROWS
    with pytest.raises(errors.ArgumentError, match="id_in='header'"):
        ottla.Encoder(USER, "avro", registry=ours).header(topic="t")


def test_references(ours, theirs):
    ours.register("user", json.dumps(USER))
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "shop.User"}]}
    reference = {"name": "shop.User", "subject": "user", "version": 1}
    encoder = ottla.Encoder(order, "avro", registry=ours, references=[reference])
    values = encoder.encode(pa.table({"by": [{"name": "Ann"}]}), topic="orders")
    found = theirs.get_latest_version("orders-value")
    assert [one.subject for one in found.schema.references] == ["user"]
    context = SerializationContext("orders", MessageField.VALUE)
    assert AvroDeserializer(theirs)(values[0], context) == {"by": {"name": "Ann"}}


def test_a_schema_is_normalized(ours, theirs):
    written = '{"type": "object", "title": "T"}'
    ours.register("s", '{"title": "T", "type": "object"}', "JSON", normalize=True)
    assert ours.find("s", written, "JSON", normalize=True).version == 1
    with pytest.raises(errors.NotFoundError, match="Schema not found"):
        ours.find("s", written, "JSON")
    ottla.Encoder(written, "json", registry=ours, subject="s", normalize=True, auto_register=False).encode(ROWS)
    assert theirs.get_versions("s") == [1]


def message_class(files, name="shop.Order"):
    """The class of a message of the last file."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.mark.parametrize("name", ["First", "Order", "Order.Line"])
def test_ids_of_protobuf_in_headers(ottla_registry, ours, theirs, name):
    """The header of each message of a file is the one that Confluent's serializer makes."""
    field = descriptor_pb2.FieldDescriptorProto
    text = {"name": "t", "number": 1, "type": field.TYPE_STRING, "label": field.LABEL_OPTIONAL}
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="First").field.add(**text)
    order = file.message_type.add(name="Order")
    order.field.add(**text)
    order.nested_type.add(name="Line").field.add(**text)
    made = message_class([file], f"shop.{name}")
    encoder = ottla.Encoder(made, "protobuf", registry=ours, id_in="header")
    values = encoder.encode(pa.table({"t": ["a long text", "another one"]}), topic="t")
    context = SerializationContext("t", MessageField.VALUE, [])
    in_header = {"schema.id.serializer": header_schema_id_serializer}
    assert ProtobufSerializer(made, theirs, in_header)(made(t="a long text"), context) == values[0]
    assert context.headers == [encoder.header(topic="t")]
    # The cache of the client that registered has the text of the schema, which the deserializer cannot use.
    with SchemaRegistryClient({"url": ottla_registry.url}) as client:
        read = ProtobufDeserializer(made, {"schema.id.deserializer": dual_schema_id_deserializer}, client)
        assert [read(value, context).t for value in values] == ["a long text", "another one"]
    with Broker(topics=["t"]) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", values[0], headers=context.headers).result(timeout=20)
        batch = ottla.read(broker.bootstrap_servers, "t")
        assert pa.table(batch.decode(format="protobuf", registry=ours, message=name)).to_pylist() == [
            {"t": "a long text"}
        ]


def test_files_that_a_class_imports_are_registered(ours, theirs):
    field = descriptor_pb2.FieldDescriptorProto
    money = descriptor_pb2.FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="units", number=1, type=field.TYPE_INT64, label=1)
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["money.proto"]
    )
    order.message_type.add(name="Order").field.add(
        name="price", number=1, type=field.TYPE_MESSAGE, type_name=".shop.Money", label=1
    )
    made = message_class([money, order])
    values = ottla.Encoder(made, "protobuf", registry=ours).encode(pa.table({"price": [{"units": 3}]}), topic="t")
    assert theirs.get_subjects() == ["money.proto", "t-value"]
    assert theirs.get_latest_version("t-value").schema.references[0].name == "money.proto"
    # Magic 0, the id, and the index of the first message.
    assert made.FromString(values[0][6:]).price.units == 3


def test_options_that_can_never_work(ours):
    for options, text in [
        ({"strategy": "random"}, "strategy must be one of"),
        ({"id_in": "key"}, 'id_in must be "value" or "header"'),
        ({"id_in": "header", "registry": None}, "need a registry"),
    ]:
        with pytest.raises(errors.ArgumentError, match=text):
            ottla.Encoder(USER, "avro", **{"registry": ours, **options})
