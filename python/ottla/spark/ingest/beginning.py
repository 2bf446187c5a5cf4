"""The beginning of a job's first batch: decided once, and kept next to the checkpoint until that batch is done.

Spark calls a Python source again for each query that has no batch yet. With `latest`, a group or a time, the second
result may differ, while the end of the batch is in the checkpoint. Records between the two would never be read.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ottla.errors import KafkaError
from ottla.spark.ingest.settings import Settings
from ottla.spark.ingest.spark_errors import IngestError
from ottla.spark.plan.checkpoint import Checkpoint
from ottla.spark.plan.positions import EARLIEST
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.plan.topic_history_file import OPTION
from ottla.spark.read.client_pool import close_idle
from ottla.spark.read.kafka_log import planner
from ottla.spark.shared.offsets import Offsets, to_json

# Other options for the beginning, in lower case; the last one only together with a group.
OTHERS = (
    "startingoffsets",
    "startingtimestamp",
    "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "kafka.auto.offset.reset",
)


class Beginning:
    """Where the first batch of a job begins.

    Args:
        spark: The session.
        settings: Of the job.

    Attributes:
        offsets: That of each partition; None if the first batch is past, or there is no partition yet.
        source: The options of the source for these offsets, and for the folder that remembers its topics.

    Raises:
        IngestError: No broker responded, or the checkpoint is that of something else.
    """

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._name = settings.name
        self.offsets: Offsets | None = None
        self.source: Mapping[str, str] = settings.source
        with self._plainly():
            self._checkpoint = Checkpoint(spark, settings.checkpoint)
            self.source = _remembering(settings.source, self._checkpoint.own)
            if self._checkpoint.has_commits():
                return
            options = ReadOptions.parse(settings.source)
            plan, kept = planner(options), self._checkpoint.first()
            # Partitions that came since then begin at their first record, as later ones do.
            offsets = plan.initial() if kept is None else {**dict.fromkeys(plan.latest({}), EARLIEST), **kept}
            close_idle(options)
        if offsets:
            others = {name: value for name, value in self.source.items() if name.lower() not in OTHERS}
            self.source = {**others, "startingOffsets": json.dumps(to_json(offsets))}
            self.offsets = offsets if kept is None else kept

    def keep(self) -> None:
        """Keep it next to the checkpoint, unless it is there.

        Raises:
            IngestError: Another job has just done so.
        """
        offsets = self.offsets
        if offsets is not None:
            with self._plainly():
                self._checkpoint.begin(lambda: offsets)

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except (KafkaError, ValueError, OSError) as error:
            raise IngestError(f"{self._name}: {error}") from error


def _remembering(source: Mapping[str, str], folder: str | None) -> Mapping[str, str]:
    """The options with a folder to remember topics in, unless they have one."""
    if folder is None or any(name.lower() == OPTION.lower() for name in source):
        return source
    return {**source, OPTION: folder}
