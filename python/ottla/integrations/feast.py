"""Features of a stream for Feast's online and offline stores, read from the topic without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from feast import KafkaSource
from feast.data_format import AvroFormat, JsonFormat
from feast.data_source import PushMode

from ottla import Consumer, Decoder, TopicPartition
from ottla.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd
    from feast import FeatureStore
    from feast.stream_feature_view import StreamFeatureView

    from ottla import Batch

# Seconds of a poll without records, after which `stop` is seen.
POLL = 0.5
CREATED = "created"


class TopicProcessor:
    """Reads the topic of a stream feature view as a member of a consumer group, and writes features to Feast's stores.

    It has the methods of Feast's `StreamProcessor`, and takes the same views: their source is a `KafkaSource` of JSON
    or Avro. A view's transformation and `preprocess_fn` get a pandas DataFrame, where those of Feast's processor get
    one of Spark. Offsets are committed after the features are written, so that records are written at least once.

    Args:
        fs: The feature store.
        sfv: The view, from `fs.get_stream_feature_view`.
        group_id: The consumer group. Several processes of one group share the topic's partitions.
        preprocess_fn: Called with the rows before they are written. It returns the rows to write.
        config: Properties of the consumer by Kafka's names, such as `{"security.protocol": "SSL"}`. A new group begins
            at the end of the topic unless `auto.offset.reset` is `earliest`.

    Raises:
        ArgumentError: The source of the view is not of Kafka, or its format is neither JSON nor Avro.

    Example:
        ```python
        store = FeatureStore("features")
        processor = TopicProcessor(store, store.get_stream_feature_view("drivers"), group_id="features")
        processor.ingest_stream_feature_view()
        ```
    """

    def __init__(
        self,
        fs: FeatureStore,
        sfv: StreamFeatureView,
        *,
        group_id: str,
        preprocess_fn: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        source = sfv.stream_source
        if not isinstance(source, KafkaSource):
            raise ArgumentError(f"the stream source of {sfv.name} is {type(source).__name__}, and not KafkaSource")
        self.fs, self.sfv, self.data_source = fs, sfv, source
        options = source.kafka_options
        self._decoder = _decoder(sfv.name, options.message_format)
        self._servers, self._topic = options.kafka_bootstrap_servers, options.topic
        self._join_keys = [fs.get_entity(entity).join_key for entity in sfv.entities]
        self._preprocess = preprocess_fn
        # What it writes is committed, and nothing else.
        self._config = {**(config or {}), "group.id": group_id, "enable.auto.commit": False}
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End `ingest_stream_feature_view`, from another thread or a signal's handler, after the batch that it has."""
        self._stopped.set()

    def ingest_stream_feature_view(self, to: PushMode = PushMode.ONLINE, *, available_now: bool = False) -> int:
        """Write the features of the topic's records, until `stop` is called.

        Args:
            to: The stores to write to.
            available_now: End after the records that the topic has now, as a scheduled job does.

        Returns:
            The number of records that were read.

        Raises:
            DecodeError: A record does not fit the schema of the source. It is not committed.
            KafkaError: As from `Consumer.poll`.
        """
        count = 0
        with Consumer(self._servers, topics=self._topic, config=self._config) as consumer:
            ends = _ends(consumer, self._topic) if available_now else None
            while not self._stopped.is_set():
                batch = consumer.poll(POLL)
                if len(batch):
                    self._write(self._transformed(batch), to)
                    consumer.commit()
                    count += len(batch)
                if ends is not None and _has_read(consumer, ends):
                    break
        return count

    def _transformed(self, batch: Batch) -> pd.DataFrame:
        rows = batch.decode(self._decoder).to_pandas()
        return self.sfv.udf(rows) if self.sfv.udf else rows

    def _write(self, rows: pd.DataFrame, to: PushMode) -> None:
        import pandas as pd

        # The stores have the latest features of an entity.
        rows = rows.sort_values(by=[*self._join_keys, self.sfv.timestamp_field], ascending=False)
        rows = rows.drop_duplicates(self._join_keys).assign(**{CREATED: pd.Timestamp.now("UTC")})
        if self._preprocess is not None:
            rows = self._preprocess(rows)
        if rows.empty:
            return
        # The file store takes an index with gaps for a column.
        rows = rows.reset_index(drop=True)
        if to in (PushMode.ONLINE, PushMode.ONLINE_AND_OFFLINE):
            self.fs.write_to_online_store(self.sfv.name, rows)
        if to in (PushMode.OFFLINE, PushMode.ONLINE_AND_OFFLINE):
            self.fs.write_to_offline_store(self.sfv.name, rows)


def _decoder(name: str, format_: Any) -> Decoder:
    """The decoder of a source's format. Feast has the schema of JSON as columns of Spark's SQL."""
    if isinstance(format_, JsonFormat):
        return Decoder(format_.schema_json, format="json")
    if isinstance(format_, AvroFormat):
        return Decoder(format_.schema_json, format="avro")
    raise ArgumentError(
        f"the stream source of {name} has the format {type(format_).__name__}: JsonFormat and AvroFormat are supported"
    )


def _ends(consumer: Consumer, topic: str) -> dict[TopicPartition, int]:
    """Where the partitions that have records end now."""
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
    begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    return {at: ends[at] for at in partitions if ends[at] > begins[at]}


def _has_read(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether the partitions that this member has are read up to these offsets."""
    mine = consumer.assignment()
    return bool(mine) and all(consumer.position(at) >= ends.get(at, 0) for at in mine)
