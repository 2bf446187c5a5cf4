"""How clients get in, foreign ones and ours: one description of a user, in the words of each client."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaTokenProvider

import ottla
from tests.brokers.brokers import java_tool
from tests.integration.peers.base import DEADLINE, until
from tests.integration.peers.java import VERSION
from tests.pace import patience

if TYPE_CHECKING:
    from ottla.testing import Identity


@dataclass(frozen=True)
class Access:
    """Who a client is, where it connects, and whom it trusts."""

    bootstrap: str
    protocol: str
    mechanism: str | None = None
    user: str = ""
    password: str = ""
    token: str = ""
    identity: Identity | None = None
    """The authority to trust; its certificate and key are used where `is_mutual`."""
    is_mutual: bool = False
    is_delegated: bool = False
    """Whether user and password are a delegation token, which is said by SCRAM."""

    @property
    def ca(self) -> str:
        return str(self.identity.ca) if self.identity else ""

    def context(self) -> ssl.SSLContext | None:
        if "SSL" not in self.protocol:
            return None
        made = ssl.create_default_context(cafile=self.ca)
        if self.is_mutual:
            assert self.identity
            made.load_cert_chain(self.identity.certificate, self.identity.key)
        return made


class Guest(Protocol):
    """A client that gets in, or is turned away."""

    name: str
    mechanisms: frozenset[str]

    def produce(self, access: Access, topic: str, value: bytes) -> None:
        """Write one message; an exception says why not."""
        ...

    def consume(self, access: Access, topic: str) -> bytes:
        """The first message of partition 0; an exception says why there is none."""
        ...


COMMON = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"})


class ConfluentGuest:
    """librdkafka."""

    name = "confluent-kafka"
    mechanisms = COMMON

    def _config(self, access: Access) -> tuple[dict[str, Any], list[str]]:
        errors: list[str] = []
        config: dict[str, Any] = {
            "bootstrap.servers": access.bootstrap,
            "security.protocol": access.protocol,
            "error_cb": lambda error: errors.append(str(error)),
            "socket.timeout.ms": 5000,
        }
        if access.identity:
            config["ssl.ca.location"] = access.ca
        if access.is_mutual:
            assert access.identity
            config["ssl.certificate.location"] = str(access.identity.certificate)
            config["ssl.key.location"] = str(access.identity.key)
        if access.mechanism:
            config["sasl.mechanism"] = access.mechanism
            if access.mechanism == "OAUTHBEARER":
                config["oauth_cb"] = lambda _: (access.token, 4e9)
            else:
                config |= {"sasl.username": access.user, "sasl.password": access.password}
        return config, errors

    def produce(self, access: Access, topic: str, value: bytes) -> None:
        config, errors = self._config(access)
        failed: list[str] = []
        producer = Producer(config)
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: failed.append(str(error)) if error else None
        )
        for _ in until(DEADLINE, "it is delivered"):
            if not producer.flush(0.1):
                break
            refusals = [text for text in errors if "all brokers are down" not in text.lower()]
            if refusals:
                producer.purge()
                producer.flush(5)
                raise PermissionError(refusals[0])
        if failed:
            raise PermissionError(failed[0])

    def consume(self, access: Access, topic: str) -> bytes:
        config, errors = self._config(access)
        consumer = Consumer(config | {"group.id": "confluent", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            for _ in until(DEADLINE, "a message"):
                message = consumer.poll(0.1)
                if message and message.error():
                    raise PermissionError(str(message.error()))
                if message:
                    return bytes(message.value())
                assert not errors, errors
        finally:
            consumer.close()
        raise AssertionError


class OttlaGuest:
    """ottla itself."""

    name = "ottla"
    mechanisms = COMMON | {"AWS_MSK_IAM"}

    def _config(self, access: Access) -> dict[str, Any]:
        config: dict[str, Any] = {"bootstrap_servers": access.bootstrap, "security_protocol": access.protocol}
        if access.identity:
            config["ssl_ca_location"] = access.ca
        if access.is_mutual:
            assert access.identity
            config["ssl_certificate_location"] = str(access.identity.certificate)
            config["ssl_key_location"] = str(access.identity.key)
        if access.mechanism:
            config |= {"sasl_mechanism": access.mechanism, "sasl_allow_plaintext": True}
        if access.mechanism == "OAUTHBEARER":
            config["sasl_token"] = lambda: (access.token, 3600)
        elif access.mechanism == "AWS_MSK_IAM":
            config |= {"sasl_token": lambda: (access.user, access.password), "sasl_aws_region": "eu-west-1"}
        elif access.mechanism:
            config |= {"sasl_username": access.user, "sasl_password": access.password}
        return config

    def produce(self, access: Access, topic: str, value: bytes) -> None:
        with ottla.Producer(**self._config(access)) as producer:
            producer.send(topic, value, partition=0).result(DEADLINE)

    def consume(self, access: Access, topic: str) -> bytes:
        with ottla.Consumer(**self._config(access)) as consumer:
            consumer.assign([ottla.TopicPartition(topic, 0, 0)])
            return bytes(consumer.poll(DEADLINE, max_records=1)[0].value or b"")


def keywords(access: Access, token: object) -> dict[str, Any]:
    """The settings of aiokafka and kafka-python, which have the same names."""
    config: dict[str, Any] = {
        "bootstrap_servers": access.bootstrap,
        "security_protocol": access.protocol,
        "ssl_context": access.context(),
    }
    if access.mechanism == "OAUTHBEARER":
        config |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token}
    elif access.mechanism:
        config |= {
            "sasl_mechanism": access.mechanism,
            "sasl_plain_username": access.user,
            "sasl_plain_password": access.password,
        }
    return config


class AioToken(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self.text = text

    async def token(self) -> str:
        return self.text


class AioKafkaGuest:
    """aiokafka."""

    name = "aiokafka"
    mechanisms = COMMON

    def _config(self, access: Access) -> dict[str, Any]:
        return keywords(access, AioToken(access.token)) | {"request_timeout_ms": int(patience(5000))}

    def produce(self, access: Access, topic: str, value: bytes) -> None:
        async def run() -> None:
            async with AIOKafkaProducer(**self._config(access)) as producer:
                await producer.send_and_wait(topic, value, partition=0)

        asyncio.run(asyncio.wait_for(run(), DEADLINE))

    def consume(self, access: Access, topic: str) -> bytes:
        async def run() -> bytes:
            async with AIOKafkaConsumer(**self._config(access)) as consumer:
                consumer.assign([AioPartition(topic, 0)])
                await consumer.seek_to_beginning()
                return bytes((await consumer.getone()).value)

        return asyncio.run(asyncio.wait_for(run(), DEADLINE))


class KafkaPythonToken(KafkaTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self.text = text

    def token(self) -> str:
        return self.text


class KafkaPythonGuest:
    """kafka-python."""

    name = "kafka-python"
    mechanisms = COMMON

    def _config(self, access: Access) -> dict[str, Any]:
        return keywords(access, KafkaPythonToken(access.token)) | {"bootstrap_timeout_ms": int(patience(3000))}

    def produce(self, access: Access, topic: str, value: bytes) -> None:
        producer = KafkaProducer(**self._config(access), max_block_ms=int(patience(5000)))
        try:
            producer.send(topic, value, partition=0).get(DEADLINE)
        finally:
            producer.close(timeout=1)

    def consume(self, access: Access, topic: str) -> bytes:
        consumer = KafkaConsumer(**self._config(access), enable_auto_commit=False)
        try:
            consumer.assign([KafkaPartition(topic, 0)])
            consumer.seek_to_beginning()
            for _ in until(DEADLINE, "a message"):
                for messages in consumer.poll(timeout_ms=200).values():
                    return bytes(messages[0].value)
        finally:
            consumer.close()
        raise AssertionError


class JavaGuest:
    """Kafka's own client, as the program of `java/Guests.java`."""

    name = "java"
    mechanisms = COMMON
    program = Path(__file__).parents[1] / "java" / "Guests.java"

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines = folder, list[str]()

    def ask(self, name: str, action: str, access: Access, topic: str) -> None:
        """Add a line to what the program will do."""
        self.lines.append(f"{name} {action} {topic} {self._properties(name, access)}")

    def answers(self) -> dict[str, str]:
        """Run it, and say what came out by the names of the lines."""
        data = "".join(f"{line}\n" for line in self.lines).encode()
        out = java_tool(VERSION, str(self.program), data=data, timeout=3 * DEADLINE).decode()
        answers = (line.split(" ", 1) for line in out.splitlines())
        return {each[0]: each[1] for each in answers if len(each) == 2}

    def _properties(self, name: str, access: Access) -> Path:
        lines: dict[str, object] = {
            "bootstrap.servers": access.bootstrap,
            "security.protocol": access.protocol,
            "delivery.timeout.ms": 15000,
            "request.timeout.ms": 10000,
            "linger.ms": 0,
        }
        if access.identity:
            lines |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.ca}
        if access.is_mutual:
            assert access.identity
            both = self.folder / f"{name}.pem"
            both.write_text(access.identity.key.read_text() + access.identity.certificate.read_text())
            lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
        package = "org.apache.kafka.common.security"
        if access.mechanism == "OAUTHBEARER":
            claim = f'unsecuredLoginStringClaim_sub="{access.user}"'
            module = f"{package}.oauthbearer.OAuthBearerLoginModule required {claim}"
        else:
            kind = "plain.PlainLoginModule" if access.mechanism == "PLAIN" else "scram.ScramLoginModule"
            module = f'{package}.{kind} required username="{access.user}" password="{access.password}"'
        if access.mechanism:
            lines |= {"sasl.mechanism": access.mechanism, "sasl.jaas.config": f"{module};"}
        path = self.folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path


class FranzGuest:
    """franz-go."""

    name = "franz-go"
    mechanisms = COMMON | {"AWS_MSK_IAM"}

    def __init__(self, program: Path) -> None:
        self.program = program

    def _run(self, access: Access, verb: str, topic: str, last: str, data: str = "") -> str:
        fields: dict[str, Any] = {
            "Mechanism": access.mechanism or "",
            "IsToken": access.is_delegated,
            "User": access.user,
            "Password": access.password,
            "Token": access.token,
            "CA": access.ca if "SSL" in access.protocol else "",
        }
        if access.is_mutual:
            assert access.identity
            fields |= {"Certificate": str(access.identity.certificate), "Key": str(access.identity.key)}
        done = subprocess.run(
            [self.program, verb, access.bootstrap, topic, last],
            input=data,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
            env={**os.environ, "FRANZ_ACCESS": json.dumps(fields), "AWS_REGION": "eu-west-1"},
        )
        if done.returncode:
            raise PermissionError(done.stderr)
        return done.stdout

    def produce(self, access: Access, topic: str, value: bytes) -> None:
        text = json.dumps({"partition": 0, "value": _base64(value)})
        self._run(access, "produce", topic, "none", text)

    def consume(self, access: Access, topic: str) -> bytes:
        from base64 import b64decode

        return b64decode(json.loads(self._run(access, "consume", topic, "1").splitlines()[0])["value"])


def _base64(value: bytes) -> str:
    from base64 import b64encode

    return b64encode(value).decode()
