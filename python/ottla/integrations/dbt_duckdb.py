"""A plugin of dbt-duckdb: topics as sources, and models written to topics. `module: ottla.integrations.dbt_duckdb`."""

from __future__ import annotations

from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin

from ottla import Producer
from ottla.errors import ArgumentError
from ottla.integrations.arrow import TopicDataset

# Bounds of a source that are times in text or milliseconds. `ottla.read` describes them.
_TIMES = ("since", "until")
# Rows of a file that are sent at a time.
_ROWS = 100_000


class Plugin(BasePlugin):  # type: ignore[misc]  # dbt publishes no types
    """Topics as sources of dbt, and models that are sent to topics.

    The plugin's `config` has `bootstrap_servers`, properties that all clients have by Kafka's names, and `consumer` and
    `producer` with properties of these alone.
    """

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """Take the plugin's `config` of the profile.

        Args:
            plugin_config: `bootstrap_servers`, and properties by Kafka's names, as the class describes.

        Raises:
            ArgumentError: There are no brokers.
        """
        config = dict(plugin_config)
        self._servers = config.pop("bootstrap_servers", None)
        if self._servers is None:
            raise ArgumentError(f"the dbt plugin {self.name!r} has no bootstrap_servers: add them to its config")
        consumer, producer = config.pop("consumer", {}), config.pop("producer", {})
        self._consumer, self._producer = {**config, **consumer}, {**config, **producer}

    def load(self, source_config: Any) -> TopicDataset:
        """Make the relation of a source.

        Args:
            source_config: The source. Its `meta` may have `topic` (otherwise its identifier is the topic's name),
                `since`, `until`, and `config` with properties of the consumer by Kafka's names.

        Returns:
            A dataset, which DuckDB reads.
        """
        meta = source_config.meta
        times = {name: _time(meta[name]) for name in _TIMES if name in meta}
        topic = meta.get("topic", source_config.identifier)
        return TopicDataset(self._servers, topic, config={**self._consumer, **meta.get("config", {})}, **times)

    def store(self, target_config: Any) -> None:
        """Send the rows of an external model to a topic, and wait until they are delivered.

        Args:
            target_config: The model, which dbt-duckdb has written to a Parquet file. Its `topic` is the topic's name
                (otherwise its identifier is). Its columns are those of `Producer.send_arrow`: `value`, and if there
                are `key`, `partition`, `timestamp` and `headers`.

        Raises:
            ArgumentError: The model's format is not Parquet.
            KafkaError: A row was not delivered.
        """
        import pyarrow.parquet as pq

        location, name = target_config.location, target_config.relation.identifier
        if location.format != "parquet":
            raise ArgumentError(f"model {name!r} is written as {location.format}, and a topic needs format: parquet")
        topic = target_config.config.get("topic", name)
        with Producer(self._servers, config=self._producer) as producer, pq.ParquetFile(location.path) as file:
            sent = [producer.send_arrow(topic, batch) for batch in file.iter_batches(_ROWS)]
            for deliveries in sent:
                deliveries.result()


def _time(value: Any) -> Any:
    """A time of YAML, where datetimes and milliseconds are values of their own, and other times are ISO 8601 texts."""
    from datetime import UTC, date, datetime

    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime) and value.tzinfo is None:
        # YAML reads a time with a zone as one in UTC without a zone.
        value = value.replace(tzinfo=UTC)
    return value
