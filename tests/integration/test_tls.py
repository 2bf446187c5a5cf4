"""TLS on real Kafka, by both facades: what works, and what each wrong set-up says."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ottla
from ottla import errors
from tests.brokers.brokers import PASSWORD, Cluster, members
from tests.certificates import PASSWORD as LOCK
from tests.certificates import Authority, front
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.python.conftest import Api

pytestmark = [REAL, pytest.mark.needs("openssl")]
PATIENCE = 20.0
# Longer than an error may take, and shorter than any retry goes on.
SOON = 10.0
# The most that may be in use after the second half of many connections, as a multiple of what was after the first.
GROWTH = 1.05
# Bytes of answers after which a connection is torn down: those of a handshake, and of a few requests.
CUT = 4_500


@pytest.fixture(scope="module", params=["4.4.0", "2.8.2"])
def kafka_tls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=request.param, tls=True, proxy="SSL") as cluster:
        yield cluster


@pytest.fixture
def files(kafka_tls: Cluster) -> dict[str, str]:
    return {name: str(path) for name, path in kafka_tls.st["tls"].items()}


def alice(kafka_tls: Cluster, ending: str) -> str:
    return str(Path(kafka_tls.st["tls"]["ca"]).parent / f"alice{ending}")


def port_of(kafka_tls: Cluster, listener: str) -> int:
    return int(kafka_tls.st["bootstrap"][listener].rpartition(":")[2])


def round_trip(api: Api, bootstrap: str, topic: str, **security: Any) -> None:
    """Records, small and large, go there and come back."""
    values = [b"small", os.urandom(700_000), *(b"%d" % i for i in range(1000))]
    with api.admin(bootstrap, **security) as admin:
        api(admin.create_topics([ottla.NewTopic(topic, 1, 1)]))
    with api.producer(bootstrap, **security) as producer:
        for value in values[:2]:
            api.result(api(producer.send(topic, value)))
        api.result(api(producer.send_many(topic, values[2:])))
    with api.consumer(bootstrap, topics=[topic], auto_offset_reset="earliest", **security) as consumer:
        assert [record.value for record in api.poll(consumer, len(values))] == values


def identities(kafka_tls: Cluster, files: dict[str, str]) -> dict[str, dict[str, str]]:
    """Ways to say who the client is."""
    ca, text = files["ca"], lambda path: Path(path).read_text()
    return {
        "files": {
            "ssl_ca_location": ca,
            "ssl_certificate_location": files["cert"],
            "ssl_key_location": files["key"],
        },
        "texts": {
            "ssl_ca_pem": text(ca),
            "ssl_certificate_pem": text(files["cert"]),
            "ssl_key_pem": text(files["key"]),
        },
        "Java's texts": {
            "ssl_truststore_type": "PEM",
            "ssl_truststore_certificates": text(ca),
            "ssl_keystore_type": "PEM",
            "ssl_keystore_certificate_chain": text(files["cert"]),
            "ssl_keystore_key": text(files["encrypted_key"]),
            "ssl_key_password": PASSWORD,
        },
        "encrypted key": {
            "ssl_ca_location": ca,
            "ssl_certificate_location": files["cert"],
            "ssl_key_location": files["encrypted_key"],
            "ssl_key_password": PASSWORD,
        },
        "stores": {
            "ssl_truststore_location": alice(kafka_tls, "").removesuffix("alice") + "truststore.p12",
            "ssl_truststore_type": "PKCS12",
            "ssl_truststore_password": PASSWORD,
            "ssl_keystore_location": files["p12"],
            "ssl_keystore_type": "PKCS12",
            "ssl_keystore_password": PASSWORD,
        },
    }


def test_records_go_over_tls(api: Api, kafka_tls: Cluster, files: dict[str, str]) -> None:
    bootstrap = kafka_tls.st["bootstrap"]["SSL"]
    for versions in ("TLSv1.3", "TLSv1.2"):
        topic = f"{api.name}-{versions}"
        round_trip(
            api, bootstrap, topic, security_protocol="SSL", ssl_ca_location=files["ca"], ssl_enabled_protocols=versions
        )


def test_a_client_shows_its_certificate(api: Api, kafka_tls: Cluster, files: dict[str, str]) -> None:
    bootstrap = kafka_tls.st["bootstrap"]["MTLS"]
    for number, (name, identity) in enumerate(identities(kafka_tls, files).items()):
        round_trip(api, bootstrap, f"{api.name}-mtls-{number}", security_protocol="SSL", **identity)
        assert "password" not in name


def fails(api: Api, bootstrap: str, wanted: type[Exception], says: str, **options: Any) -> None:
    """Every kind of client raises this error soon, or at its deadline where waiting might have helped."""

    def checked(call: Callable[[], object]) -> None:
        begin = time.monotonic()
        with pytest.raises(wanted) as caught:
            call()
        assert time.monotonic() - begin < SOON
        assert says in str(caught.value), caught.value
        for secret in (PASSWORD, "PRIVATE KEY"):
            assert secret not in str(caught.value)

    options = {"default_api_timeout_ms": 3000, **options}
    with api.admin(bootstrap, **options) as admin:
        checked(lambda: api(admin.list_topics()))
    with api.consumer(bootstrap, topics=["t"], **options) as consumer:
        checked(lambda: api(consumer.poll(3)))
    produces = {"max_block_ms": 3000, "request_timeout_ms": 1000, "delivery_timeout_ms": 3000, **options}
    client = api.module.Producer(bootstrap, **produces)
    checked(lambda: api.result(api(client.send("t", b"v"))))
    with contextlib.suppress(errors.KafkaError):
        api(client.close(1))


@pytest.mark.each_api
def test_what_is_wrong_is_said(api: Api, kafka_tls: Cluster, files: dict[str, str], tmp_path: Path) -> None:
    at = kafka_tls.st["bootstrap"]
    secured: dict[str, Any] = {"security_protocol": "SSL"}
    trusting = {**secured, "ssl_ca_location": files["ca"]}
    refused = errors.AuthenticationError
    fails(api, at["SSL"], refused, "authority that is not trusted", **secured, ssl_ca_location=files["rogue_ca"])
    fails(api, at["MTLS"], refused, "requires a client certificate", **trusting)
    rogue = {"ssl_certificate_location": files["rogue_cert"], "ssl_key_location": files["rogue_key"]}
    fails(api, at["MTLS"], refused, "does not accept this client's certificate", **trusting, **rogue)
    fails(api, at["PLAINTEXT"], errors.UnreachableError, "PLAINTEXT", **trusting)
    fails(api, at["SSL"], errors.UnreachableError, "security.protocol")
    authority = Authority(tmp_path / "authority")
    behind = port_of(kafka_tls, "PLAINTEXT")
    trusting = {**secured, "ssl_ca_location": authority.ca}
    with front(behind, authority.issue("old", until="20240101000000Z")) as port:
        fails(api, f"localhost:{port}", refused, "has expired, on 2024-01-01", **trusting)
    with front(behind, authority.issue("elsewhere", "DNS:kafka.example")) as port:
        fails(api, f"localhost:{port}", refused, "is not for localhost but for kafka.example", **trusting)
        fails(api, f"127.0.0.1:{port}", refused, "is not for 127.0.0.1 but for kafka.example", **trusting)
    with front(behind, authority.issue("good"), newest="TLSv1.2") as port:
        fails(api, f"localhost:{port}", refused, "does not speak TLSv1.3", **trusting, ssl_enabled_protocols="TLSv1.3")


class Misfit(NamedTuple):
    """Kafka whose SSL listener shows a certificate that has expired, and whose MTLS listener one for another host."""

    cluster: Cluster
    ca: str


# Which certificate it shows is Java's doing, not the release's.
@pytest.fixture(scope="module", params=["4.4.0", pytest.param("2.8.2", marks=pytest.mark.nightly)])
def misfit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Misfit]:
    """Kafka checks at its start only the certificate of the listener between brokers, which here is plaintext."""
    authority = Authority(tmp_path_factory.mktemp("certificates") / "authority")
    shown = {
        "ssl": authority.issue("old", until="20240101000000Z"),
        "mtls": authority.issue("elsewhere", "DNS:kafka.example"),
    }
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=request.param, tls=True) as cluster:
        lines = ["listener.name.mtls.ssl.client.auth=none"]
        for listener, certificate in shown.items():
            prefix = f"listener.name.{listener}.ssl"
            lines += [f"{prefix}.keystore.location={certificate.p12}", f"{prefix}.keystore.type=PKCS12"]
            lines += [f"{prefix}.keystore.password={LOCK}", f"{prefix}.key.password={LOCK}"]
        with (cluster.dir / "node1.properties").open("a") as file:
            file.write("\n" + "\n".join(lines) + "\n")
        cluster.end(["node1"], 5.0)
        cluster.spawn("node1")
        # Not by its restart, which wants the first certificates again.
        cluster.wait("node1", "no answer to Metadata", lambda: 1 in members(port_of(cluster, "PLAINTEXT")))
        yield Misfit(cluster, str(authority.ca))


@pytest.mark.each_api
def test_certificates_of_kafka_itself_that_do_not_fit_are_said(api: Api, misfit: Misfit) -> None:
    refused, trusting = errors.AuthenticationError, {"security_protocol": "SSL", "ssl_ca_location": misfit.ca}
    at = {name: f"localhost:{port_of(misfit.cluster, name)}" for name in ("SSL", "MTLS")}
    fails(api, at["SSL"], refused, "has expired, on 2024-01-01", **trusting)
    fails(api, at["MTLS"], refused, "is not for localhost but for kafka.example", **trusting)
    # Nothing else is wrong with that listener.
    with api.admin(at["MTLS"], **trusting, ssl_endpoint_identification_algorithm="none") as admin:
        assert api(admin.list_topics()) == []


def test_a_file_that_cannot_be_used_is_said_at_once(api: Api, kafka_tls: Cluster, files: dict[str, str]) -> None:
    def refuses(says: str, **options: str) -> None:
        with pytest.raises(errors.ConfigError) as caught:
            api.module.Producer("localhost:1", security_protocol="SSL", **options)
        assert says in str(caught.value)
        assert PASSWORD not in str(caught.value)

    refuses("cannot be read", ssl_ca_location="/nowhere/ca.pem")
    own = {"ssl_certificate_location": files["cert"], "ssl_key_location": files["encrypted_key"]}
    refuses("ssl.key.password is wrong", **own, ssl_key_password=f"not {PASSWORD}"[::-1])
    refuses("ssl.key.password is not given", **own)
    refuses("ssl.keystore.password is wrong", ssl_keystore_location=files["p12"], ssl_keystore_password="wrong")
    old = Path(files["p12"]).with_name(f"{api.name}.jks")
    convert = ["keytool", "-importkeystore", "-srckeystore", files["p12"], "-srcstorepass", PASSWORD]
    subprocess.run(
        [
            *convert,
            "-destkeystore",
            str(old),
            "-deststoretype",
            "JKS",
            "-deststorepass",
            PASSWORD,
            "-destkeypass",
            PASSWORD,
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    with pytest.raises(errors.ConfigError) as caught:
        api.module.Producer("localhost:1", security_protocol="SSL", ssl_keystore_location=str(old))
    # What the error says to do does work.
    words = str(caught.value).partition("keytool ")[2].split()
    assert words
    passwords = ["-srcstorepass", PASSWORD, "-deststorepass", PASSWORD]
    subprocess.run(["keytool", *words, *passwords], capture_output=True, check=True, timeout=60)
    converted = str(old.with_suffix(".p12"))
    mtls = {"ssl_keystore_location": converted, "ssl_keystore_password": PASSWORD}
    with api.admin(
        kafka_tls.st["bootstrap"]["MTLS"], security_protocol="SSL", ssl_ca_location=files["ca"], **mtls
    ) as admin:
        api(admin.list_topics())


def test_certificates_are_read_again_when_they_change(
    kafka_tls: Cluster, files: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text(Path(files["rogue_ca"]).read_text())
    options: dict[str, Any] = {"security_protocol": "SSL", "ssl_ca_location": str(ca), "default_api_timeout_ms": 2000}
    with ottla.Admin(kafka_tls.st["bootstrap"]["SSL"], **options) as admin:
        with pytest.raises(errors.AuthenticationError):
            admin.list_topics()
        ca.write_text("not a certificate")
        time.sleep(1.1)
        with pytest.raises(errors.AuthenticationError):
            admin.list_topics()
        ca.write_text(Path(files["ca"]).read_text())
        wait_until(lambda: is_accepted(admin), "the new authority is trusted")
    kept = [record.message for record in caplog.records if "earlier ones are kept" in record.message]
    assert len(kept) == 1
    assert str(ca) in kept[0]


def test_the_clients_own_certificate_is_read_again_when_it_changes(
    kafka_tls: Cluster, files: dict[str, str], tmp_path: Path
) -> None:
    """A client whose certificate brokers do not accept has another one in the same files."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def show(name: str) -> None:
        certificate.write_text(Path(files[f"{name}cert"]).read_text())
        key.write_text(Path(files[f"{name}key"]).read_text())

    show("rogue_")
    own = {"ssl_certificate_location": str(certificate), "ssl_key_location": str(key)}
    options: dict[str, Any] = {"security_protocol": "SSL", "ssl_ca_location": files["ca"], **own}
    with ottla.Admin(kafka_tls.st["bootstrap"]["MTLS"], **options, default_api_timeout_ms=2000) as admin:
        with pytest.raises(errors.KafkaError):
            admin.list_topics()
        show("")
        wait_until(lambda: is_accepted(admin), "the new certificate is shown")


def is_accepted(admin: ottla.Admin) -> bool:
    with contextlib.suppress(errors.KafkaError):
        admin.list_topics()
        return True
    return False


class Use(NamedTuple):
    """What this process holds."""

    threads: int
    tasks: int
    """Threads of the operating system, those of the runtime among them."""
    descriptors: int
    """But for those of connections that clients have."""
    memory: int
    """In use, in bytes."""

    @classmethod
    def now(cls, *clients: Any) -> Use:
        gc.collect()
        connections = sum(int(client.metrics().value("connection-count")) for client in clients)
        process = Path("/proc/self")
        tasks, descriptors = (len(list((process / kind).iterdir())) for kind in ("task", "fd"))
        memory = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return cls(threading.active_count(), tasks, descriptors - connections, memory)

    def has_not_grown_since(self, before: Use) -> bool:
        # The runtime keeps a thread for blocking work for some seconds, and ends it.
        return (
            self.threads <= before.threads
            and self.tasks <= before.tasks + 2
            and self.descriptors <= before.descriptors
            and self.memory <= GROWTH * before.memory
        )


def settled(before: Use, *clients: Any) -> Use:
    """What is held once it is no more than before, or after some patience."""
    end = time.monotonic() + PATIENCE
    while not (now := Use.now(*clients)).has_not_grown_since(before) and time.monotonic() < end:
        time.sleep(0.1)
    return now


@pytest.mark.parametrize("kafka_tls", ["4.4.0"], indirect=True)
def test_a_thousand_clients_leave_nothing_behind(kafka_tls: Cluster, files: dict[str, str]) -> None:
    """The second half of them adds nothing to what the first half left."""
    bootstrap, uses = kafka_tls.st["bootstrap"]["SSL"], []
    for _ in range(2):
        for _ in range(500):
            with ottla.Admin(bootstrap, security_protocol="SSL", ssl_ca_location=files["ca"]) as admin:
                admin.list_topics()
        uses.append(settled(uses[0]) if uses else Use.now())
    assert uses[1].has_not_grown_since(uses[0]), uses


@pytest.mark.parametrize("kafka_tls", ["4.4.0"], indirect=True)
def test_a_thousand_reconnects_under_load_leave_nothing_behind(kafka_tls: Cluster, files: dict[str, str]) -> None:
    """Each connection is torn down after some kilobytes of answers; what was sent is read, once and in its order."""
    topic, bootstrap = "reconnected", kafka_tls.st["bootstrap"]["PROXIED"]
    security = {"security_protocol": "SSL", "ssl_ca_location": files["ca"]}
    impatient = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 10, "retry_backoff_ms": 1}
    options: dict[str, Any] = {**security, **impatient, "retry_backoff_max_ms": 10}
    kafka_tls.fault()
    with ottla.Admin(bootstrap, **security) as admin:
        admin.create_topics([ottla.NewTopic(topic, 1, 1)])
    uses: list[Use] = []
    sent = read = 0
    with (
        ottla.Producer(bootstrap, **options, linger_ms=0, delivery_timeout_ms=60_000) as producer,
        ottla.Consumer(bootstrap, **options, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([(topic, 0)])

        def made() -> float:
            return sum(client.metrics().value("connection-creation-total") for client in (producer, consumer))

        def take(timeout: float) -> None:
            nonlocal read
            try:
                values = [int(record.value or b"") for record in consumer.poll(timeout)]
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                return
            assert values == list(range(read, read + len(values)))
            read += len(values)

        for half in (1, 2):
            kafka_tls.fault(1, cut_after=CUT)
            goal, end = made() + 500, time.monotonic() + 3 * PATIENCE
            while made() < goal:
                assert time.monotonic() < end, f"{made()} connections of {goal} were made"
                producer.send(topic, b"%d" % sent)
                sent += 1
                take(0.002)
            kafka_tls.fault()
            producer.flush(PATIENCE)
            end = time.monotonic() + PATIENCE
            while read < sent:
                assert time.monotonic() < end, f"{read} of {sent} records were read in half {half}"
                take(0.1)
            uses.append(settled(uses[0], producer, consumer) if uses else Use.now(producer, consumer))
    assert uses[1].has_not_grown_since(uses[0]), uses


def test_the_end_of_a_connection_is_said(tmp_path: Path) -> None:
    """OpenSSL calls an end without close_notify an error."""
    authority = Authority(tmp_path / "authority")
    ends: list[bytes | ssl.SSLError] = []
    certificate = authority.issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.key)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            plain.settimeout(PATIENCE)
            with context.wrap_socket(plain, server_side=True, suppress_ragged_eofs=False) as secured:
                secured.recv(1000)
                try:
                    ends.append(secured.recv(1000))
                except ssl.SSLError as error:
                    ends.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        admin = ottla.Admin(f"localhost:{port}", security_protocol="SSL", ssl_ca_location=authority.ca)
        with contextlib.suppress(errors.KafkaError):
            admin.list_topics(timeout=1)
        admin.close()
        thread.join(PATIENCE)
    assert ends == [b""]
