# Written by scripts/unasync.py from python/ottla/aio/_closing.py. Change that file, and run the script.
"""How clients close, for threads."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ottla._closing import NOT_CLOSED, left, noting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla._closing import Closable
    from ottla._ottla import ConsumerCore, ShareConsumerCore


def disconnect(core: Closable, timeout: float | None) -> None:
    """Close the core; at once if the wait is interrupted, as by Ctrl-C."""
    try:
        core.close(timeout).wait()
    except Exception:
        raise
    except BaseException as error:
        _disconnect_now(core, error)
        raise


@contextlib.contextmanager
def disconnecting(core: ConsumerCore | ShareConsumerCore, deadline: float) -> Iterator[None]:
    """Disconnect after the block, which leaves the group; at once if the block is interrupted, as by Ctrl-C."""
    try:
        yield
    except Exception as error:
        with noting(error, NOT_CLOSED):
            disconnect(core, left(deadline))
        raise
    except BaseException as error:
        _disconnect_now(core, error)
        raise
    disconnect(core, left(deadline))


def _disconnect_now(core: Closable, error: BaseException) -> None:
    # Requests without a response would keep connections open until the deadline.
    with noting(error, NOT_CLOSED):
        core.close(0).wait()
