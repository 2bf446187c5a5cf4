"""Feast's stores take features from a topic. Arguments: address, a topic for JSON, one for Avro, a folder."""

import datetime as dt
import json
import struct
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from feast import Entity, FeatureStore, Field, FileSource, KafkaSource, RepoConfig
from feast.data_format import AvroFormat, JsonFormat, ProtoFormat
from feast.data_source import PushMode
from feast.stream_feature_view import StreamFeatureView
from feast.types import Float64, Int64

import ottla
from ottla.integrations.feast import TopicProcessor

address, of_json, of_avro, folder = sys.argv[1:]
folder = Path(folder)
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COLUMNS = "driver_id bigint, rate double, event_timestamp timestamp"
AVRO = json.dumps(
    {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "driver_id", "type": "long"},
            {"name": "rate", "type": "double"},
            {"name": "event_timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)

# The offline store appends to a file, which has to be there.
stored = pa.schema(
    [
        ("driver_id", pa.int64()),
        ("rate", pa.float64()),
        ("event_timestamp", pa.timestamp("us", "UTC")),
        ("created", pa.timestamp("us", "UTC")),
    ]
)
pq.write_table(stored.empty_table(), folder / "offline.parquet")
batch_source = FileSource(
    path=str(folder / "offline.parquet"), timestamp_field="event_timestamp", created_timestamp_column="created"
)
driver = Entity(name="driver", join_keys=["driver_id"])


def doubled(rows):
    """A view's transformation."""
    return rows.assign(rate=rows["rate"] * 2)


def view(name, topic, message_format, transformation=None):
    source = KafkaSource(
        name=f"{name}_stream",
        kafka_bootstrap_servers=address,
        topic=topic,
        timestamp_field="event_timestamp",
        batch_source=batch_source,
        message_format=message_format,
    )
    return StreamFeatureView(
        name=name,
        entities=[driver],
        ttl=dt.timedelta(days=36500),
        schema=[Field(name="driver_id", dtype=Int64), Field(name="rate", dtype=Float64)],
        source=source,
        timestamp_field="event_timestamp",
        online=True,
        udf=transformation,
        udf_string="" if transformation is None else "doubled",
        mode="pandas",
    )


store = FeatureStore(
    config=RepoConfig(
        project="test",
        provider="local",
        registry=str(folder / "registry.db"),
        online_store={"type": "sqlite", "path": str(folder / "online.db")},
        offline_store={"type": "file"},
        entity_key_serialization_version=3,
    )
)
views = {
    "plain": view("plain", of_json, JsonFormat(schema_json=COLUMNS)),
    "twice": view("twice", of_json, JsonFormat(schema_json=COLUMNS), doubled),
    "avro": view("avro", of_avro, AvroFormat(schema_json=AVRO)),
}
store.apply([driver, *views.values()])


def rates(name, *drivers):
    """What the online store has."""
    entities = [{"driver_id": number} for number in drivers]
    return store.get_online_features([f"{name}:rate"], entities).to_dict()["rate"]


def processor(name, **options):
    options = {"group_id": name, "config": {"auto.offset.reset": "earliest"}} | options
    return TopicProcessor(store, views[name], **options)


def row(number, rate, second):
    return {"driver_id": number, "rate": rate, "event_timestamp": START + dt.timedelta(seconds=second)}


def long_of_avro(number):
    """Seven bits a byte, the lowest first, of twice the number."""
    number, data = 2 * number, bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def avro(number, rate, second):
    micros = int((START + dt.timedelta(seconds=second)).timestamp()) * 1_000_000
    return long_of_avro(number) + struct.pack("<d", rate) + long_of_avro(micros)


def send(*rows):
    with ottla.Producer(address) as producer:
        texts = [json.dumps({**each, "event_timestamp": each["event_timestamp"].isoformat()}) for each in rows]
        producer.send_many(of_json, texts).result(20)


# The latest features of each driver are there, in whichever order the records came.
send(row(1, 0.5, 9), *(row(number, number / 100, 5) for number in range(2, 52)), row(1, 0.25, 3))
assert processor("plain").ingest_stream_feature_view(available_now=True) == 52
assert rates("plain", 1, 2, 51, 99) == [0.5, 0.02, 0.51, None]
# Its offsets are committed: another process goes on there.
assert processor("plain").ingest_stream_feature_view(available_now=True) == 0
send(row(2, 0.75, 10))
assert processor("plain").ingest_stream_feature_view(available_now=True) == 1
assert rates("plain", 1, 2) == [0.5, 0.75]

# A transformation of the view, and one of the caller, before both stores.
seen = []
both = processor("twice", preprocess_fn=lambda rows: seen.append(list(rows.columns)) or rows[rows["driver_id"] <= 2])
assert both.ingest_stream_feature_view(PushMode.ONLINE_AND_OFFLINE, available_now=True) == 53
assert rates("twice", 1, 2, 3) == [1.0, 1.5, None]
assert all(columns == ["driver_id", "rate", "event_timestamp", "created"] for columns in seen), seen
offline = pd.read_parquet(folder / "offline.parquet")
assert set(offline["driver_id"]) == {1, 2}, offline

with ottla.Producer(address) as producer:
    producer.send_many(of_avro, [avro(number, number / 10, 1) for number in range(3)]).result(20)
assert processor("avro").ingest_stream_feature_view(available_now=True) == 3
assert rates("avro", 0, 1, 2) == [0.0, 0.1, 0.2]

# A record that does not fit is an error, and is read again by the next run.
with ottla.Producer(address) as producer:
    producer.send(of_json, b"no JSON").result(20)
for _ in range(2):
    with pytest.raises(ottla.errors.DecodeError, match=of_json):
        processor("plain").ingest_stream_feature_view(available_now=True)

for message_format in (ProtoFormat(class_path="x"), JsonFormat(schema_json=COLUMNS)):
    wrong = view("wrong", of_json, message_format)
    if isinstance(message_format, JsonFormat):
        wrong.stream_source = batch_source
    with pytest.raises(ottla.errors.ArgumentError, match="KafkaSource|ProtoFormat"):
        TopicProcessor(store, wrong, group_id="g")

# Without an end it goes on until it is stopped.
running = processor("avro", group_id="running")
thread = threading.Thread(target=running.ingest_stream_feature_view)
thread.start()
with ottla.Producer(address) as producer:
    producer.send(of_avro, avro(7, 0.7, 1)).result(20)
end = time.monotonic() + 60
while rates("avro", 7) != [0.7] and time.monotonic() < end:
    time.sleep(0.2)
assert rates("avro", 7) == [0.7]
running.stop()
thread.join(30)
assert not thread.is_alive()
assert "pyspark" not in sys.modules
print(json.dumps({"done": True}))
