"""How clients close, for asyncio."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from ottla._closing import NOT_CLOSED, left, noting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla._closing import Closable
    from ottla._ottla import ConsumerCore, ShareConsumerCore


# Not for threads.
def ended(core: Closable) -> bool:
    """Close the core at once if the interpreter ends, and return whether it does.

    All clients were disconnected at exit then, and what a loop needs to wait cannot be imported any more.
    """
    if not sys.is_finalizing():
        return False
    core.close(0).wait()
    return True


async def disconnect(core: Closable, timeout: float | None) -> None:
    """Close the core; at once if the wait is cancelled."""
    try:
        await core.close(timeout)
    except Exception:
        raise
    except BaseException as error:
        await _disconnect_now(core, error)
        raise


@contextlib.asynccontextmanager
async def disconnecting(core: ConsumerCore | ShareConsumerCore, deadline: float) -> AsyncIterator[None]:
    """Disconnect after the block, which leaves the group; at once if the block is cancelled."""
    try:
        yield
    except Exception as error:
        with noting(error, NOT_CLOSED):
            await disconnect(core, left(deadline))
        raise
    except BaseException as error:
        await _disconnect_now(core, error)
        raise
    await disconnect(core, left(deadline))


async def _disconnect_now(core: Closable, error: BaseException) -> None:
    # Requests without a response would keep connections open until the deadline.
    with noting(error, NOT_CLOSED):
        await core.close(0)
