"""What a stream has read, committed to a consumer group, where tools that watch lag look for it.

Spark's checkpoint alone decides where a query goes on. So a commit that fails for now is passed over: the next one says
more.
"""

import logging

from ottla.errors import KafkaError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.kafka_log import KafkaLog
from ottla.spark.shared.error_texts import extended
from ottla.spark.shared.offsets import Offsets

LOG = logging.getLogger("ottla.spark")


def commit(options: ReadOptions, group: str, offsets: Offsets) -> None:
    """Commit where a group goes on, or warn that it cannot be done now.

    Raises:
        KafkaError: It will never be possible; the text names the group.
    """
    try:
        KafkaLog(options).commit(group, offsets)
    except KafkaError as error:
        if error.retriable:
            LOG.warning("Group %s was not told what the stream has read: %s", group, error)
            return
        raise extended(error, f"option commitOffsetsToGroup, which names group {group}") from None
