"""How a member of a group closes: it leaves, and then disconnects in the time that is left."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ottla._closing import left
from ottla.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla._ottla import ConsumerCore, ShareConsumerCore


@contextlib.asynccontextmanager
async def disconnecting(core: ConsumerCore | ShareConsumerCore, deadline: float) -> AsyncIterator[None]:
    """Disconnect after the block, which leaves the group; at once if the block is cancelled."""
    try:
        yield
    except Exception:
        await core.close(left(deadline))
        raise
    except BaseException:
        # What brokers do not answer would keep connections open until the deadline.
        with contextlib.suppress(KafkaTimeoutError):
            await core.close(0)
        raise
    await core.close(left(deadline))
