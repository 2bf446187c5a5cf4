"""Bad input gets, within its deadline, an error that names the cause and what to do."""

from __future__ import annotations

import gc
import socket
import ssl
import subprocess
import threading
import time
import weakref
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest

import ottla
from ottla import TopicPartition, errors
from ottla.testing import Broker
from tests.ports import held_port
from tests.python.conftest import PATIENCE

SOON = {"default_api_timeout_ms": 1500}


# Seconds. What is said in this time, also by a busy machine, did not wait for a default timeout: the shortest has 30.
PROMPT = 20


@contextmanager
def promptly():
    start = time.monotonic()
    yield
    spent = time.monotonic() - start
    assert spent < PROMPT, f"it took {spent:.1f} s"


def meet(api, producer, topic):
    """The producer's first contact, which may take longer than its `max_block_ms`."""
    api(producer.partitions_for(topic, timeout=PROMPT))


@pytest.fixture
def nobody():
    """An address where nobody listens."""
    with held_port() as port:
        yield f"127.0.0.1:{port}"


@contextmanager
def listening(answer):
    """The address of a server that calls `answer(connection)` for each connection, and then closes it."""
    stop = threading.Event()

    def serve(listener):
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(2)
            with connection, suppress(OSError):
                answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            thread.join(10)


@pytest.fixture
def http():
    """The address of a web server."""

    def answer(connection):
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with listening(answer) as address:
        yield address


@pytest.fixture
def silent():
    """The address of a server that waits for more, as web servers do that see no end of the line."""
    with listening(lambda connection: connection.recv(1000) and connection.recv(1000)) as address:
        yield address


@pytest.fixture
def tls(tmp_path):
    """The address of a server that speaks TLS."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "1", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(connection):
        with context.wrap_socket(connection, server_side=True):
            pass

    with listening(answer) as address:
        yield address


def attempts(api, address):
    """A call of each client that needs a broker."""

    def send():
        with api.producer(address, max_block_ms=1500) as producer:
            api(producer.send("t", b"v"))

    def poll():
        with api.consumer(address, socket_connection_setup_timeout_ms=500) as consumer:
            consumer.assign([TopicPartition("t", 0, 0)])
            # The first poll may end before the attempt does.
            for _ in range(3):
                api(consumer.poll(1.5))

    def ask():
        with api.admin(address, **SOON) as admin:
            api(admin.list_topics())

    return {"send": send, "poll": poll, "ask": ask}


@pytest.mark.parametrize("call", ["send", "poll", "ask"])
def test_wrong_address(api, nobody, call):
    with promptly(), pytest.raises(errors.UnreachableError, match="refused") as caught:
        attempts(api, nobody)[call]()
    assert nobody in str(caught.value)
    assert caught.value.retriable
    assert isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize("call", ["send", "poll", "ask"])
def test_unknown_host(api, call):
    with promptly(), pytest.raises(errors.UnreachableError, match=r"no-such-host\.invalid"):
        attempts(api, "no-such-host.invalid:9092")[call]()


@pytest.mark.parametrize("call", ["send", "poll", "ask"])
def test_port_that_speaks_http(api, http, call):
    with promptly(), pytest.raises(errors.NotKafkaError, match="HTTP") as caught:
        attempts(api, http)[call]()
    assert http in str(caught.value)


@pytest.mark.parametrize("call", ["send", "poll", "ask"])
def test_port_that_speaks_tls(api, tls, call):
    """It may reset the connection before its alert arrives, and then TLS is only one of the causes named."""
    with promptly(), pytest.raises(errors.UnreachableError, match="TLS") as caught:
        attempts(api, tls)[call]()
    assert tls in str(caught.value)


def test_port_that_answers_with_a_tls_alert(api):
    def answer(connection):
        connection.recv(1000)
        connection.sendall(b"\x15\x03\x03\x00\x02\x02\x46")

    with listening(answer) as address, promptly(), pytest.raises(errors.NotKafkaError, match="TLS"):
        attempts(api, address)["ask"]()


@pytest.mark.parametrize("call", ["send", "poll", "ask"])
def test_port_that_says_nothing(api, silent, call):
    with promptly(), pytest.raises(errors.UnreachableError, match="no response") as caught:
        attempts(api, silent)[call]()
    assert silent in str(caught.value)


def test_unknown_topic(api, address, topic):
    with promptly(), api.producer(address, max_block_ms=1000) as producer:
        meet(api, producer, topic)
        with pytest.raises(errors.NotFoundError, match="no-such-topic") as caught:
            api(producer.send("no-such-topic", b"v"))
        assert (caught.value.code, caught.value.topic) == (3, "no-such-topic")
        with pytest.raises(errors.NotFoundError, match="no-such-topic"):
            api(producer.partitions_for("no-such-topic", timeout=1))
    with (
        promptly(),
        api.consumer(address, topics=["no-such-topic"]) as consumer,
        pytest.raises(errors.NotFoundError, match="no-such-topic"),
    ):
        api(consumer.poll(PROMPT))
    with promptly(), api.consumer(address) as consumer:
        consumer.assign([TopicPartition("no-such-topic", 0, 0)])
        with pytest.raises(errors.NotFoundError, match="no-such-topic"):
            api(consumer.poll(PROMPT))


def test_unknown_partition(api, address, topic):
    with promptly(), api.producer(address, max_block_ms=1000) as producer:
        meet(api, producer, topic)
        with pytest.raises(errors.KafkaError, match="9"):
            api.result(api(producer.send(topic, b"v", partition=9)))


def test_oversized_record(api, address, topic):
    with api.producer(address, max_request_size=1000) as producer:
        with promptly(), pytest.raises(errors.TooLargeError, match=r"max\.request\.size") as caught:
            api(producer.send(topic, b"x" * 2000))
        assert caught.value.topic == topic
        assert api.result(api(producer.send(topic, b"small"))).topic == topic, "the producer goes on"


def test_oversized_record_among_many(api, address, topic):
    with api.producer(address, max_request_size=1000) as producer:
        sent = api(producer.send_many(topic, [b"a", b"x" * 2000, b"b"], partitions=[0, 0, 0]))
        with pytest.raises(errors.TooLargeError) as caught:
            api.result(sent)
        assert "1 of 3 rows" in caught.value.__notes__[0]
        assert list(sent.errors) == [1]
        assert str(sent.exception()) == str(sent.errors[1])
        assert list(sent.result(check=False)[1]) == [0, -1, 1]


@pytest.mark.parametrize("value", [5, 1.5, {"a": 1}, ["a"], object()])
@pytest.mark.parametrize("part", ["value", "key"])
def test_value_of_a_wrong_type(api, address, topic, part, value):
    with api.producer(address) as producer:
        with pytest.raises(TypeError, match=f"{part} for topic .* must be bytes") as caught:
            api(producer.send(topic, **{part: value}))
        assert topic in str(caught.value)
        assert type(value).__name__ in str(caught.value)
        with pytest.raises(TypeError, match=f"{part} of row 1 "):
            api(producer.send_many(topic, [b"a", b"b" if part == "key" else value], keys=[b"k", value]))


@pytest.mark.parametrize(("columns", "row"), [({"partitions": [0, 2**40]}, 1), ({"timestamps": [2**70, 0]}, 0)])
def test_a_number_too_large_names_its_row(api, address, topic, columns, row):
    with api.producer(address) as producer, pytest.raises(errors.ArgumentError) as caught:
        api(producer.send_many(topic, [b"a", b"b"], **columns))
    assert caught.value.__notes__ == [f"{next(iter(columns))[:-1]} of row {row}"]


@pytest.mark.parametrize("name", ["", "x" * 250])
def test_a_topic_name_of_a_wrong_length(api, address, name):
    with api.producer(address) as producer:
        for call in (lambda: producer.send(name, b"v"), lambda: producer.send_many(name, [b"v"])):
            with promptly(), pytest.raises(errors.ArgumentError, match="1 to 249 characters") as caught:
                api(call())
            assert caught.value.topic == name


def test_rows_for_topics_after_one_that_cannot_be_are_told_by_their_deliveries(api, address, topic):
    name = "x" * 250
    table = pa.table({"topic": [topic, topic, name, topic], "value": [b"a", b"b", b"c", b"d"]})
    with api.producer(address) as producer:
        sent = api(producer.send_arrow(None, table))
        with pytest.raises(errors.ArgumentError):
            api.result(sent)
        assert list(sent.errors) == [2, 3]
        for error in sent.errors.values():
            assert isinstance(error, errors.ArgumentError)
            assert error.topic == name


def test_a_delivery_is_nothing_for_the_cycle_collector(api, address, topic):
    with api.producer(address) as producer:
        deliveries = [api(producer.send(topic, b"%d" % n)) for n in range(1000)]
        watched = [weakref.ref(delivery) for delivery in deliveries]
        gc.collect()
        assert not any(gc.is_tracked(delivery) for delivery in deliveries)
        assert [api.result(delivery).topic for delivery in deliveries] == [topic] * 1000
        del deliveries
        assert not any(reference() for reference in watched), "they go without the collector"


@pytest.mark.parametrize(
    "headers", [5, "ab", [1], [("a",)], [("a", b"b", b"c")], {b"a": b"b"}, {"a": 5}, [("a", {"b": 1})]]
)
def test_headers_of_a_wrong_type(api, address, topic, headers):
    with api.producer(address) as producer, pytest.raises(TypeError, match="header"):
        api(producer.send(topic, b"v", headers=headers))


def test_one_value_for_send_many(api, address, topic):
    with api.producer(address) as producer, pytest.raises(TypeError, match="use send"):
        api(producer.send_many(topic, b"one"))


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin"])
def test_bad_options(api, kind):
    client = getattr(api.module, kind)
    with pytest.raises(errors.ConfigError, match="request_timeout_mss.*did you mean request_timeout_ms"):
        client("a:1", request_timeout_mss=5)
    with pytest.raises(errors.ConfigError, match=r"request\.timeout\.ms.*whole number.*-1"):
        client("a:1", config={"request.timeout.ms": -1})
    with pytest.raises(errors.ConfigError, match="given twice"):
        client("a:1", config={"client.id": "a"}, client_id="b")
    with pytest.raises(errors.ConfigError, match=r"bootstrap\.servers"):
        client()
    with pytest.raises(errors.ConfigError, match="host:port"):
        client("localhost")
    with pytest.raises(errors.ConfigError, match='whole number .* and was "1.5"'):
        client("a:1", config={"request.timeout.ms": 1.5})
    with pytest.raises(TypeError, match="int"):
        client("a:1", config={5: "a"})
    with pytest.raises(errors.ConfigError) as caught:
        client("a:1", config={"sasl.password": b"hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "answer"),
    [
        ("Producer", {"key_serializer": str.encode}, "key_serializer: .*encode where you send"),
        ("Consumer", {"value_deserializer": bytes.decode}, "value_deserializer: .*decode where you read"),
        ("Consumer", {"group_id": "g", "group_protocol": "streams"}, "must be one of classic, consumer, auto"),
        (
            "Consumer",
            {"group_id": "g", "group_protocol": "consumer", "session_timeout_ms": 9000},
            "session.timeout.ms: .*group.protocol=consumer",
        ),
        (
            "Consumer",
            {"group_id": "g", "group_remote_assignor": "range"},
            "group.remote.assignor: .*group.protocol=classic",
        ),
        ("Consumer", {"group_instance_id": "i"}, "needs group.id"),
        ("Consumer", {"partition_assignment_strategy": "nearest"}, "cooperative-sticky.*nearest"),
        ("Consumer", {"heartbeat_interval_ms": 9000, "session_timeout_ms": 9000}, "less than session.timeout.ms"),
        ("Consumer", {"offset_commit_cb": print}, r"consumer\.commit\(\)"),
        ("Producer", {"transaction_two_phase_commit_enable": True}, r"two\.phase.*needs a transactional\.id"),
        ("Producer", {"on_delivery": print}, "add_done_callback"),
        ("Producer", {"error_cb": print}, "getLogger"),
        ("Producer", {"queue_buffering_max_ms": 5}, "write linger_ms=5"),
        ("Consumer", {"fetch_wait_max_ms": 5}, "write fetch_max_wait_ms=5"),
        ("Admin", {"ssl_context": object()}, "security.protocol=SSL"),
        ("Admin", {"ssl_cafile": "ca.pem"}, "write ssl_ca_location=ca.pem"),
        ("Admin", {"ssl_ca_location": "ca.pem"}, "security.protocol: must be given with ssl.ca.location"),
        ("Admin", {"sasl_plain_password": "hunter2"}, "write sasl_password"),
        ("Admin", {"oauth_cb": print}, "write sasl_token="),
        ("Admin", {"sasl_login_callback_handler_class": "com.example.Handler"}, "never loads"),
        ("Admin", {"security_protocol": "SASL_SSL"}, "sasl.mechanism: is required"),
        ("Admin", {"sasl_username": "alice"}, "security.protocol=SASL_SSL"),
        ("Producer", {"default_topic_config": {"acks": 1}}, "Move its entries up"),
    ],
)
def test_what_other_clients_know_is_answered_with_what_to_write(api, kind, given, answer):
    client = getattr(api.module, kind)
    with pytest.raises(errors.ConfigError, match=answer) as caught:
        client("a:1", **given)
    assert "hunter2" not in str(caught.value)
    dotted = {name.replace("_", "."): value for name, value in given.items()}
    with pytest.raises(errors.ConfigError, match=answer.replace("_", r"[._]")):
        client({"bootstrap.servers": "a:1", **dotted})


def test_settings_may_stand_where_servers_do(api, address):
    with api.admin({"bootstrap.servers": address, "request.timeout.ms": 1000}, client_id="c") as admin:
        api(admin.list_topics())
    with pytest.raises(errors.ConfigError, match=r"client\.id: given twice"):
        api.module.Admin({"bootstrap.servers": address, "client.id": "a"}, config={"client.id": "b"})
    with pytest.raises(errors.ConfigError, match=r"bootstrap\.servers: is required"):
        api.module.Admin({})


def test_reading_creates_no_topics(api):
    """Although the broker would create them, as it does for producers."""
    with Broker() as broker:
        address = broker.bootstrap_servers
        with api.consumer(address, topics=["read"]) as consumer, pytest.raises(errors.NotFoundError, match="read"):
            api(consumer.poll(PATIENCE))
        with api.consumer(address) as consumer:
            consumer.assign([TopicPartition("read", 0, 0)])
            with pytest.raises(errors.NotFoundError, match="read"):
                api(consumer.poll(PATIENCE))
        with api.producer(address) as producer:
            api.result(api(producer.send("written", b"v")))
        with api.admin(address) as admin:
            assert set(api(admin.list_topics())) == {"written"}


def test_options_may_come_in_any_form(api, address):
    host, port = address.split(":")
    with api.admin([f"{host}:{port}"], client_id=None) as admin:
        api(admin.list_topics())
    with api.admin(config={"bootstrap.servers": (address,), "request.timeout.ms": "1000"}) as admin:
        api(admin.list_topics())


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_bad_timeouts(api, address, topic, timeout):
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        with pytest.raises(errors.ArgumentError, match="timeout"):
            api(consumer.poll(timeout))


def test_offset_out_of_range(api, address, topic):
    with api.consumer(address, auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(topic, 0, 1000)])
        with promptly(), pytest.raises(errors.OffsetOutOfRangeError, match=topic) as caught:
            api(consumer.poll(PATIENCE))
        assert (caught.value.topic, caught.value.partition) == (topic, 0)
        consumer.seek((topic, 0), 0)
        assert len(api(consumer.poll(0.1))) == 0, "a seek is the way out"


def test_broker_gone_in_the_middle(api):
    with held_port() as port:
        gone_in_the_middle(api, Broker(port=port, topics=["t"]).start())


def gone_in_the_middle(api, broker):
    address = broker.bootstrap_servers
    options = {"delivery_timeout_ms": 2000, "request_timeout_ms": 1000, "linger_ms": 0, "max_block_ms": 1000}
    producer = api.module.Producer(address, **options)
    consumer = api.module.Consumer(address)
    consumer.assign([TopicPartition("t", 0, 0)])
    meet(api, producer, "t")
    assert api.result(api(producer.send("t", b"before"))).offset == 0
    assert [r.value for r in api.poll(consumer, 1)] == [b"before"]
    broker.stop()
    with promptly():
        late = api(producer.send("t", b"after"))
        with pytest.raises(errors.KafkaError, match="t") as caught:
            api.result(late)
        assert caught.value.topic == "t"
    with promptly():
        # An outage after the first contact ends no loop over polls.
        assert len(api(consumer.poll(2))) == 0
    with promptly(), pytest.raises(errors.UnreachableError, match="refused"):
        api(consumer.end_offsets([("t", 0)], timeout=2))
    with promptly():
        api(consumer.close())
        api(producer.close())


def test_broker_comes_back(api, tmp_path):
    with held_port() as port:
        with Broker(port=port, topics=["t"], data_dir=tmp_path) as broker:
            producer = api.module.Producer(broker.bootstrap_servers, linger_ms=0)
            api.result(api(producer.send("t", b"one")))
        late = api(producer.send("t", b"two"))
        with Broker(port=port, data_dir=tmp_path):
            assert api.result(late).offset == 1
            api(producer.close())


def test_closed_clients_say_so(api, address, topic):
    with api.producer(address) as producer, api.consumer(address) as consumer, api.admin(address) as admin:
        consumer.assign([TopicPartition(topic, 0, 0)])
    for client in (producer, consumer, admin):
        api(client.close())  # Once more does no harm.
    with pytest.raises(errors.ClosedError, match="closed"):
        api(producer.send(topic, b"v"))
    with pytest.raises(errors.ClosedError, match="closed"):
        api(consumer.poll(1))
    with pytest.raises(errors.ClosedError, match="closed"):
        api(admin.list_topics())


def test_a_full_buffer_waits_and_then_says_what_keeps_it_full(api):
    broker = Broker(topics=["t"]).start()
    options = {"buffer_memory": 20_000, "batch_size": 10_000, "max_block_ms": 2000, "request_timeout_ms": 30_000}
    with api.producer(broker.bootstrap_servers, **options) as producer:
        api.result(api(producer.send("t", b"warm")))
        broker.ignore("Produce", count=1000)

        def fill():
            for _ in range(100):
                api(producer.send("t", b"x" * 1000))

        with promptly(), pytest.raises(errors.KafkaTimeoutError, match=r"buffer\.memory"):
            fill()
        broker.clear_faults()
        broker.stop()
        with pytest.raises(errors.KafkaError):
            api(producer.close(0.5))


def test_broker_answers_with_an_error(api, broker, address, topic):
    with api.producer(address, linger_ms=0) as producer:
        broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
        assert api.result(api(producer.send(topic, b"retried", partition=0))).offset == 0
        broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
        with pytest.raises(errors.AuthorizationError) as caught:
            api.result(api(producer.send(topic, b"refused", partition=0)))
    error = caught.value
    assert (error.name, error.code, error.api, error.topic, error.partition) == (
        "TOPIC_AUTHORIZATION_FAILED",
        29,
        "Produce",
        topic,
        0,
    )
    assert not error.retriable
    assert error.written is False
    assert error.broker


def test_a_lost_answer_does_not_double_the_record(api, broker, address, topic):
    with api.producer(address, linger_ms=0) as producer:
        api.result(api(producer.send(topic, b"one", partition=0)))
        broker.disconnect("Produce", applied=True)
        assert api.result(api(producer.send(topic, b"two", partition=0))).offset == 1
    with api.consumer(address) as consumer:
        assert api(consumer.end_offsets([(topic, 0)])) == {TopicPartition(topic, 0): 2}


def test_the_embedded_broker_says_what_it_needs(tmp_path):
    with pytest.raises(errors.ConfigError, match="0 nodes"):
        Broker(nodes=0).start()
    with pytest.raises(errors.ConfigError, match="in memory"):
        Broker(nodes=3, data_dir=tmp_path).start()
    with pytest.raises(errors.ClosedError, match="start"):
        _ = Broker().bootstrap_servers


def test_the_embedded_broker_names_wrong_settings(address):
    with pytest.raises(errors.ConfigError, match=r"num\.partition\b.*num\.partitions"):
        Broker(config={"num.partition": 3}).start()
    with pytest.raises(OSError, match="cannot listen"):
        Broker(port=int(address.split(":")[1])).start()


def test_faults_name_what_they_do_not_know(broker):
    with pytest.raises(errors.ArgumentError, match="NOPE"):
        broker.fail("Produce", "NOPE")
    with pytest.raises(errors.ArgumentError, match="Prodce"):
        broker.ignore("Prodce")


def test_partitions_of_a_wrong_type(api, address):
    with api.consumer(address) as consumer:
        for wrong in ("topic", [5], [("topic",)], [("topic", "0")], 5):
            with pytest.raises(TypeError):
                consumer.assign(wrong)


def test_topics_of_a_wrong_type(api, address):
    with api.admin(address) as admin:
        for wrong in (5, [5]):
            with pytest.raises(TypeError):
                api(admin.create_topics(wrong))
            with pytest.raises(TypeError):
                api(admin.delete_topics(wrong))


def test_errors_of_ottla_are_kafka_errors():
    assert issubclass(ottla.KafkaError, Exception)
    assert ottla.KafkaError is errors.KafkaError


@pytest.mark.parametrize("end", ["flush", "close"])
@pytest.mark.parametrize("many", [False, True])
def test_a_failure_that_nobody_asks_about_is_not_lost_in_silence(api, broker, address, topic, end, many):
    with api.producer(address, linger_ms=0) as producer:
        broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", count=1)
        if many:
            api(producer.send_many(topic, [b"a", b"b"], partitions=[0, 0]))
        else:
            api(producer.send(topic, b"a", partition=0))
        with pytest.raises(errors.AuthorizationError, match=topic) as caught:
            api(getattr(producer, end)())
        assert "nobody asked" in caught.value.__notes__[0]
        assert f": {1 + many};" in caught.value.__notes__[0]
        if end == "flush":
            api(producer.flush())  # It is told once.


def test_a_failure_that_was_asked_about_is_told_once(api, broker, address, topic):
    with api.producer(address, linger_ms=0) as producer:
        broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
        with pytest.raises(errors.AuthorizationError):
            api.result(api(producer.send(topic, b"a", partition=0)))
        for _ in range(5000):
            api(producer.send(topic, b"a", partition=0))
        api(producer.flush())
