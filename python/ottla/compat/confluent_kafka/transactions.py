"""Transactions of a producer: librdkafka's states, on ottla's calls."""

from __future__ import annotations

import time
from typing import Any, Final

from ottla import _ottla, errors
from ottla.compat.confluent_kafka.callbacks import deadline_of
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException, code, failure, to_exception
from ottla.compat.confluent_kafka.group_metadata import GroupMetadata
from ottla.compat.confluent_kafka.properties import Configuration
from ottla.compat.confluent_kafka.topic_partition import partition_list

_NOT_CONFIGURED: Final = "The Transactional API requires transactional.id to be configured"
_FOREVER: Final = 86_400.0


class Transactions:
    """The transactions of a producer.

    Args:
        core: The producer, or None without brokers.
        config: Its configuration.
    """

    def __init__(self, core: _ottla.ProducerCore | None, config: Configuration) -> None:
        self._core = core
        self._is_configured = "transactional.id" in config.properties
        self._pending: str | None = None
        self._state = "Init"
        self._fatal: KafkaError | None = None

    def check(self, call: str) -> None:
        """Raise if the producer is fenced, if a call that timed out has to be repeated first, or if there is no id."""
        self._check_fatal()
        if not self._is_configured:
            raise failure("_NOT_CONFIGURED", _NOT_CONFIGURED)
        if self._pending is not None and self._pending != call:
            raise failure("_CONFLICT", f"{self._pending}() timed out and has to be called again first", retriable=True)

    def init(self, timeout: float) -> None:
        """`init_transactions`."""
        self.check("init_transactions")
        self._call("init_transactions", timeout, lambda core, seconds: core.init_transactions(seconds, False))
        self._state = "Ready"

    def begin(self) -> None:
        """`begin_transaction`."""
        self.check("begin_transaction")
        self._expect("Ready")
        self._call("begin_transaction", -1, lambda core, seconds: core.begin_transaction(seconds))
        self._state = "InTransaction"

    def send_offsets(self, positions: Any, group: Any, timeout: float) -> None:
        """`send_offsets_to_transaction`."""
        if not isinstance(group, GroupMetadata):
            raise TypeError("expected group_metadata as consumer_group_metadata() returns it")
        wanted = partition_list(positions)
        self.check("send_offsets_to_transaction")
        self._expect("InTransaction")
        offsets = {(tp.topic, tp.partition): tp.offset for tp in wanted if tp.offset >= 0}
        if not offsets:
            return
        self._call(
            "send_offsets_to_transaction",
            timeout,
            lambda core, seconds: core.send_offsets(offsets, group.of_ottla(), seconds),
        )

    def commit(self, timeout: float) -> None:
        """`commit_transaction`."""
        self._expect("InTransaction")
        self._call("commit_transaction", timeout, lambda core, seconds: core.commit_transaction(seconds))
        self._state = "Ready"

    def abort(self, timeout: float) -> None:
        """`abort_transaction`."""
        self.check("abort_transaction")
        self._expect("InTransaction")
        self._call("abort_transaction", timeout, lambda core, seconds: core.abort_transaction(seconds))
        self._state = "Ready"

    def _check_fatal(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _expect(self, state: str) -> None:
        self._check_fatal()
        if self._state != state:
            raise failure("_STATE", f"Operation not valid in state {self._state}")

    def _call(self, name: str, timeout: float, call: Any) -> None:
        deadline = deadline_of(timeout)
        self._pending = name
        if self._core is None:
            while (left := deadline - time.monotonic()) > 0:
                time.sleep(min(0.05, left))
            reason = "Timed out waiting for operation to finish, retry call to resume"
            raise failure("_TIMED_OUT", reason, retriable=True)
        try:
            call(self._core, min(_FOREVER, max(0.0, deadline - time.monotonic()))).wait()
        except (errors.KafkaTimeoutError, errors.UnreachableError, errors.UnknownOutcomeError) as error:
            raise KafkaException(KafkaError(code("_TIMED_OUT"), str(error), retriable=True)) from error
        except errors.FencedError as error:
            self._pending, self._fatal = None, KafkaError(code("_FENCED"), str(error), fatal=True)
            raise KafkaException(self._fatal) from error
        except errors.KafkaError as error:
            self._pending = None
            raise to_exception(error) from error
        self._pending = None
