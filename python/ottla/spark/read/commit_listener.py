"""Commits to a consumer group that follow the progress of queries (`ottla.spark.commit_listener`)."""

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.errors import KafkaError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.client_pool import close_idle
from ottla.spark.read.group_commits import commit
from ottla.spark.read.progress import offsets_of
from ottla.spark.shared.offsets import Offsets

LOG = logging.getLogger("ottla.spark")


class CommitListener(StreamingQueryListener):
    """Commits at the end of each micro-batch, the last one too."""

    def __init__(self, options: Mapping[str, str], query: str | None) -> None:
        self._options = ReadOptions.parse(options)
        self._query = query
        if self._options.commit_group is None:
            raise ValueError("option commitOffsetsToGroup is missing: the id of the group to commit to")
        self._group = self._options.commit_group

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit where the batch ended."""
        progress = event.progress
        if self._query is not None and self._query != progress.name:
            return
        for source in progress.sources:
            offsets = _end(source)
            if offsets and self._reads(offsets):
                try:
                    commit(self._options, self._group, offsets)
                except KafkaError as error:
                    # Spark would print a trace and continue.
                    LOG.error("The offsets of the stream are not committed to group %s: %s", self._group, error)  # noqa: TRY400

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """The last batch was committed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002
        """The last batch was committed.

        A connection stays open only from batch to batch.
        """
        close_idle(self._options)

    def _reads(self, offsets: Offsets) -> bool:
        """Whether the offsets can be those of the source that the options describe."""
        topics = self._options.topics
        known = set(topics.names) | {topic for topic, _ in topics.assigned}
        return topics.pattern is not None or {topic for topic, _ in offsets} <= known


def _end(source: Any) -> Offsets:
    """Where a batch ended in a Kafka source; empty for another source, whose format is unknown."""
    try:
        return offsets_of(source, "endOffset")
    except (ValueError, AttributeError, TypeError, SyntaxError):
        return {}
