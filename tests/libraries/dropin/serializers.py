"""Confluent's serializers over its producer and consumer: Avro, JSON Schema and Protobuf, and what fails."""

import os
import sys
import time
from dataclasses import dataclass

from confluent_kafka import DeserializingConsumer, KafkaException, SerializingProducer
from confluent_kafka.error import ConsumeError, KeySerializationError, ProduceError, ValueSerializationError
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import (
    IntegerDeserializer,
    IntegerSerializer,
    MessageField,
    SerializationContext,
    StringDeserializer,
    StringSerializer,
)
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

servers, topic, group = sys.argv[1:]
registry = SchemaRegistryClient({"url": os.environ["SCHEMA_REGISTRY"]})
AVRO = """{"type": "record", "name": "User", "namespace": "shop", "fields": [
    {"name": "name", "type": "string"}, {"name": "age", "type": "int"},
    {"name": "colour", "type": ["null", "string"], "default": null}]}"""
JSON = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "User", "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}, "required": ["name", "age"]}"""


@dataclass
class User:
    name: str
    age: int


def to_dict(user, context):
    return {"name": user.name, "age": user.age}


def from_dict(value, context):
    return None if value is None else (User(value["name"], value["age"]), context.topic, context.field)


def message_class():
    file = descriptor_pb2.FileDescriptorProto(name="user.proto", package="shop", syntax="proto3")
    made = file.message_type.add(name="User")
    kinds = {
        "name": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        "age": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    }
    for number, (name, kind) in enumerate(kinds.items(), 1):
        made.field.add(name=name, number=number, type=kind, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.User"))


ProtoUser = message_class()


def polled(consumer, count):
    found, deadline = [], time.monotonic() + 40
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None:
            found.append(message)
    return found


def round_trip(name, serializer, deserializer, values):
    delivered = []
    producer = SerializingProducer(
        {"bootstrap.servers": servers, "key.serializer": StringSerializer("utf_8"), "value.serializer": serializer}
    )
    for number, value in enumerate(values):
        producer.produce(
            topic=f"{topic}-{name}",
            key=f"k{number}",
            value=value,
            partition=0,
            headers={"n": str(number)},
            on_delivery=lambda error, message: delivered.append((error, message.key(), message.offset())),
        )
        producer.poll(0)
    print(name, producer.flush(20), delivered)
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{group}-{name}",
            "auto.offset.reset": "earliest",
            "key.deserializer": StringDeserializer("utf_8"),
            "value.deserializer": deserializer,
        }
    )
    consumer.subscribe([f"{topic}-{name}"])
    for message in polled(consumer, len(values)):
        print(name, message.key(), str(message.value()).split(), message.headers())
    consumer.close()
    return producer


users = [User("Ada", 36), User("Grace", 85)]
avro = round_trip(
    "avro", AvroSerializer(registry, AVRO, to_dict), AvroDeserializer(registry, AVRO, from_dict), [*users, None]
)
json = round_trip("json", JSONSerializer(JSON, registry, to_dict), JSONDeserializer(JSON, from_dict), users)
round_trip(
    "protobuf",
    ProtobufSerializer(ProtoUser, registry, {"use.deprecated.format": False}),
    ProtobufDeserializer(ProtoUser, {"use.deprecated.format": False}),
    [ProtoUser(name=user.name, age=user.age) for user in users],
)
print(sorted(registry.get_subjects()))
for subject in sorted(registry.get_subjects()):
    found = registry.get_latest_version(subject)
    print(subject, found.version, found.schema.schema_type, found.schema.schema_str.split())

# What fails.
for producer, value in ((avro, User("Ada", "old")), (json, User("Ada", -1))):
    name = "avro" if producer is avro else "json"
    try:
        producer.produce(topic=f"{topic}-{name}", value=value)
    except ValueSerializationError as error:
        print(name, error.name, error.code, error.args[0].name())
try:
    avro.produce(topic=f"{topic}-avro", key=1, value=users[0])
except KeySerializationError as error:
    print(error.name, isinstance(error, KafkaException), error)
consumer = DeserializingConsumer(
    {
        "bootstrap.servers": servers,
        "group.id": f"{group}-wrong",
        "auto.offset.reset": "earliest",
        "value.deserializer": IntegerDeserializer(),
    }
)
consumer.subscribe([f"{topic}-avro"])
deadline = time.monotonic() + 40
while time.monotonic() < deadline:
    try:
        if consumer.poll(0.5) is not None:
            break
    except ConsumeError as error:
        print(type(error).__name__, error.name, error.exception is not None, error.kafka_message.key())
        break
try:
    consumer.consume(1)
except NotImplementedError as error:
    print("consume", error)
consumer.close()
try:
    SerializingProducer({"bootstrap.servers": servers, "message.max.bytes": 1000}).produce(topic, value="x" * 2000)
except ProduceError as error:
    print(error)
except KafkaException as error:
    print(type(error).__name__, error.args[0].name())
context = SerializationContext(topic, MessageField.VALUE)
print(IntegerDeserializer()(IntegerSerializer()(7, context), context))
