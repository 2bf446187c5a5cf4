"""Commits of a stream's offsets to a consumer group, for tools that monitor lag.

Only the Spark checkpoint decides where a query continues. So a commit that fails with a retriable error is skipped: the
next commit includes it.
"""

import logging

from ottla.errors import KafkaError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.kafka_log import KafkaLog
from ottla.spark.shared.error_texts import extended
from ottla.spark.shared.offsets import Offsets

LOG = logging.getLogger("ottla.spark")


def commit(options: ReadOptions, group: str, offsets: Offsets) -> None:
    """Commit offsets for a group, or warn that the commit failed for now.

    Raises:
        KafkaError: It will never be possible; the text names the group.
    """
    try:
        KafkaLog(options).commit(group, offsets)
    except KafkaError as error:
        if error.retriable:
            LOG.warning("The offsets of the stream were not committed to group %s: %s", group, error)
            return
        raise extended(error, f"option commitOffsetsToGroup, which names group {group}") from None
