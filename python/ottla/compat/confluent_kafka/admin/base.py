"""What every call of an admin client needs: the cluster, and a thread that sets the future."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NoReturn, Self

import ottla
from ottla import errors
from ottla.compat.confluent_kafka.admin.checks import check_options
from ottla.compat.confluent_kafka.callbacks import deadline_of
from ottla.compat.confluent_kafka.cluster import Cluster
from ottla.compat.confluent_kafka.errors import failure, raised, to_exception
from ottla.compat.confluent_kafka.handle import Handle
from ottla.compat.confluent_kafka.properties import parse

_CLOSED: Final = "AdminClient has been closed"
_TIMEOUT: Final = 60.0


class AdminBase(Handle):
    """A client of a cluster with calls that set futures. Programs subclass it, and the prefix leaves their names free.

    Args:
        config: A dict of librdkafka's properties, and callbacks.
    """

    __state: Cluster | None

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """Make a client that is closed until its __init__."""
        made = super().__new__(cls)
        made.__state = None
        return made

    def __init__(self, *args: Any, **config: Any) -> None:
        self.__state = Cluster(parse("admin", args, config))
        if self.__state.is_connected:
            with raised(at_deadline="_INVALID_ARG"):
                self.__state.admin()

    def _ottla_cluster(self) -> Cluster | None:
        """Return the cluster: None if the client is closed."""
        return self.__state

    def _ottla_open(self) -> Cluster:
        """Return the cluster.

        Raises:
            RuntimeError: The client is closed.
        """
        if self.__state is None:
            raise RuntimeError(_CLOSED)
        return self.__state

    def _ottla_run(
        self, name: str, future: Future[Any], timeout: Any, call: Callable[[ottla.Admin, float], Any]
    ) -> None:
        """Make a call on a thread.

        Args:
            name: The call's name.
            future: What gets the result.
            timeout: The call's request_timeout in seconds.
            call: The call of ottla.
        """
        state = self._ottla_open()
        check_options(False, timeout)
        default = int(state.config.properties.get("request.timeout.ms", 60_000)) / 1000
        seconds = default if timeout is None else float(timeout)
        threading.Thread(
            target=_serve, args=(name, state, future, seconds, call), name="ottla-admin", daemon=True
        ).start()

    def poll(self, timeout: float | None = -1) -> int:
        """Call error_cb, stats_cb and throttle_cb.

        Args:
            timeout: Seconds to wait for the first event; negative or None waits without end.

        Returns: The number of callbacks that were called.
        """
        state = self._ottla_open()
        deadline = deadline_of(-1 if timeout is None else timeout)
        if state.is_connected and "error_cb" in state.config.callbacks:
            # librdkafka connects at once, and error_cb reports that it cannot.
            state.connect(_TIMEOUT)
        served = state.callbacks.serve()
        if not served:
            state.wait(deadline)
        return served

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Set the credentials for the authentications from now on. Connections that are authenticated stay.

        Args:
            username: The user's name.
            password: The password.
        """
        self._ottla_open().set_sasl_credentials(username, password)

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        state, self.__state = self.__state, None
        if state is not None:
            state.close()


def _serve(
    name: str, state: Cluster, future: Future[Any], seconds: float, call: Callable[[ottla.Admin, float], Any]
) -> None:
    """Make a call, and set the future: librdkafka sets it from a thread of its own, too."""
    try:
        result = call(state.admin(), seconds) if state.is_connected else _time_out(name, seconds)
    except errors.KafkaError as error:
        future.set_exception(to_exception(error, at_deadline="_TIMED_OUT"))
    except Exception as error:  # noqa: BLE001 the future has it
        future.set_exception(error)
    else:
        future.set_result(result)


def _time_out(name: str, seconds: float) -> NoReturn:
    """A call of a client that has no brokers."""
    time.sleep(min(seconds, _TIMEOUT))
    raise failure("_TIMED_OUT", f"Failed while waiting for the controller: {name}: Local: Timed out")
