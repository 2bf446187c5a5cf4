"""Airflow's provider for Kafka: hooks and operators, as a task of a DAG runs them; the connection is in the environment."""

import asyncio
import json
import os
import sys
from pathlib import Path

from airflow.providers.apache.kafka.hooks.client import KafkaAdminClientHook
from airflow.providers.apache.kafka.hooks.consume import KafkaConsumerHook
from airflow.providers.apache.kafka.hooks.produce import KafkaProducerHook
from airflow.providers.apache.kafka.operators.consume import ConsumeFromTopicOperator
from airflow.providers.apache.kafka.operators.produce import ProduceToTopicOperator
from airflow.providers.apache.kafka.triggers.await_message import AwaitMessageTrigger

servers, topic, group = sys.argv[1:]


def connection(name, **more):
    extra = {"bootstrap.servers": servers, **more}
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "kafka", "extra": json.dumps(extra)})


# Operators import functions by their path.
sys.path.insert(0, str(Path(__file__).parent))
connection("kafka_default")
reading = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
connection("reader", **reading)
connection("listener", **{**reading, "group.id": f"{group}-listener"})
connection("waiter", **{**reading, "group.id": f"{group}-waiter"})
connection("nowhere", **{"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 1000})

made = f"{topic}-made"
admin = KafkaAdminClientHook("kafka_default")
for _ in range(2):
    print("created", admin.create_topic([[made, 2, 1]]))
print(admin.test_connection())
print(made in admin.get_conn.list_topics(timeout=20).topics)

delivered = []
producer = KafkaProducerHook("kafka_default").get_producer()
producer.produce(made, key="k", value="by the hook", on_delivery=lambda error, m: delivered.append((error, m.value())))
print(producer.flush(20), delivered)


def orders(count):
    for number in range(count):
        yield json.dumps(number), json.dumps({"item": "pen", "amount": number})


ProduceToTopicOperator(
    task_id="produce", topic=made, producer_function=orders, producer_function_args=[5], kafka_config_id="kafka_default"
).execute({})

seen = []


def keep(message, prefix):
    seen.append((prefix, message.error(), json.loads(message.value()) if message.key() != b"k" else message.value()))


ConsumeFromTopicOperator(
    task_id="consume",
    topics=[made],
    kafka_config_id="reader",
    apply_function=keep,
    apply_function_kwargs={"prefix": "one"},
    commit_cadence="end_of_batch",
    max_messages=6,
    max_batch_size=3,
    poll_timeout=20,
).execute({})
print(sorted(seen, key=str))
seen.clear()
ConsumeFromTopicOperator(
    task_id="consume_batches",
    topics=[made],
    kafka_config_id="listener",
    apply_function_batch=lambda messages: seen.extend(sorted(len(message) for message in messages)),
    commit_cadence="end_of_operator",
    max_messages=6,
    max_batch_size=6,
    poll_timeout=20,
).execute({})
print(sorted(seen))
consumer = KafkaConsumerHook([made], "reader").get_consumer()
print("left", [message.value() for message in consumer.consume(1, 3)])
consumer.close()


async def waited():
    trigger = AwaitMessageTrigger(
        topics=[made],
        apply_function="airflow_functions.third",
        apply_function_args=["amount"],
        kafka_config_id="waiter",
        poll_timeout=5,
        poll_interval=0.1,
    )
    async for event in trigger.run():
        return event.payload
    return None


print(asyncio.run(asyncio.wait_for(waited(), 60)))
admin.delete_topic([made])
print(KafkaAdminClientHook("nowhere").test_connection()[0])
