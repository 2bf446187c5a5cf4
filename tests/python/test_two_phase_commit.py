"""Two-phase commits on the embedded broker (KIP-939), and what administrators end: both facades."""

from __future__ import annotations

import contextlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import PreparedTransaction, errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.python.conftest import Api

pytestmark = pytest.mark.uvloop

ALLOWED = {"transaction.two.phase.commit.enable": True, "unstable.api.versions.enable": True}
TWO_PHASES = {"transaction_two_phase_commit_enable": True}
DEADLINE = 20

# Prepares a transaction, tells its token, and is killed.
CRASHES = """
import os, signal, sys
import ottla
producer = ottla.Producer(sys.argv[1], transactional_id=sys.argv[2], transaction_two_phase_commit_enable=True)
producer.begin_transaction()
producer.send("t", sys.argv[2]).result(20)
print(producer.prepare_transaction(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with Broker(topics={"t": 1}, config=ALLOWED) as broker:
        yield broker


@pytest.fixture
def identity(request: pytest.FixtureRequest) -> str:
    """A transactional id of the test's own, which is the value of its records too."""
    return re.sub(r"\W+", "-", f"{request.node.name}-{time.time_ns()}")


def prepare(api: Api, producer: Any, value: str) -> PreparedTransaction:
    api(producer.begin_transaction())
    api.result(api(producer.send("t", value)))
    prepared = api(producer.prepare_transaction())
    assert isinstance(prepared, PreparedTransaction)
    return prepared


def crash(bootstrap: str, identity: str) -> str:
    """The token that a process told before it was killed."""
    done = subprocess.run(
        [sys.executable, "-c", CRASHES, bootstrap, identity], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


def is_open(bootstrap: str) -> bool:
    with ottla.Admin(bootstrap) as admin:
        (found,) = admin.describe_producers([("t", 0)]).values()
    return any(state.current_transaction_start_offset is not None for state in found)


def committed(bootstrap: str, value: str) -> int:
    """How often a value is among the committed ones. No transaction is open."""
    end = time.monotonic() + DEADLINE
    while is_open(bootstrap):
        assert time.monotonic() < end, "a transaction stays open"
        time.sleep(0.01)
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with ottla.Consumer(bootstrap, topics=["t"], **options) as consumer:
        (last,) = consumer.end_offsets([("t", 0)]).values()
        found = 0
        while consumer.position(("t", 0)) < last:
            assert time.monotonic() < end, "the end is not reached"
            found += sum(record.value == value.encode() for record in consumer.poll(0.2))
    return found


def test_a_token_is_a_value_whose_text_is_javas() -> None:
    token = PreparedTransaction(42, 7)
    assert str(token) == "42:7"
    assert PreparedTransaction.parse("42:7") == token == pickle.loads(pickle.dumps(token))
    assert len({token, PreparedTransaction.parse("42:7"), PreparedTransaction(42, 8)}) == 2
    for text in ("", "42", "a:b", "42:40000", " 42:7", "42:7:8", "-1:-1", "42:-1", "-1:7", "٤:٢"):
        with pytest.raises(ValueError, match="prepared transaction"):
            PreparedTransaction.parse(text)


def run_block(api: Api, producer: Any, body: Callable[[], None]) -> None:
    """`with producer.transaction():`, in either facade; `body` makes its calls through `api`."""
    block = producer.transaction()
    if api.module is ottla:
        with block:
            body()
        return
    api(block.__aenter__())
    try:
        body()
    except BaseException as error:
        api(block.__aexit__(type(error), error, None))
        raise
    api(block.__aexit__(None, None, None))


@pytest.mark.parametrize("raises", [False, True])
def test_the_end_of_a_block_ends_nothing_that_is_prepared(
    api: Api, cluster: Broker, identity: str, raises: bool
) -> None:
    """Whoever decides may have decided already."""
    with api.producer(cluster.bootstrap_servers, transactional_id=identity, **TWO_PHASES) as producer:
        tokens = []

        def body() -> None:
            api.result(api(producer.send("t", identity)))
            tokens.append(api(producer.prepare_transaction()))
            if raises:
                raise ConnectionError("the database does not answer")

        with pytest.raises(ConnectionError) if raises else contextlib.nullcontext():
            run_block(api, producer, body)
        assert is_open(cluster.bootstrap_servers)
        assert api(producer.complete_transaction(tokens[0])) is True
        run_block(api, producer, lambda: api(producer.complete_transaction(api(producer.prepare_transaction()))))
        assert committed(cluster.bootstrap_servers, identity) == 1


def test_an_empty_transaction_has_a_name_of_its_own(api: Api, cluster: Broker, identity: str) -> None:
    """Otherwise what was decided of it would be done to the next one."""
    with api.producer(cluster.bootstrap_servers, transactional_id=identity, **TWO_PHASES) as producer:
        api(producer.begin_transaction())
        empty = api(producer.prepare_transaction())
        assert api(producer.complete_transaction(empty)) is True
        assert prepare(api, producer, identity) != empty
        assert api(producer.complete_transaction(empty)) is False
        assert committed(cluster.bootstrap_servers, identity) == 0


def test_it_is_completed_as_its_token_says(api: Api, cluster: Broker, identity: str) -> None:
    with api.producer(cluster.bootstrap_servers, transactional_id=identity, **TWO_PHASES) as producer:
        prepared = prepare(api, producer, "early")
        for call in (
            lambda: producer.send("t", "too late"),
            producer.begin_transaction,
            producer.init_transactions,
            lambda: producer.send_offsets({("t", 0): 1}, "g"),
        ):
            with pytest.raises(errors.ArgumentError, match=r"complete_transaction\(\)"):
                api(call())
        assert api(producer.prepare_transaction()) == prepared
        assert api(producer.complete_transaction(prepared)) is True
        assert api(producer.complete_transaction(prepared)) is None
        other = prepare(api, producer, f"other-{identity}")
        assert other != prepared
        assert api(producer.complete_transaction(str(prepared))) is False
        third = prepare(api, producer, f"third-{identity}")
        assert api(producer.complete_transaction(third, commit=False)) is False
        for end in (producer.commit_transaction, producer.abort_transaction):
            prepare(api, producer, identity)
            api(end())
        assert committed(cluster.bootstrap_servers, identity) == 1
        for aborted in (f"other-{identity}", f"third-{identity}"):
            assert committed(cluster.bootstrap_servers, aborted) == 0


@pytest.mark.parametrize(
    "how", ["as prepared", "another", "no token", "not to commit", "after a look", "by initialising"]
)
def test_another_process_ends_what_a_killed_one_prepared(api: Api, cluster: Broker, identity: str, how: str) -> None:
    bootstrap = cluster.bootstrap_servers
    token = crash(bootstrap, identity)
    assert is_open(bootstrap)
    with api.producer(bootstrap, transactional_id=identity, **TWO_PHASES) as producer:
        expected = how in {"as prepared", "after a look"}
        if how == "after a look":
            api(producer.init_transactions(keep_prepared=True))
            with pytest.raises(errors.ArgumentError, match="prepared"):
                api(producer.begin_transaction())
        if how == "by initialising":
            api(producer.init_transactions())
        else:
            producer_id = int(token.partition(":")[0])
            meant = {"another": f"{producer_id + 1}:0", "no token": None}.get(how, token)
            completed = api(producer.complete_transaction(meant, commit=how != "not to commit"))
            assert completed is expected
        assert committed(bootstrap, identity) == expected
        # It goes on, and whoever completes it once more finds nothing.
        assert api(producer.complete_transaction(token)) is None
        api(producer.begin_transaction())
        api.result(api(producer.send("t", f"next-{identity}")))
        api(producer.commit_transaction())
    with api.producer(bootstrap, transactional_id=identity, **TWO_PHASES) as third:
        assert api(third.complete_transaction(token)) is None
    assert committed(bootstrap, f"next-{identity}") == 1


def test_a_prepared_transaction_outlives_its_broker_and_its_producer(api: Api, tmp_path: Path, identity: str) -> None:
    with Broker(topics={"t": 1}, config=ALLOWED, data_dir=tmp_path) as broker:
        token = crash(broker.bootstrap_servers, identity)
    with Broker(config=ALLOWED, data_dir=tmp_path) as broker:
        # To close a producer, or another take-over, ends nothing either.
        with api.producer(broker.bootstrap_servers, transactional_id=identity, **TWO_PHASES) as second:
            api(second.init_transactions(keep_prepared=True))
        assert is_open(broker.bootstrap_servers)
    with Broker(config=ALLOWED, data_dir=tmp_path) as broker:
        bootstrap = broker.bootstrap_servers
        with api.producer(bootstrap, transactional_id=identity, **TWO_PHASES) as third:
            assert api(third.complete_transaction(token)) is True
        assert committed(bootstrap, identity) == 1


def test_who_took_over_fences_who_prepared(api: Api, cluster: Broker, identity: str) -> None:
    bootstrap = cluster.bootstrap_servers
    options = {"transactional_id": identity, **TWO_PHASES}
    with api.producer(bootstrap, **options) as first, api.producer(bootstrap, **options) as second:
        prepared = prepare(api, first, identity)
        api(second.init_transactions(keep_prepared=True))
        with pytest.raises(errors.FencedError):
            api(first.complete_transaction(prepared))
        assert api(second.complete_transaction(prepared)) is True
    assert committed(bootstrap, identity) == 1


def test_brokers_say_what_two_phase_commits_need(api: Api, identity: str) -> None:
    for config, error, match in [
        ({}, errors.UnsupportedError, r"KIP-939.*unstable\.api\.versions\.enable=true"),
        ({"transaction.two.phase.commit.enable": True}, errors.UnsupportedError, "InitProducerId 6"),
        ({"unstable.api.versions.enable": True}, errors.AuthorizationError, r"two\.phase\.commit\.enable=true"),
    ]:
        with (
            Broker(topics={"t": 1}, config=config) as broker,
            api.producer(broker.bootstrap_servers, transactional_id=identity, **TWO_PHASES) as producer,
        ):
            with pytest.raises(error, match=match):
                api(producer.begin_transaction())
            with pytest.raises(error, match=match):
                api(producer.complete_transaction("1:1"))
    users = {"alice": "a", "bob": "b"}
    acls = ["alice write transactional-id:*", "alice all topic:*", "alice two-phase-commit transactional-id:may"]
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_allow_plaintext": True, "sasl_mechanism": "PLAIN"}
    options |= {"sasl_username": "alice", "sasl_password": "a"}
    with Broker(topics={"t": 1}, config=ALLOWED, users=users, super_users=["bob"], acls=acls) as broker:
        for name, denied in (("may", False), ("may-not", True)):
            with api.producer(broker.bootstrap_servers, transactional_id=name, **options, **TWO_PHASES) as producer:
                if denied:
                    with pytest.raises(errors.AuthorizationError, match="TWO_PHASE_COMMIT"):
                        api(producer.begin_transaction())
                else:
                    api(producer.begin_transaction())


def test_a_producer_of_one_phase_says_what_it_lacks(api: Api, cluster: Broker, identity: str) -> None:
    with api.producer(cluster.bootstrap_servers, transactional_id=identity) as producer:
        api(producer.begin_transaction())
        for call in (producer.prepare_transaction, lambda: producer.complete_transaction("1:1")):
            with pytest.raises(errors.ConfigError, match=r"transaction\.two\.phase\.commit\.enable=true"):
                api(call())
    for options, match in [
        ({}, r"needs a transactional\.id"),
        ({"transactional_id": "x", "transaction_timeout_ms": 5}, r"transaction\.timeout\.ms"),
    ]:
        with pytest.raises(errors.ConfigError, match=match):
            api.module.Producer("localhost:1", **options, **TWO_PHASES)


# --- what administrators end ---


def test_administrators_end_what_is_open_or_prepared(api: Api, cluster: Broker, identity: str) -> None:
    bootstrap = cluster.bootstrap_servers
    options = {"transactional_id": identity, **TWO_PHASES}
    plain = f"plain-{identity}"
    with (
        api.admin(bootstrap) as admin,
        api.producer(bootstrap, **options) as prepared,
        api.producer(bootstrap, transactional_id=plain) as opened,
    ):
        token = prepare(api, prepared, identity)
        api(opened.begin_transaction())
        api.result(api(opened.send("t", identity)))
        api(admin.force_terminate_transaction(identity))
        fenced = api(admin.fence_producers([identity, plain, f"new-{identity}"]))
        assert fenced[identity].producer_id == token.producer_id
        assert fenced[identity].producer_epoch > token.epoch
        assert fenced[f"new-{identity}"].producer_epoch == 0
        for call in (lambda: prepared.complete_transaction(token), opened.commit_transaction):
            with pytest.raises(errors.FencedError):
                api(call())
    assert committed(bootstrap, identity) == 0


def test_a_transaction_that_its_coordinator_forgot_is_aborted(api: Api, tmp_path: Path, identity: str) -> None:
    with Broker(topics={"t": 1}, config=ALLOWED, data_dir=tmp_path) as broker:
        with ottla.Producer(broker.bootstrap_servers, transactional_id=identity) as first:
            first.init_transactions()
        crash(broker.bootstrap_servers, identity)
    shutil.rmtree(tmp_path / "__transaction_state-0")
    with Broker(data_dir=tmp_path) as broker, api.admin(broker.bootstrap_servers) as admin:
        assert api(admin.list_transactions()) == []
        ((state,),) = api(admin.describe_producers([("t", 0)])).values()
        assert (state.producer_epoch, state.current_transaction_start_offset) == (1, 0)
        named = {"producer_id": state.producer_id, "coordinator_epoch": state.coordinator_epoch}
        with pytest.raises(errors.FencedError, match="INVALID_PRODUCER_EPOCH"):
            api(admin.abort_transaction(("t", 0), producer_epoch=0, **named))
        assert is_open(broker.bootstrap_servers)
        with pytest.raises(errors.ArgumentError, match="no such partition"):
            api(admin.abort_transaction(("t", 7), producer_epoch=1, **named, timeout=2))
        api(admin.abort_transaction(ottla.TopicPartition("t", 0), producer_epoch=1, **named))
        assert committed(broker.bootstrap_servers, identity) == 0


def test_the_time_of_each_verb_is_measured(api: Api, cluster: Broker, identity: str) -> None:
    def total(producer: Any, verb: str) -> float:
        (found,) = [value for name, value in producer.metrics().items() if name.name == f"txn-{verb}-time-ns-total"]
        return float(found)

    with api.producer(cluster.bootstrap_servers, transactional_id=identity, **TWO_PHASES) as producer:
        verbs = {
            "init": producer.init_transactions,
            "begin": producer.begin_transaction,
            "send-offsets": lambda: producer.send_offsets({("t", 0): 1}, "g"),
            "commit": producer.commit_transaction,
            "abort": producer.abort_transaction,
        }
        for verb, call in verbs.items():
            assert total(producer, verb) == 0
            if verb == "abort":
                api(producer.begin_transaction())
            before = time.perf_counter_ns()
            api(call())
            assert 0 < total(producer, verb) <= time.perf_counter_ns() - before
        aborted = total(producer, "abort")
        assert total(producer, "prepare") == 0
        prepared = prepare(api, producer, identity)
        assert total(producer, "prepare") > 0
        api(producer.complete_transaction(f"{prepared.producer_id + 1}:0"))
        assert total(producer, "abort") > aborted
