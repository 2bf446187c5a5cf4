"""Records that cannot be read: what option `onCorrupt` makes of them."""

import logging

from ottla import Consumer
from ottla.errors import CorruptRecordError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared.ranges import Range

LOG = logging.getLogger("ottla.spark")


def pass_over(options: ReadOptions, client: Consumer, error: CorruptRecordError) -> range:
    """Continue after records that cannot be read, whose offsets this returns.

    Raises:
        CorruptRecordError: Option `onCorrupt` does not allow it, or the end of the records is unknown.
    """
    topic, partition, offset, next_offset = error.topic, error.partition, error.offset, error.next_offset
    if topic is None or partition is None or offset is None or next_offset is None:
        raise error
    if not options.skip_corrupt:
        raise CorruptRecordError(f"{error}. To pass over what cannot be read, set option onCorrupt to skip") from None
    client.seek((topic, partition), next_offset)
    return range(offset, next_offset)


class PassedOver:
    """The skipped offsets of a range. Neighbours, of which there may be many, share a warning."""

    def __init__(self, span: Range) -> None:
        self._span = span
        self._offsets = range(0)
        self._cause = ""

    def note(self, offsets: range, cause: CorruptRecordError) -> None:
        """Remember offsets, and warn of those before if they are no neighbours."""
        if self._offsets and self._offsets.stop == offsets.start:
            self._offsets = range(self._offsets.start, offsets.stop)
            return
        self.close()
        self._offsets, self._cause = offsets, str(cause)

    def close(self) -> None:
        """Warn of what was noted."""
        if self._offsets:
            LOG.warning(
                "%s-%s: offsets %s to %s are skipped, because of option onCorrupt: %s",
                *(self._span.topic, self._span.partition, self._offsets[0], self._offsets[-1], self._cause),
            )
        self._offsets = range(0)
