"""How `produce` sends records: many at once, counted, and named by their lines where they fail."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, cast

import ottla
from ottla.cli import settings, signals, streams
from ottla.cli.produce.inputs import Records, Table, Values
from ottla.errors import ArgumentError

# As many records are worth a call for all of them.
FEW = 16
# A record from this size on is sent alone: one that is too large then stops those after it.
LARGE = 2**19
# Seconds between two steps of a command with a rate.
STEP = 0.1


class Fixed(NamedTuple):
    """What each record gets that the input does not have.

    Attributes:
        topic: The topic; None for that of each record.
        key: The key.
        partition: The partition.
        headers: Headers, after those of the input.
        tombstones: Whether an empty value becomes null, a tombstone.
    """

    topic: str | None = None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    tombstones: bool = False


class Sender:
    """Sends records, and counts those that were delivered.

    Args:
        producer: The producer.
        fixed: What each record gets.
        unit: What the input has, for errors: `line`, `row` or `record`.
        goes_on: Whether a record that cannot be sent is reported, and the next ones are sent.
        report: Is called with topic, partition and offset of each delivered record; None for nobody.
    """

    def __init__(
        self,
        producer: ottla.Producer,
        fixed: Fixed,
        unit: str = "line",
        *,
        goes_on: bool = False,
        report: Any = None,
    ) -> None:
        self._producer = producer
        self._fixed = fixed
        self._unit = unit
        self._goes_on = goes_on
        self._report = report
        self._pending: deque[tuple[Sequence[int], str | None, Any]] = deque()
        self.sent = 0
        self.failed = 0

    def send(self, records: Records) -> None:
        """Send records. What was sent before and failed is reported.

        Raises:
            KafkaError: A line was not sent; the text has its number, from 1 up. Not if the sender goes on.
        """
        bad = dict(records.bad or {})
        first_bad = min(bad, default=None)
        if first_bad is not None and not self._goes_on:
            # Those before it are sent.
            count = sum(number < first_bad for number in records.numbers)
            self._send_all(_first(records, count))
            with self._naming(first_bad):
                raise bad[first_bad]
        for number, error in sorted(bad.items()):
            with self._naming(number):
                raise error
        self._send_all(records)

    def send_values(self, values: Values) -> None:
        """Send lines as values.

        Raises:
            KafkaError: As `send`.
        """
        topic = self._fixed.topic
        is_plain = self._fixed == Fixed(topic)
        if topic is None or not is_plain or len(values.lines) <= FEW or values.lines.longest >= LARGE:
            self.send(values.records())
            return
        deliveries = self._producer.send_many(topic, values.lines)
        self._pending.append((values.numbers(), topic, (deliveries, None)))
        self._take_done()

    def send_table(self, table: Table) -> None:
        """Send the rows of a table.

        Raises:
            KafkaError: A row was not sent; or the table is not one of records.
        """
        rows = range(table.first, table.first + table.table.num_rows)
        if self._fixed.topic is None and "topic" not in table.table.column_names:
            raise ArgumentError("the input has no column topic: add -t TOPIC")
        deliveries = self._producer.send_arrow(self._fixed.topic, table.table)
        topics = None
        if self._report is not None and self._fixed.topic is None:
            topics = table.table["topic"].to_pylist()
        self._pending.append((rows, self._fixed.topic, (deliveries, topics)))
        self._take_done()

    def finish(self, timeout: float | None) -> None:
        """Wait for all records, and raise for the first that was not delivered."""
        with suppress(ottla.KafkaError):
            # The lines below report failures and the timeout.
            self._producer.flush(timeout)
        failed: list[ottla.KafkaError] = []
        while self._pending:
            try:
                self._take()
            except ottla.KafkaError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _send_all(self, records: Records) -> None:
        if self._fixed.tombstones:
            records = records._replace(values=[value or None for value in records.values])
        longest = max(map(len, filter(None, records.values)), default=0)
        large = len(records.values) <= FEW or longest >= LARGE
        topics = {self._fixed.topic or each.topic for each in records.parsed or ()} or {self._fixed.topic}
        if large or len(topics) > 1 or None in topics:
            self._send_each(records)
        elif records.values:
            topic = cast("str", topics.pop())
            options: dict[str, Any] = {"keys": self._keys(records), "headers": self._fixed.headers or None}
            options["partitions"] = self._fixed.partition
            if records.parsed is not None:
                options["timestamps"] = [each.timestamp for each in records.parsed]
                options["headers"] = [(*each.headers, *self._fixed.headers) for each in records.parsed]
                if self._fixed.partition is None:
                    options["partitions"] = [each.partition for each in records.parsed]
            deliveries = self._producer.send_many(topic, records.values, **options)
            self._pending.append((records.numbers, topic, (deliveries, None)))
        self._take_done()

    def _keys(self, records: Records) -> list[bytes | None] | bytes | None:
        if records.keys is None:
            return self._fixed.key
        if self._fixed.key is None:
            return records.keys
        return [self._fixed.key if key is None else key for key in records.keys]

    def _send_each(self, records: Records) -> None:
        keys = records.keys or [None] * len(records.values)
        parsed: list[Any] = [*records.parsed] if records.parsed is not None else [None] * len(records.values)
        for number, value, key, found in zip(records.numbers, records.values, keys, parsed, strict=True):
            topic = self._fixed.topic or (found.topic if found is not None else None)
            with self._naming(number):
                if topic is None:
                    raise ArgumentError("the record names no topic: add -t TOPIC")
                options: dict[str, Any] = {}
                headers = (*(found.headers if found is not None else ()), *self._fixed.headers)
                if headers:
                    options["headers"] = headers
                if found is not None and found.timestamp is not None:
                    options["timestamp"] = found.timestamp
                partition = self._fixed.partition
                if partition is None and found is not None:
                    partition = found.partition
                delivery = self._producer.send(
                    topic, value, key=self._fixed.key if key is None else key, partition=partition, **options
                )
                self._pending.append(((number,), topic, delivery))
            self._take_done()

    def _take_done(self) -> None:
        while self._pending and _handle(self._pending[0][2]).done():
            self._take()

    def _take(self) -> None:
        numbers, topic, handle = self._pending.popleft()
        if not isinstance(handle, tuple):
            with self._naming(numbers[0]):
                done = handle.result(0)
                self.sent += 1
                if self._report is not None:
                    self._report(topic, done.partition, done.offset)
            return
        deliveries, topics = handle
        try:
            errors = {} if deliveries.exception(0) is None else deliveries.errors
            partitions, offsets = ((), ()) if self._report is None else deliveries.result(0, check=False)
        except ottla.KafkaError as error:
            # Some results are not known: the records count as not sent.
            if not self._goes_on:
                raise ottla.KafkaError(f"{self._unit} {numbers[0]} or later: {error}") from error
            self.failed += len(numbers)
            streams.print_error(f"ottla: {self._unit} {numbers[0]} or later: {error}")
            return
        self.sent += len(numbers) - len(errors)
        for row, (partition, offset) in enumerate(zip(partitions, offsets, strict=True)):
            if row not in errors:
                self._report(topic or topics[row], partition, offset)
        for row, failure in sorted(errors.items()):
            with self._naming(numbers[row]):
                raise failure

    @contextmanager
    def _naming(self, number: int) -> Iterator[None]:
        """Name the line that an error is about; print it and go on, if that is wanted."""
        try:
            yield
        except ottla.KafkaError as error:
            if not self._goes_on:
                raise ottla.KafkaError(f"{self._unit} {number}: {error}") from error
            self.failed += 1
            streams.print_error(f"ottla: {self._unit} {number}: {error}")


def _handle(handle: Any) -> Any:
    return handle[0] if isinstance(handle, tuple) else handle


def _first(records: Records, count: int) -> Records:
    return Records(
        records.numbers[:count],
        records.values[:count],
        None if records.keys is None else records.keys[:count],
        None if records.parsed is None else records.parsed[:count],
        position=records.position,
    )


class Rate:
    """Slows a command down to a number of records a second.

    Args:
        rate: Records in a second; None for any number.
        between: Lets signals in while it waits.
    """

    def __init__(self, rate: float | None, between: signals.Between) -> None:
        self._rate = rate
        self._between = between
        self._start = time.monotonic()
        self._count = 0

    def parts(self, records: Records) -> Iterator[Records]:
        """The records, in parts with pauses before them."""
        if self._rate is None:
            yield records
            return
        size = max(1, int(self._rate * STEP))
        bad = records.bad
        for begin in range(0, max(1, len(records.numbers)), size):
            part = _first(records, begin + size)
            self._wait(len(part.numbers) - begin)
            yield Records(
                part.numbers[begin:],
                part.values[begin:],
                None if part.keys is None else part.keys[begin:],
                None if part.parsed is None else part.parsed[begin:],
                # After the last part, so that all lines before them are sent.
                bad if begin + size >= len(records.numbers) else None,
                records.position,
            )

    def _wait(self, count: int) -> None:
        due = self._start + self._count / (self._rate or 1)
        self._count += count
        pause = due - time.monotonic()
        if pause > 0:
            with self._between.waiting():
                time.sleep(pause)


# Seconds for which a command that was stopped waits for its last records.
PATIENCE = settings.PATIENCE_MS / 1000
