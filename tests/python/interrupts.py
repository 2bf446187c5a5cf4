"""How soon Ctrl-C ends calls that wait: `python -m tests.python.interrupts SCENE` prints a line of JSON for each.

In a process of its own, since a signal that comes too late would end the run of the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Literal

import ottla
from ottla import aio
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # A call that waits, and what is done before it, anew for each try.
    Wait = tuple[str, Callable[[], Callable[[], object]]]

LIMIT = 0.3
"""Seconds from the signal to KeyboardInterrupt."""
TRIES = 5
"""On a busy machine a thread may wait for its turn, but not each time."""
PAUSE = 0.11
"""Seconds for which a call waits before the signal comes; soon after one of its looks at signals, every 50 ms."""
LONG = 60.0
"""Seconds for which it would wait."""
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
    "transaction.two.phase.commit.enable": True,
    "unstable.api.versions.enable": True,
}
PLACE = ("t", 0)
REPLICA = ottla.TopicPartitionReplica("t", 0, 1)
PLAN = ottla.ReassignmentPlan(ottla.Rows([ottla.ReplicaMove("t", 0, [1], [2])]), 0)


def to_process() -> None:
    """Send the signal as a terminal does."""
    os.kill(os.getpid(), signal.SIGINT)


def to_main_thread() -> None:
    """Send the signal to the thread that waits. Python's own waits do not end where the kernel chooses another thread."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def reaction(
    call: Callable[[], object],
    reached: threading.Event | None = None,
    send: Callable[[], None] = to_process,
) -> float:
    """Seconds from SIGINT until the call has raised KeyboardInterrupt; the signal comes while it waits."""
    sent = 0.0

    def interrupt() -> None:
        nonlocal sent
        if reached is not None:
            reached.wait(LONG)
        time.sleep(PAUSE)
        sent = time.monotonic()
        send()

    thread = threading.Thread(target=interrupt, daemon=True)
    try:
        thread.start()
        try:
            value = call()
        except Exception as error:
            value = error
        thread.join()
        time.sleep(1)  # until the signal is here
    except KeyboardInterrupt:
        took = time.monotonic() - sent
        thread.join()
        return took
    raise AssertionError(f"it did not raise KeyboardInterrupt, but ended with {value!r}")


def measure(name: str, prepare: Callable[[], Any]) -> dict[str, Any]:
    """The best and the worst of some tries, beside a wait of Python's own at the same time."""
    took, worst, control, tries = LONG, 0.0, LONG, 0
    while tries < TRIES and took > LIMIT:
        tries += 1
        call = prepare()
        reached = getattr(call, "reached", None)
        this = reaction(call, reached)
        took, worst = min(took, this), max(worst, this)
        control = min(control, reaction(lambda: threading.Event().wait(LONG), send=to_main_thread))
    return {"call": name, "took": took, "worst": worst, "control": control, "tries": tries}


class Listening:
    """A poll that waits in a listener, which is the caller's own code."""

    def __init__(self, poll: Callable[[], object]) -> None:
        self.poll, self.reached = poll, threading.Event()

    def __call__(self) -> object:
        return self.poll()

    def listener(self, _: object) -> None:
        self.reached.set()
        threading.Event().wait(LONG)


class Scene:
    """A broker that answers all, until it is told to ignore something, and an address where nobody ever answers."""

    def __init__(self) -> None:
        self.broker = Broker(topics=["t", "full", "empty"], config=CONFIG).start()
        self.address = self.broker.bootstrap_servers
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.mute = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.numbers = itertools.count(1)
        self.made: list[Any] = []

    def name(self) -> str:
        return f"name-{next(self.numbers)}"

    def keep(self, client: Any) -> Any:
        """A client that is closed at the end."""
        self.made.append(client)
        return client

    def ignore(self, *apis: str) -> None:
        for api in apis:
            self.broker.ignore(api, count=1_000_000)

    def end(self) -> None:
        """Whatever was interrupted can be closed."""
        self.broker.clear_faults()
        for client in self.made:
            with contextlib.suppress(ottla.errors.KafkaError):  # what was left to do
                client.close(0)
        self.listening.close()
        self.broker.stop()


# --- what each kind of client waits for


def producer(scene: Scene) -> Iterator[Wait]:
    producer = scene.keep(ottla.Producer(scene.address, request_timeout_ms=3000))
    producer.send("t", b"x").result(10)
    scene.ignore("Produce", "Metadata")
    sent, many = producer.send("t", b"x"), producer.send_many("t", [b"x"])
    table = ottla_table()
    yield "Producer.send", lambda: lambda: producer.send("unknown", b"x")
    yield "Producer.send_many", lambda: lambda: producer.send_many("unknown", [b"x"])
    yield "Producer.send_arrow", lambda: lambda: producer.send_arrow("unknown", table)
    yield "Producer.flush", lambda: lambda: producer.flush(LONG)
    yield "Producer.partitions_for", lambda: lambda: producer.partitions_for("unknown", LONG)
    yield "Delivery.result", lambda: lambda: sent.result(LONG)
    yield "Delivery.exception", lambda: lambda: sent.exception(LONG)
    yield "Deliveries.result", lambda: lambda: many.result(LONG)
    yield "Deliveries.exception", lambda: lambda: many.exception(LONG)

    def close() -> Callable[[], object]:
        other = filled(scene)
        return lambda: other.close(LONG)

    yield "Producer.close", close
    scene.broker.clear_faults()
    assert producer.send("t", b"after").result(30).topic == "t"
    mute = scene.keep(ottla.Producer(scene.mute))
    yield "Producer.client_instance_id", lambda: lambda: mute.client_instance_id(LONG)


def filled(scene: Scene) -> ottla.Producer:
    """A producer with a record that no broker answers."""
    scene.broker.clear_faults()
    producer = scene.keep(ottla.Producer(scene.address))
    producer.send("t", b"x").result(10)
    scene.ignore("Produce")
    producer.send("t", b"x")
    return producer


def ottla_table() -> Any:
    import pyarrow as pa

    return pa.table({"value": [b"x"]})


def transactions(scene: Scene) -> Iterator[Wait]:
    def opened(*ignored: str, **options: Any) -> Any:
        """A producer with an open transaction, of a broker that then ignores some requests."""
        scene.broker.clear_faults()
        producer = scene.keep(ottla.Producer(scene.address, transactional_id=scene.name(), **options))
        producer.begin_transaction()
        producer.send("t", b"x").result(10)
        scene.ignore(*ignored)
        return producer

    def fresh() -> Any:
        scene.broker.clear_faults()
        scene.ignore("InitProducerId")
        return scene.keep(ottla.Producer(scene.address, transactional_id=scene.name()))

    def init() -> Callable[[], object]:
        producer = fresh()
        return lambda: producer.init_transactions(LONG)

    def begin() -> Callable[[], object]:
        producer = fresh()
        return lambda: producer.begin_transaction(LONG)

    def offsets() -> Callable[[], object]:
        producer = opened("AddOffsetsToTxn", "TxnOffsetCommit")
        return lambda: producer.send_offsets({PLACE: 1}, "g", LONG)

    def commit() -> Callable[[], object]:
        producer = opened("EndTxn")
        return lambda: producer.commit_transaction(LONG)

    def abort() -> Callable[[], object]:
        producer = opened("EndTxn")
        return lambda: producer.abort_transaction(LONG)

    def prepare() -> Callable[[], object]:
        producer = opened("Produce", transaction_two_phase_commit_enable=True)
        producer.send("t", b"x")
        return lambda: producer.prepare_transaction(LONG)

    def complete() -> Callable[[], object]:
        producer = opened("EndTxn", transaction_two_phase_commit_enable=True)
        prepared = producer.prepare_transaction()
        return lambda: producer.complete_transaction(prepared, timeout=LONG)

    yield "Producer.init_transactions", init
    yield "Producer.begin_transaction", begin
    yield "Producer.send_offsets", offsets
    yield "Producer.commit_transaction", commit
    yield "Producer.abort_transaction", abort
    yield "Producer.prepare_transaction", prepare
    yield "Producer.complete_transaction", complete


def blocks(scene: Scene) -> Iterator[Wait]:
    """`with` statements, whose ends wait."""

    def transaction(fails: bool) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            scene.broker.clear_faults()
            producer = scene.keep(ottla.Producer(scene.address, transactional_id=scene.name()))
            producer.init_transactions()

            def call() -> None:
                with producer.transaction():
                    producer.send("t", b"x").result(10)
                    scene.ignore("EndTxn")
                    if fails:
                        raise ValueError

            return call

        return prepare

    def producer() -> Callable[[], object]:
        made = filled(scene)
        return lambda: made.__exit__(None, None, None)

    yield "Producer.transaction that commits", transaction(fails=False)
    yield "Producer.transaction that aborts", transaction(fails=True)
    yield "Producer.__exit__", producer
    for protocol in ("classic", "consumer"):
        yield f"Consumer.__exit__ ({protocol})", Members(scene, protocol).leaving


def consumer(scene: Scene) -> Iterator[Wait]:
    """One without a group."""
    consumer = scene.keep(ottla.Consumer(scene.address))
    consumer.assign([ottla.TopicPartition("t", 0, 0)])
    consumer.poll(0)
    yield "Consumer.poll", lambda: lambda: consumer.poll(LONG)
    yield "Consumer.__iter__", lambda: lambda: next(iter(consumer))
    yield "Consumer.batches", lambda: lambda: next(consumer.batches())
    scene.ignore("Metadata", "ListOffsets")
    consumer.seek_to_beginning()
    yield "Consumer.position", lambda: lambda: consumer.position(PLACE, LONG)
    yield "Consumer.lag", lambda: lambda: consumer.lag(LONG)
    yield "Consumer.beginning_offsets", lambda: lambda: consumer.beginning_offsets([PLACE], LONG)
    yield "Consumer.end_offsets", lambda: lambda: consumer.end_offsets([PLACE], LONG)
    yield "Consumer.offsets_for_times", lambda: lambda: consumer.offsets_for_times({PLACE: 1}, LONG)
    yield "Consumer.partitions_for", lambda: lambda: consumer.partitions_for("unknown", LONG)
    scene.broker.clear_faults()
    assert consumer.end_offsets([PLACE], 40) == {PLACE: 0}
    mute = scene.keep(ottla.Consumer(scene.mute))
    yield "Consumer.client_instance_id", lambda: lambda: mute.client_instance_id(LONG)
    yield "ottla.read", lambda: lambda: ottla.read(scene.mute, "t")


class Members:
    """Consumers of groups of their own, by either protocol, of a broker that ignores some requests when they are ready."""

    def __init__(self, scene: Scene, protocol: Literal["classic", "consumer"]) -> None:
        self.scene, self.protocol = scene, protocol
        self.join, self.leave = "JoinGroup", "LeaveGroup"
        if protocol == "consumer":
            self.join = self.leave = "ConsumerGroupHeartbeat"

    def consumer(self, *ignored: str) -> Any:
        scene = self.scene
        scene.broker.clear_faults()
        scene.ignore(*ignored)
        return scene.keep(ottla.Consumer(scene.address, group_id=scene.name(), group_protocol=self.protocol))

    def joined(self, *ignored: str, **listeners: Any) -> Any:
        consumer = self.consumer()
        consumer.subscribe("empty", **listeners)
        while not consumer.assignment():
            consumer.poll(0.01)
        # So that there is something to commit.
        consumer.position(("empty", 0), 10)
        self.scene.ignore(*ignored)
        return consumer

    def call(self, verb: str, *ignored: str) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            consumer = self.joined(*ignored)
            return lambda: getattr(consumer, verb)(timeout=LONG)

        return prepare

    def loop(self) -> Callable[[], object]:
        consumer = self.joined()
        return lambda: next(iter(consumer))

    def joining(self) -> Callable[[], object]:
        consumer = self.consumer(self.join)
        consumer.subscribe("empty")
        return lambda: consumer.poll(LONG)

    def beginning(self) -> Callable[[], object]:
        consumer = self.consumer("OffsetFetch")
        consumer.assign([PLACE])
        return lambda: consumer.position(PLACE, LONG)

    def assigned(self) -> Callable[[], object]:
        consumer = self.consumer()
        call = Listening(lambda: consumer.poll(LONG))
        consumer.subscribe("empty", on_assign=call.listener)
        return call

    def leaving(self) -> Callable[[], object]:
        consumer = self.joined(self.leave)
        return lambda: consumer.__exit__(None, None, None)

    def revoked(self, verb: str) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            call = Listening(lambda: getattr(consumer, verb)(LONG))
            consumer = self.joined(on_revoke=call.listener)
            return call

        return prepare


def member(scene: Scene, protocol: Literal["classic", "consumer"]) -> Iterator[Wait]:
    made = Members(scene, protocol)
    yield f"Consumer.poll of a member ({protocol})", made.call("poll")
    yield f"Consumer.__iter__ of a member ({protocol})", made.loop
    yield f"Consumer.poll that joins ({protocol})", made.joining
    yield f"Consumer.poll in a listener ({protocol})", made.assigned
    yield f"Consumer.commit ({protocol})", made.call("commit", "OffsetCommit")
    yield f"Consumer.committed ({protocol})", made.call("committed", "OffsetFetch")
    yield f"Consumer.position of the group ({protocol})", made.beginning
    for verb in ("unsubscribe", "close"):
        yield f"Consumer.{verb} that leaves ({protocol})", made.call(verb, made.leave)
        yield f"Consumer.{verb} that commits ({protocol})", made.call(verb, "OffsetCommit")
        yield f"Consumer.{verb} in a listener ({protocol})", made.revoked(verb)


def classic(scene: Scene) -> Iterator[Wait]:
    yield from member(scene, "classic")


def kip848(scene: Scene) -> Iterator[Wait]:
    yield from member(scene, "consumer")


def share(scene: Scene) -> Iterator[Wait]:
    producer = scene.keep(ottla.Producer(scene.address))

    def consumer(*ignored: str) -> Any:
        scene.broker.clear_faults()
        scene.ignore(*ignored)
        return scene.keep(
            ottla.ShareConsumer(scene.address, topics="t", group_id=scene.name(), share_acknowledgement_mode="explicit")
        )

    def given(*ignored: str) -> Any:
        """One that has said what becomes of a record."""
        made = consumer()
        batch = made.poll(0.01)
        while not len(batch):
            # A share group begins at the end of its topics.
            if made.assignment():
                producer.send("t", b"x")
            batch = made.poll(0.05)
        made.acknowledge(batch)
        scene.ignore(*ignored)
        return made

    def call(verb: str, *ignored: str, has_records: bool = True) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            made = given(*ignored) if has_records else consumer(*ignored)
            return lambda: getattr(made, verb)(timeout=LONG)

        return prepare

    def loop(verb: str) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            made = consumer()
            return lambda: next(iter(made) if verb == "__iter__" else made.batches())

        return prepare

    yield "ShareConsumer.poll", call("poll", has_records=False)
    yield "ShareConsumer.poll that joins", call("poll", "ShareGroupHeartbeat", has_records=False)
    yield "ShareConsumer.__iter__", loop("__iter__")
    yield "ShareConsumer.batches", loop("batches")
    yield "ShareConsumer.commit", call("commit", "ShareAcknowledge", "ShareFetch")
    for verb in ("unsubscribe", "close"):
        yield f"ShareConsumer.{verb}", call(verb, "ShareGroupHeartbeat")
        yield f"ShareConsumer.{verb} that acknowledges", call(verb, "ShareAcknowledge", "ShareFetch")
    mute = scene.keep(ottla.ShareConsumer(scene.mute, group_id="g"))
    yield "ShareConsumer.client_instance_id", lambda: lambda: mute.client_instance_id(LONG)


def admin(scene: Scene) -> Iterator[Wait]:
    admin = scene.keep(ottla.Admin(scene.mute))
    questions: dict[str, Callable[[], object]] = {
        "create_topics": lambda: admin.create_topics([ottla.NewTopic("new")], timeout=LONG),
        "delete_topics": lambda: admin.delete_topics("t", timeout=LONG),
        "list_topics": lambda: admin.list_topics(timeout=LONG),
        "describe_cluster": lambda: admin.describe_cluster(timeout=LONG),
        "describe_topics": lambda: admin.describe_topics("t", timeout=LONG),
        "describe_producers": lambda: admin.describe_producers([PLACE], timeout=LONG),
        "list_groups": lambda: admin.list_groups(timeout=LONG),
        "describe_groups": lambda: admin.describe_groups("g", timeout=LONG),
        "list_transactions": lambda: admin.list_transactions(timeout=LONG),
        "describe_transactions": lambda: admin.describe_transactions("id", timeout=LONG),
        "fence_producers": lambda: admin.fence_producers("id", timeout=LONG),
        "force_terminate_transaction": lambda: admin.force_terminate_transaction("id", timeout=LONG),
        "abort_transaction": lambda: admin.abort_transaction(PLACE, producer_id=1, producer_epoch=0, timeout=LONG),
        "create_delegation_token": lambda: admin.create_delegation_token(timeout=LONG),
        "renew_delegation_token": lambda: admin.renew_delegation_token(b"hmac", timeout=LONG),
        "expire_delegation_token": lambda: admin.expire_delegation_token(b"hmac", timeout=LONG),
        "describe_delegation_tokens": lambda: admin.describe_delegation_tokens(timeout=LONG),
        "client_instance_id": lambda: admin.client_instance_id(LONG),
        "create_partitions": lambda: admin.create_partitions({"t": 2}, timeout=LONG),
        "delete_records": lambda: admin.delete_records({PLACE: 1}, timeout=LONG),
        "list_offsets": lambda: admin.list_offsets({PLACE: "latest"}, timeout=LONG),
        "describe_configs": lambda: admin.describe_configs(("TOPIC", "t"), timeout=LONG),
        "incremental_alter_configs": lambda: admin.incremental_alter_configs(
            {("TOPIC", "t"): {"a": "b"}}, timeout=LONG
        ),
        "list_config_resources": lambda: admin.list_config_resources(timeout=LONG),
        "describe_share_groups": lambda: admin.describe_share_groups("g", timeout=LONG),
        "describe_streams_groups": lambda: admin.describe_streams_groups("g", timeout=LONG),
        "delete_groups": lambda: admin.delete_groups("g", timeout=LONG),
        "list_group_offsets": lambda: admin.list_group_offsets("g", timeout=LONG),
        "alter_group_offsets": lambda: admin.alter_group_offsets("g", {PLACE: 1}, timeout=LONG),
        "delete_group_offsets": lambda: admin.delete_group_offsets("g", [PLACE], timeout=LONG),
        "remove_group_members": lambda: admin.remove_group_members("g", timeout=LONG),
        "list_share_group_offsets": lambda: admin.list_share_group_offsets("g", timeout=LONG),
        "alter_share_group_offsets": lambda: admin.alter_share_group_offsets("g", {PLACE: 1}, timeout=LONG),
        "delete_share_group_offsets": lambda: admin.delete_share_group_offsets("g", "t", timeout=LONG),
        "lag": lambda: admin.lag("g", timeout=LONG),
        "reset_group_offsets": lambda: admin.reset_group_offsets("g", "latest", timeout=LONG),
        "describe_acls": lambda: admin.describe_acls(timeout=LONG),
        "create_acls": lambda: admin.create_acls(ottla.AclBinding("TOPIC", "t", "User:a", "READ"), timeout=LONG),
        "delete_acls": lambda: admin.delete_acls(ottla.AclFilter(), timeout=LONG),
        "describe_user_scram_credentials": lambda: admin.describe_user_scram_credentials(timeout=LONG),
        "alter_user_scram_credentials": lambda: admin.alter_user_scram_credentials(
            [ottla.ScramDeletion("a", "SCRAM-SHA-256")], timeout=LONG
        ),
        "describe_client_quotas": lambda: admin.describe_client_quotas(timeout=LONG),
        "alter_client_quotas": lambda: admin.alter_client_quotas([({"user": "a"}, {"q": 1.0})], timeout=LONG),
        "elect_leaders": lambda: admin.elect_leaders(timeout=LONG),
        "alter_partition_reassignments": lambda: admin.alter_partition_reassignments({PLACE: [1]}, timeout=LONG),
        "list_partition_reassignments": lambda: admin.list_partition_reassignments(timeout=LONG),
        "plan_reassignment": lambda: admin.plan_reassignment("t", timeout=LONG),
        "start_reassignment": lambda: admin.start_reassignment(PLAN, timeout=LONG),
        "verify_reassignment": lambda: admin.verify_reassignment(PLAN, timeout=LONG),
        "describe_log_dirs": lambda: admin.describe_log_dirs(timeout=LONG),
        "describe_replica_log_dirs": lambda: admin.describe_replica_log_dirs([REPLICA], timeout=LONG),
        "alter_replica_log_dirs": lambda: admin.alter_replica_log_dirs({REPLICA: "/"}, timeout=LONG),
        "list_topic_sizes": lambda: admin.list_topic_sizes(timeout=LONG),
        "describe_features": lambda: admin.describe_features(timeout=LONG),
        "update_features": lambda: admin.update_features({"f": 1}, timeout=LONG),
        "describe_metadata_quorum": lambda: admin.describe_metadata_quorum(timeout=LONG),
        "add_raft_voter": lambda: admin.add_raft_voter(1, uuid.UUID(int=1), [], timeout=LONG),
        "remove_raft_voter": lambda: admin.remove_raft_voter(1, uuid.UUID(int=1), timeout=LONG),
        "unregister_broker": lambda: admin.unregister_broker(1, timeout=LONG),
        "unregister_controller": lambda: admin.unregister_controller(1, timeout=LONG),
        "request": lambda: admin.request("DescribeCluster", timeout=LONG),
        "find_hanging_transactions": lambda: admin.find_hanging_transactions(timeout=LONG),
    }
    for name, question in questions.items():
        yield f"Admin.{name}", ready(question)


def ready(call: Callable[[], object]) -> Callable[[], Callable[[], object]]:
    """A call that needs nothing done before it."""
    return lambda: call


def copy(batch: ottla.Batch) -> list[ottla.NewRecord]:
    return [ottla.NewRecord(record.value) for record in batch]


def transform(scene: Scene) -> Iterator[Wait]:
    def run(address: str) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            made = ottla.transform(address, copy, topics="empty", group_id=scene.name(), to="t")
            return made.run

        return prepare

    def working() -> Callable[[], object]:
        """In the caller's function, with a transaction open."""
        with ottla.Producer(scene.address) as producer:
            producer.send("full", b"x")

        def wait(batch: ottla.Batch) -> Iterator[ottla.NewRecord]:
            yield from copy(batch)
            call.reached.set()
            threading.Event().wait(LONG)

        options: dict[str, Any] = {"consumer": {"auto.offset.reset": "earliest"}}
        made = ottla.transform(scene.address, wait, topics="full", group_id=scene.name(), to="t", **options)
        call = Listening(made.run)
        return call

    yield "Transform.run", run(scene.address)
    yield "Transform.run in the function", working
    yield "Transform.run without a broker", run(scene.mute)


def asyncio_(scene: Scene) -> Iterator[Wait]:
    """`asyncio.run` cancels what is awaited. What a client still does when it is closed is not counted, but that it closes is."""

    def running(kind: str, use: Callable[[Any], Any], **options: Any) -> Callable[[], Callable[[], object]]:
        async def main() -> None:
            client = getattr(aio, kind)(scene.address, **options)
            try:
                await use(client)
            finally:
                with contextlib.suppress(ottla.errors.KafkaTimeoutError):
                    await client.close(0)

        return lambda: lambda: asyncio.run(main())

    async def poll(client: Any) -> None:
        client.subscribe("empty")
        while True:
            await client.poll(LONG)

    async def flush(client: Any) -> None:
        await client.send("t", b"x")
        await client.flush(LONG)

    async def list_topics(client: Any) -> None:
        scene.ignore("Metadata")
        await client.list_topics(timeout=LONG)

    async def run() -> None:
        await aio.transform(scene.address, copy, topics="empty", group_id=scene.name(), to="t").run()

    yield "aio.Consumer.poll", running("Consumer", poll, group_id="classic")
    yield "aio.Consumer.poll (consumer)", running("Consumer", poll, group_id="848", group_protocol="consumer")
    yield "aio.ShareConsumer.poll", running("ShareConsumer", poll, group_id="share")
    yield "aio.Transform.run", lambda: lambda: asyncio.run(run())
    yield "aio.read", lambda: lambda: asyncio.run(aio.read(scene.mute, "t"))
    yield "aio.Producer.flush", running("Producer", flush, linger_ms=600_000)
    yield "aio.Admin.list_topics", running("Admin", list_topics)


SCENES = {
    "producer": producer,
    "transactions": transactions,
    "blocks": blocks,
    "consumer": consumer,
    "classic": classic,
    "kip848": kip848,
    "share": share,
    "admin": admin,
    "transform": transform,
    "asyncio": asyncio_,
}


def names() -> set[str]:
    """The calls that are measured."""
    found = set()
    for waits in SCENES.values():
        scene = Scene()
        found |= {name.partition(" ")[0] for name, _ in waits(scene)}
        scene.end()
    return found


def main() -> None:
    scene = Scene()
    for name, prepare in SCENES[sys.argv[1]](scene):
        try:
            line = measure(name, prepare)
        except (Exception, KeyboardInterrupt) as error:
            line = {"call": name, "failed": repr(error)}
        print(json.dumps(line), flush=True)
    scene.end()


if __name__ == "__main__":
    main()
