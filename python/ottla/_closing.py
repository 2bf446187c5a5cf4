"""How a member of a group closes: it leaves, and then disconnects in the time that is left."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from ottla.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla._ottla import ConsumerCore, ShareConsumerCore


@contextlib.contextmanager
def disconnecting(core: ConsumerCore | ShareConsumerCore, deadline: float) -> Iterator[None]:
    """Disconnect after the block, which leaves the group; at once if the block is interrupted, as by Ctrl-C."""
    try:
        yield
    except Exception:
        core.close(left(deadline)).wait()
        raise
    except BaseException:
        # What brokers do not answer would keep connections open until the deadline.
        with contextlib.suppress(KafkaTimeoutError):
            core.close(0).wait()
        raise
    core.close(left(deadline)).wait()


def left(deadline: float) -> float:
    """Seconds until then; 0 if it has passed."""
    return max(deadline - time.monotonic(), 0)
