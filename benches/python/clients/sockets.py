"""The limits of the machine: requests made beforehand, and answers that are received and hardly looked at.

Fetch v11 and Produce v7 (https://kafka.apache.org/protocol), whose answers are quick to step through.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING, Any

from measurement import WARM

from ottla import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from measurement import Job, Stopwatch

FETCH, FETCH_VERSION = 1, 11
PRODUCE, PRODUCE_VERSION = 0, 7
BATCH_HEADER = 61
FETCH_BYTES, PARTITION_BYTES = 64 << 20, 8 << 20
LARGEST_BATCH = 2 << 20
TIMEOUT = 20.0
IN_FLIGHT = 5


def _frame(api: int, version: int, body: bytes, to_come: int = 0) -> bytes:
    """A request with its length in front, which counts the bytes to come."""
    frame = struct.pack(">hhi", api, version, 0) + _string("limit") + body
    return struct.pack(">i", len(frame) + to_come) + frame


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def fetch_request(topic: str, offsets: dict[int, int]) -> bytes:
    """One Fetch for the given partitions at the given offsets."""
    partitions = b"".join(struct.pack(">iiqqi", p, -1, o, -1, PARTITION_BYTES) for p, o in offsets.items())
    return _frame(
        FETCH,
        FETCH_VERSION,
        struct.pack(">iiiibii", -1, 500, 1, FETCH_BYTES, 0, 0, -1)
        + struct.pack(">i", 1)
        + _string(topic)
        + struct.pack(">i", len(offsets))
        + partitions
        + struct.pack(">i", 0)
        + _string(""),
    )


def produce_request(topic: str, partition: int, size: int, acks: int) -> bytes:
    """One Produce of one batch of so many bytes, up to where the batch begins."""
    return _frame(
        PRODUCE,
        PRODUCE_VERSION,
        struct.pack(">hhii", -1, acks, 30_000, 1) + _string(topic) + struct.pack(">iii", 1, partition, size),
        size,
    )


class Connection:
    """A socket to a job's broker, over TLS where the job says so, and a buffer for its answers."""

    def __init__(self, job: Job, room: int = FETCH_BYTES + LARGEST_BATCH) -> None:
        host, port = job.bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if ca := job.properties.get("ssl_ca_location"):
            self._socket = ssl.create_default_context(cafile=ca).wrap_socket(self._socket, server_hostname=host)
        self.send = self._socket.sendall
        self._view = memoryview(bytearray(room))

    def send_head(self, head: bytes) -> None:
        """Send what goes out together with what is sent next; TLS makes a record of each."""
        more = 0 if isinstance(self._socket, ssl.SSLSocket) else socket.MSG_MORE
        self._socket.sendall(head, more)

    def receive(self) -> memoryview:
        """One answer without its length; the next one overwrites it."""
        self._fill(4)
        (size,) = struct.unpack_from(">i", self._view)
        self._fill(size)
        return self._view[:size]

    def _fill(self, size: int) -> None:
        at = 0
        while at < size:
            got = self._socket.recv_into(self._view[at:size])
            if not got:
                raise ConnectionError("the broker closed the connection")
            at += got


def fetched(answer: memoryview) -> dict[int, memoryview]:
    """Partition -> its bytes in the answer to a Fetch."""
    (_, _, error, _, topics) = struct.unpack_from(">iihii", answer, 0)
    if error or topics != 1:
        raise RuntimeError(f"Fetch failed with code {error}")
    at = 18
    at += 2 + struct.unpack_from(">h", answer, at)[0]
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    out = {}
    for _ in range(count):
        partition, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
        at += 34 + 16 * max(aborted, 0) + 4
        (size,) = struct.unpack_from(">i", answer, at)
        at += 4
        if error:
            raise RuntimeError(f"partition {partition}: code {error}")
        out[partition] = answer[at : at + max(size, 0)]
        at += max(size, 0)
    return out


def whole_batches(data: memoryview) -> list[memoryview]:
    out, at = [], 0
    while at + BATCH_HEADER <= len(data):
        end = at + 12 + struct.unpack_from(">i", data, at + 8)[0]
        if end > len(data):
            break
        out.append(data[at:end])
        at = end
    return out


def next_offset(batch: memoryview) -> int:
    base, last_delta = struct.unpack_from(">q", batch)[0], struct.unpack_from(">i", batch, 23)[0]
    return int(base + last_delta + 1)


class Drain:
    """A connection that reads a topic: once to learn which requests it takes, and then as fast as the socket gives.

    Args:
        job: The topic, and how many records it holds.
        look: Is given each batch while the topic is read for the first time.
    """

    def __init__(self, job: Job, look: Callable[[memoryview], object] = len) -> None:
        self._connection = Connection(job)
        self._requests = list[bytes]()
        offsets = dict.fromkeys(range(job.partitions), 0)
        while sum(offsets.values()) < job.records:
            self._requests.append(fetch_request(job.topic, offsets))
            self._connection.send(self._requests[-1])
            for partition, data in fetched(self._connection.receive()).items():
                for batch in whole_batches(data):
                    look(batch)
                    offsets[partition] = next_offset(batch)

    def run(self) -> None:
        """Send all requests again, two ahead."""
        ahead = 2
        for r in self._requests[:ahead]:
            self._connection.send(r)
        for i in range(len(self._requests)):
            self._connection.receive()
            if i + ahead < len(self._requests):
                self._connection.send(self._requests[i + ahead])


def drain(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """No consumer in one process with one connection can be quicker."""
    drain = Drain(job)
    watch.start()
    drain.run()
    watch.stop()
    return job.records, job.records * job.size


def produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Batches made beforehand, as large as ours are by default, to each partition in turn, five in flight."""
    per_batch, batch = batch_of(job, job.properties.get("batch_size") or default_batch_size())
    heads = [produce_request(job.topic, p, len(batch), acks=-1) for p in range(job.partitions)]
    connection = Connection(job, 1 << 16)
    sent = answered = 0
    watch.start()
    while job.wants_more(sent * per_batch, watch):
        connection.send_head(heads[sent % job.partitions])
        connection.send(batch)
        sent += 1
        if sent - answered == IN_FLIGHT:
            _check_produced(connection.receive())
            answered += 1
    while answered < sent:
        _check_produced(connection.receive())
        answered += 1
    watch.stop()
    return sent * per_batch, sent * per_batch * job.size


def default_batch_size() -> int:
    from ottla import _ottla

    [default] = [p["default"] for p in _ottla.properties() if p["name"] == "batch.size"]
    return int(default or 0)


def batch_of(job: Job, room: int) -> tuple[int, bytes]:
    """As many records as fit into so many bytes, at least one; and the batch of them."""
    values, count = job.values(), max(1, (room - BATCH_HEADER) // (job.size + 9))
    records = [protocol.Record(values[i % len(values)], timestamp=1_700_000_000_000 + i // 100) for i in range(count)]
    return count, protocol.encode_records(records, compression=job.codec)


def _check_produced(answer: memoryview) -> None:
    (name,) = struct.unpack_from(">h", answer, 8)
    if code := struct.unpack_from(">h", answer, 8 + 2 + name + 4 + 4)[0]:
        raise RuntimeError(f"Produce failed with code {code}")


def latency_produce(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From a Produce of one record to its answer."""
    frames, connection = _single_records(job), Connection(job, 1 << 16)
    watch.start()
    for i in range(job.records):
        begin = time.perf_counter()
        connection.send(frames[i % job.partitions])
        _check_produced(connection.receive())
        watch.laps.append(time.perf_counter() - begin)
    watch.stop()
    return job.records, job.records * job.size


def transactions(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """Transactions made beforehand, with KIP-890's protocol: a Produce and an EndTxn each.

    Before each the coordinator is asked, over a connection of its own, until it says that the markers of the one before
    are written. The other answers are read when all is over.
    """
    connection, asking = Connection(job, 1 << 16), Connection(job, 1 << 16)
    values = job.transaction()
    producer_id, epoch = _identity(connection, job.topic)
    # As producers do it, several go to one partition before the next has its turn.
    made = [_transaction(job, values, n // 9 % job.partitions, producer_id, epoch + n) for n in range(job.records)]
    state = Question("DescribeTransactions", 0, {"transactionalIds": [job.topic]})
    answers = []
    watch.start()
    for produce, end in made:
        begin = time.perf_counter()
        while b"Prepare" in state.ask(asking):
            pass
        answers.append((produce.ask(connection), end.ask(connection)))
        watch.laps.append(time.perf_counter() - begin)
    watch.stop()
    for (produce, end), (produced, ended) in zip(made, answers, strict=True):
        [topic] = produce.read(produced)["responses"]
        _check_code("Produce", topic["partitionResponses"][0])
        _check_code("EndTxn", end.read(ended))
    count = job.records * len(values)
    return count, count * job.size


class Question:
    """A request made beforehand, of any API."""

    def __init__(self, api: str, version: int, message: dict[str, Any]) -> None:
        self._answers = (api, version)
        self._frame = protocol.encode_request(api, version, message, client_id="limit")

    def ask(self, connection: Connection) -> bytes:
        """The answer without its length."""
        connection.send(self._frame)
        return bytes(connection.receive())

    def read(self, answer: bytes) -> dict[str, Any]:
        frame = struct.pack(">i", len(answer)) + answer
        return protocol.decode_frame(frame, response_to=self._answers).message


def _identity(connection: Connection, transactional_id: str) -> tuple[int, int]:
    """Its producer id and epoch, once there is a coordinator."""
    search = Question("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [transactional_id]})
    begin = Question(
        "InitProducerId", 4, {"transactionalId": transactional_id, "transactionTimeoutMs": int(TIMEOUT * 1_000)}
    )
    end = time.monotonic() + TIMEOUT
    while True:
        search.ask(connection)
        answer = begin.read(begin.ask(connection))
        if not answer["errorCode"]:
            return answer["producerId"], answer["producerEpoch"]
        if time.monotonic() > end:
            _check_code("InitProducerId", answer)
        time.sleep(0.1)


def _transaction(
    job: Job, values: list[bytes], partition: int, producer_id: int, epoch: int
) -> tuple[Question, Question]:
    """Its Produce and its end. Each transaction has the epoch after the last one's, and numbers its records anew."""
    records = [protocol.Record(v, timestamp=1_700_000_000_000) for v in values]
    batch = protocol.encode_records(
        records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    topic = {"name": job.topic, "partitionData": [{"index": partition, "records": batch}]}
    produce = {"transactionalId": job.topic, "acks": -1, "timeoutMs": 30_000, "topicData": [topic]}
    end = {"transactionalId": job.topic, "producerId": producer_id, "producerEpoch": epoch, "committed": True}
    return Question("Produce", 12, produce), Question("EndTxn", 5, end)


def _check_code(api: str, answer: dict[str, Any]) -> None:
    if code := answer["errorCode"]:
        raise RuntimeError(f"{api} failed with code {code}")


def latency_end_to_end(job: Job, watch: Stopwatch) -> tuple[int, int]:
    """From a Produce of one record until a Fetch that waits for it has it."""
    frames, producing, fetching = _single_records(job), Connection(job), Connection(job)
    offsets = dict.fromkeys(range(job.partitions), WARM)  # behind what each partition has already
    watch.start()
    for i in range(job.records):
        fetching.send(fetch_request(job.topic, offsets))
        begin = time.perf_counter()
        producing.send(frames[i % job.partitions])
        got = _advance(offsets, fetching.receive())
        watch.laps.append(time.perf_counter() - begin)
        _check_produced(producing.receive())
        if got != 1:
            raise RuntimeError(f"{got} records where one was sent")
    watch.stop()
    return job.records, job.records * job.size


def _single_records(job: Job) -> list[bytes]:
    _, batch = batch_of(job, 0)
    return [produce_request(job.topic, p, len(batch), acks=1) + batch for p in range(job.partitions)]


def _advance(offsets: dict[int, int], answer: memoryview) -> int:
    """Note how far an answer brings each partition, and count its records."""
    before = sum(offsets.values())
    for partition, data in fetched(answer).items():
        for batch in whole_batches(data):
            offsets[partition] = next_offset(batch)
    return sum(offsets.values()) - before
