"""Real Kafka that asks for TLS, certificates and passwords, through Spark's own Kafka source and through ours.

The same options of Java's clients give the same rows, and what one refuses the other refuses for the same reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest
from tests.brokers.running import running
from tests.integration.peers.java import VERSION

from .test_conformance import ONCE, Both, Kafka
from .test_read import sentence

pytestmark = [
    pytest.mark.needs("java", "mvn"),
    pytest.mark.timeout(180),
    # Foreign clients leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOPIC, RECORDS = "secured", 9
WRONG = "hunter2"


@dataclass
class Secured:
    """A broker with a port of each kind, and the two sources."""

    spark: object
    cluster: object

    @property
    def tls(self):
        return self.cluster.st["tls"]

    def by(self, listener):
        """Both sources, through a port of this kind."""
        return Both(self.spark, Kafka(self.cluster.st["bootstrap"][listener], Path(self.cluster.st["dir"])))


@pytest.fixture(scope="module")
def secured(spark, tmp_path_factory):
    config = {"auto.create.topics.enable": "false"}
    folder = tmp_path_factory.mktemp("kafka")
    with running(folder, version=VERSION, config=config, tls=True, sasl="plain,scram") as cluster:
        kafka = Kafka.of(cluster)
        kafka.create(TOPIC, 3)
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
        for n in range(RECORDS):
            producer.produce(TOPIC, b"value %d" % n, b"k%d" % n, partition=n % 3)
        assert producer.flush(30) == 0
        yield Secured(spark, cluster)


def over(protocol, *given):
    """The options of a protocol, with more."""
    merged = {"kafka.security.protocol": protocol}
    for more in given:
        merged |= more
    return merged


def login(mechanism, password="alice-secret"):
    """What people paste from the configuration of a Java client."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required\n"
        f'    username="alice"\n    password="{password}";',
    }


def trust_store(tls, **given):
    """PKCS12."""
    store = {"location": tls["truststore"], "password": tls["password"], "type": "PKCS12", **given}
    return {f"kafka.ssl.truststore.{name}": value for name, value in store.items()}


def trust_file(tls):
    """PEM."""
    return {"kafka.ssl.truststore.location": tls["ca"], "kafka.ssl.truststore.type": "PEM"}


def trust_text(tls, authority="ca"):
    """The text itself."""
    text = Path(tls[authority]).read_text()
    return {"kafka.ssl.truststore.certificates": text, "kafka.ssl.truststore.type": "PEM"}


def key_store(tls):
    """PKCS12, for the certificate and its key."""
    store = {"keystore.location": tls["p12"], "keystore.password": tls["password"], "keystore.type": "PKCS12"}
    return {f"kafka.ssl.{name}": value for name, value in {**store, "key.password": tls["password"]}.items()}


def key_text(tls):
    """PEM, for the certificate and its key."""
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": Path(tls["cert"]).read_text(),
        "kafka.ssl.keystore.key": Path(tls["key"]).read_text(),
    }


# For each name the port, and what its options are, once the files are there.
TAKEN = {
    "TLS": ("SSL", lambda tls: over("SSL", trust_store(tls))),
    "TLS 1.2 alone": ("SSL", lambda tls: over("SSL", trust_file(tls), {"kafka.ssl.enabled.protocols": "TLSv1.2"})),
    "no check of the host": (
        "SSL",
        lambda tls: over("SSL", trust_text(tls), {"kafka.ssl.endpoint.identification.algorithm": ""}),
    ),
    "a certificate": ("MTLS", lambda tls: over("SSL", trust_store(tls), key_store(tls))),
    "a certificate as text": ("MTLS", lambda tls: over("SSL", trust_text(tls), key_text(tls))),
    "PLAIN and TLS": ("SASL_SSL", lambda tls: over("SASL_SSL", trust_store(tls), login("PLAIN"))),
    "SCRAM-SHA-256 and TLS": ("SASL_SSL", lambda tls: over("SASL_SSL", trust_file(tls), login("SCRAM-SHA-256"))),
    "SCRAM-SHA-512 and TLS": ("SASL_SSL", lambda tls: over("SASL_SSL", trust_text(tls), login("SCRAM-SHA-512"))),
    "SCRAM-SHA-512": ("SASL_PLAINTEXT", lambda _: over("SASL_PLAINTEXT", login("SCRAM-SHA-512"))),
}
# Beside them, what either source says: theirs in Java's words, ours in its last line.
REFUSED = {
    "a wrong password of SCRAM": (
        "SASL_SSL",
        lambda tls: over("SASL_SSL", trust_store(tls), login("SCRAM-SHA-512", WRONG)),
        "SaslAuthenticationException: .*invalid credentials",
        "AuthenticationError: .*alice is not authenticated by SCRAM-SHA-512",
    ),
    "a wrong password of PLAIN": (
        "SASL_SSL",
        lambda tls: over("SASL_SSL", trust_store(tls), login("PLAIN", WRONG)),
        "SaslAuthenticationException: .*Invalid username or password",
        "AuthenticationError: .*alice is not authenticated by PLAIN",
    ),
    "an unknown authority": (
        "SASL_SSL",
        lambda tls: over("SASL_SSL", trust_text(tls, "rogue_ca"), login("PLAIN")),
        "SslAuthenticationException: SSL handshake failed",
        "AuthenticationError: .*(?i:certificate)",
    ),
    "no certificate where one is asked for": (
        "MTLS",
        lambda tls: over("SSL", trust_store(tls)),
        "SslAuthenticationException",
        "AuthenticationError: .*(?i:certificate)",
    ),
    "a file that is not there": (
        "SSL",
        lambda tls: over("SSL", trust_store(tls, location="/absent/store.p12")),
        "NoSuchFileException: /absent/store.p12",
        "/absent/store.p12",
    ),
    "a wrong password of a store": (
        "SSL",
        lambda tls: over("SSL", trust_store(tls, password=WRONG)),
        "keystore password was incorrect",
        "Error: .*password",
    ),
    "no login": (
        "SASL_SSL",
        lambda tls: over("SASL_SSL", trust_store(tls), {"kafka.sasl.mechanism": "PLAIN"}),
        "Could not find a 'KafkaClient' entry",
        "Error: .*sasl",
    ),
    "a login that is none": (
        "SASL_SSL",
        lambda tls: over("SASL_SSL", trust_store(tls), {**login("PLAIN"), "kafka.sasl.jaas.config": f"alice:{WRONG}"}),
        "IllegalArgumentException",
        "Error: .*sasl.jaas.config",
    ),
    "an unknown protocol": (
        "SSL",
        lambda tls: over("TLS", trust_store(tls)),
        "ConfigException: Invalid value TLS for configuration security.protocol",
        "Error: .*security.protocol",
    ),
}


# Streams read by SCRAM-SHA-512 over TLS below.
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.nightly if case == "SCRAM-SHA-512 and TLS" else ()) for case in TAKEN],
)
def test_rows_are_those_of_spark(secured, case):
    listener, options = TAKEN[case]
    read = secured.by(listener).same(subscribe=TOPIC, includeHeaders="true", **options(secured.tls))
    assert len(read) == RECORDS


def test_streams_are_those_of_spark(secured, tmp_path):
    listener, options = TAKEN["SCRAM-SHA-512 and TLS"]
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "6", **options(secured.tls)}
    read, ends = secured.by(listener).streamed(tmp_path, subscribe=TOPIC, **given)
    assert (len(read), len(ends)) == (RECORDS, 2)


@pytest.mark.parametrize("case", REFUSED)
def test_what_spark_refuses_is_refused_for_the_same_reason(secured, case):
    listener, options, theirs, ours = REFUSED[case]
    once = {"subscribe": TOPIC, **ONCE}
    both = secured.by(listener)
    for source, why in ("kafka", theirs), ("ottla", ours):
        with pytest.raises(Exception) as raised:
            both.frame(source, {**once, **options(secured.tls)}).collect()
        told = str(raised.value)
        if source == "ottla":
            assert WRONG not in told
            told = sentence(raised.value)
        assert re.search(why, told), told
