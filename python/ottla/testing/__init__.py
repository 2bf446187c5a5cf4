"""A Kafka broker for tests: it runs in this process, starts in milliseconds and needs nothing installed.

```python
import ottla
from ottla.testing import Broker

with Broker(topics={"flights": 4}) as broker, ottla.Producer(broker.bootstrap_servers) as producer:
    producer.send("flights", b"N123").result()
```

It has the security of a real one too: TLS, client certificates, SASL, ACLs and quotas, on as many listeners as a test
needs.

```python
from ottla.testing import Broker, Certificates

with Certificates() as certificates, Broker(
    listeners=["PLAINTEXT", "SASL_SSL mechanisms=SCRAM-SHA-512"],
    tls=certificates,
    users={"admin": "admin-secret", "alice": "alice-secret"},
    super_users=["admin", "ANONYMOUS"],
    acls=["alice read,write topic:flights-*", "alice read group:*"],
    quotas=["user:alice producer_byte_rate=1048576"],
) as broker:
    print(broker.client_config("alice", listener="SASL_SSL"))  # for any client that takes librdkafka's names
```

Under pytest the fixture `ottla_broker` is a broker without security, new for each test; `start_ottla_broker(...)`
starts brokers with these arguments and stops them after the test; with `_class`, `_module` or `_session` behind their
names they last as long. `ottla_certificates` are certificates for the whole session, and `ottla_registry` is a schema
registry, new for each test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self
from uuid import UUID

from ottla import _ottla
from ottla._hints import ConfigValue
from ottla.errors import ArgumentError, ClosedError
from ottla.testing._certificates import Certificates, Identity
from ottla.testing._container import Container
from ottla.testing._listeners import Listener, OpenListener
from ottla.testing._registry import Registry
from ottla.testing._tokens import bearer_token

__all__ = [
    "Broker",
    "Certificates",
    "Identity",
    "KafkaContainer",
    "Listener",
    "OpenListener",
    "PartitionState",
    "Registry",
    "TelemetryPush",
    "bearer_token",
]


def __dir__() -> list[str]:
    return __all__


class TelemetryPush(NamedTuple):
    """Metrics that a client pushed (KIP-714).

    Attributes:
        client_id: The client's `client.id`.
        client_instance_id: The id that the broker gave the client, as `client_instance_id()` returns it.
        terminating: Whether it is the client's last push, of its close.
        compression: The codec that the metrics came in.
        metrics: A `MetricsData` of OpenTelemetry's OTLP in protobuf, decompressed.
    """

    client_id: str | None
    client_instance_id: UUID
    terminating: bool
    compression: str
    metrics: bytes


class PartitionState(NamedTuple):
    """The leader and the replicas of a partition.

    Attributes:
        leader: The number of the leader; -1 without a leader.
        leader_epoch: How often the leader has changed.
        replicas: The nodes that hold the partition.
        in_sync: The replicas that have all committed records.
    """

    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]


class Broker:
    """The embedded broker, from `start` to `stop` or in a with statement. Any Kafka client of any process can use it.

    Args:
        nodes: Brokers of the cluster, numbered from 1. Several keep their logs in memory, and a topic has a replica on
            each, three at most (`default.replication.factor`).
        topics: Topics to create at the start: a mapping from names to numbers of partitions, or names of topics with
            one partition.
        as_version: The release of Kafka that it speaks as: `"0.8.2"`, `"0.9.0"`, `"0.10.0"`, `"0.10.2"`, `"0.11.0"`,
            `"1.1"`, `"2.3"`, `"2.8"`, `"3.9"`, `"4.0"` or `"4.4"`, also with a patch (`"2.8.2"`). It returns the API
            versions of that release, reads and writes message sets where that release does, and closes connections or
            does not respond where that release does. Without it, the newest.
        data_dir: Folder for the log, in Kafka's own format; without it, everything stays in memory.
        host: Address to listen on, where no listeners are given.
        port: Port to listen on, where no listeners are given; 0 takes a free one. Further nodes take the ports after
            it.
        listeners: Listeners, each a `Listener` or a line that `Listener.parse` takes, such as
            `"SASL_SSL mechanisms=PLAIN"`. Without them there is one, with SASL if there are users, keys of tokens or
            AWS keys, and with TLS if there is `tls`.
        tls: The server's certificate: `Certificates`, or the `Identity` of a server, whose `ca` signs the clients.
        users: Passwords by name, for PLAIN and SCRAM. Admin clients can add SCRAM users.
        acls: ACLs, `"[allow|deny] PRINCIPAL OPERATION[,OPERATION] TYPE:NAME [from HOST]"`, as in
            `"alice read,describe topic:flights-*"`: a name that ends with `*` is a prefix, `*` alone is every name.
            With ACLs or super users, an empty list included, everything else is denied; without them, everything is
            allowed.
        super_users: Names of users that may do everything. Clients that do not authenticate are `ANONYMOUS`.
        quotas: Quotas, `"[user:NAME] [client-id:NAME] KEY=VALUE"`, where the name `*` is the default and the keys are
            `producer_byte_rate`, `consumer_byte_rate` (bytes a second) and `request_percentage`. As in Kafka a quiet
            client may first go as far as `quota.window.num` - 1 seconds allow.
        jwks: Public keys of bearer tokens, for OAUTHBEARER: a JSON Web Key Set as text or mapping.
        token_key: A shared key of bearer tokens (HS256, HS384, HS512); see `bearer_token`.
        aws_keys: AWS secret access keys by access key id, for AWS_MSK_IAM; the id is the principal's name.
        config: Settings of the broker by Kafka's names, such as `{"auto.create.topics.enable": False}`.
            `ottla config broker` lists them.
        print_events: Whether to print refused connections and the like to standard error.

    Raises:
        ArgumentError: A text was passed instead of a list.
        ConfigError: The text of a listener is invalid.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: Mapping[str, int] | Iterable[str] | None = None,
        *,
        as_version: str | None = None,
        data_dir: str | PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        listeners: Iterable[Listener | str] | None = None,
        tls: Certificates | Identity | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[str] | None = None,
        super_users: Iterable[str] = (),
        quotas: Iterable[str] = (),
        jwks: str | Mapping[str, object] | None = None,
        token_key: bytes | None = None,
        aws_keys: Mapping[str, str] | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        print_events: bool = False,
    ) -> None:
        self._nodes, self._as_version = nodes, as_version
        if isinstance(topics, str):
            topics = [topics]
        self._topics = list(topics.items()) if isinstance(topics, Mapping) else [(name, 1) for name in topics or ()]
        for name, given in (("listeners", listeners), ("acls", acls), ("super_users", super_users), ("quotas", quotas)):
            if isinstance(given, str):
                raise ArgumentError(f"{name} must be a list of texts: pass [{given!r}]")
        self._data_dir, self._host, self._port = data_dir, host, port
        self._config = dict(config or {})
        if super_users := list(super_users):
            self._config["super.users"] = ";".join(super_users)
        self._listeners = [Listener.parse(each) if isinstance(each, str) else each for each in listeners or ()]
        self._tls, self._users = tls, dict(users or {})
        self._acls = None if acls is None else list(acls)
        self._quotas = list(quotas)
        self._jwks = json.dumps(jwks) if isinstance(jwks, Mapping) else jwks
        self._token_key, self._aws_keys = token_key, dict(aws_keys or {})
        self._print_events = print_events
        self._running: _ottla.Broker | None = None

    def start(self) -> Self:
        """Start it, unless it runs.

        Returns:
            The broker itself.

        Raises:
            ConfigError: A setting is unknown or has a value that is not allowed, or a listener lacks what it needs.
            OSError: The address cannot be listened on, or the folder cannot be used.
        """
        if self._running is None:
            self._running = _ottla.Broker(
                nodes=self._nodes,
                as_version=self._as_version,
                host=self._host,
                port=self._port,
                listeners=[listener.settings() for listener in self._listeners],
                security=self._security(),
                data_dir=self._data_dir,
                topics=self._topics,
                config=self._config,
                print_events=self._print_events,
            )
        return self

    @property
    def bootstrap_servers(self) -> str:
        """The address of each node's first listener, as `host:port`, separated by commas."""
        return self._started().bootstrap_servers

    @property
    def listeners(self) -> list[OpenListener]:
        """Its listeners, in the order in which they were given."""
        return [OpenListener(*each) for each in self._started().listeners]

    def bootstrap_of(self, listener: str) -> str:
        """Return the addresses of a listener.

        Args:
            listener: The listener's name.

        Returns:
            The address of the listener on each node, as `host:port`, separated by commas.

        Raises:
            ArgumentError: There is no listener of that name.
        """
        return self._listener(listener).bootstrap_servers

    def client_config(
        self, user: str | None = None, *, listener: str | None = None, mechanism: str | None = None
    ) -> dict[str, str]:
        """Settings for a client, in the names of librdkafka, which ottla's own clients take too.

        Args:
            user: The user to be. On a listener with client certificates it gets one of that name, if `tls` is
                `Certificates`.
            listener: The name of the listener; the first one if not given.
            mechanism: The SASL mechanism; if not given, the strongest one with a password.

        Returns:
            `bootstrap.servers`, `security.protocol`, and the listener's other settings. The token of OAUTHBEARER and
            the keys of AWS_MSK_IAM are not included, because each client has its own way to set them.

        Raises:
            ArgumentError: There is no such listener or user.
        """
        there = self._listener(listener)
        mechanisms = there.mechanisms
        config = {"bootstrap.servers": there.bootstrap_servers, "security.protocol": there.protocol}
        if self._tls is not None and "SSL" in there.protocol:
            config["ssl.ca.location"] = str(self._tls.ca)
            if there.client_auth != "none" and user is not None and isinstance(self._tls, Certificates):
                identity = self._tls.client(user)
                config["ssl.certificate.location"] = str(identity.certificate)
                config["ssl.key.location"] = str(identity.key)
        if "SASL" in there.protocol:
            with_password = [name for name in mechanisms if name == "PLAIN" or name.startswith("SCRAM")]
            config["sasl.mechanism"] = mechanism or [*mechanisms, *with_password][-1]
            if user is not None and config["sasl.mechanism"] in with_password:
                if user not in self._users:
                    raise ArgumentError(f"the broker was not given a user {user!r}; it has {', '.join(self._users)}")
                config["sasl.username"], config["sasl.password"] = user, self._users[user]
        return config

    def _listener(self, name: str | None) -> OpenListener:
        for listener in self.listeners:
            if name is None or listener.name == name:
                return listener
        raise ArgumentError(
            f"there is no listener {name!r}; there are {', '.join(each.name for each in self.listeners)}"
        )

    def _security(self) -> dict[str, object]:
        tls = None
        if self._tls is not None:
            identity = self._tls.server() if isinstance(self._tls, Certificates) else self._tls
            tls = tuple(
                Path(file).read_text(encoding="utf-8") for file in (identity.certificate, identity.key, identity.ca)
            )
        return {
            "users": list(self._users.items()),
            "aws_keys": list(self._aws_keys.items()),
            "jwks": self._jwks,
            "token_key": self._token_key,
            "acls": self._acls,
            "quotas": self._quotas,
            "tls": tls,
        }

    def stop(self) -> None:
        """Stop it, if it runs: connections are closed, and a log on disk is complete."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    # Faults. `node`: only requests to this node; without it, requests to any node.

    def fail(
        self,
        api: str,
        error: str,
        *,
        applied: bool = False,
        after: float = 0.0,
        count: int = 1,
        node: int | None = None,
    ) -> None:
        """Respond to the next requests of an API with an error.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            error: Kafka's name of the error, such as `"NOT_LEADER_OR_FOLLOWER"`.
            applied: Whether the broker applies them nevertheless, like a broker that lost leadership meanwhile.
            after: How many seconds each response takes.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API, error or node.
        """
        self._started().fail(api, count, node, error, applied, after)

    def delay(self, api: str, seconds: float, *, count: int = 1, node: int | None = None) -> None:
        """Apply the next requests of an API, and delay each response.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            seconds: How many seconds each response takes.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().delay(api, count, node, seconds)

    def disconnect(
        self,
        api: str,
        *,
        applied: bool = False,
        answered: bool = False,
        count: int = 1,
        node: int | None = None,
    ) -> None:
        """Close the connection at the next requests of an API.

        Args:
            api: The API's name in Kafka's protocol.
            applied: Whether the broker applies them first, so that only the response is lost.
            answered: Whether the broker applies them and responds first, so that only the connection is lost.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        when = "answered" if answered else "applied" if applied else "received"
        self._started().disconnect(api, count, node, when)

    def ignore(self, api: str, *, applied: bool = False, count: int = 1, node: int | None = None) -> None:
        """Never respond to the next requests of an API; the connection stays, and later requests get a response.

        Args:
            api: The API's name in Kafka's protocol.
            applied: Whether the broker applies them, which their sender cannot know.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().ignore(api, count, node, applied)

    def hang(self, api: str, *, count: int = 1, node: int | None = None) -> None:
        """Neither apply nor respond to the next requests of an API, nor later requests on the connection.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().hang(api, count, node)

    def cut(self, api: str, after: int, *, count: int = 1, node: int | None = None) -> None:
        """Apply the next requests of an API, and close the connection within each response.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            after: How many bytes of each response are sent.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().cut(api, count, node, after)

    def trickle(self, api: str, *, count: int = 1, node: int | None = None) -> None:
        """Send the responses to the next requests of an API in single bytes.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().trickle(api, count, node)

    def throttle(self, api: str, seconds: float, *, count: int = 1, node: int | None = None) -> None:
        """Respond to the next requests of an API as to a client over its quota (KIP-219).

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            seconds: For how many seconds the client is throttled.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().throttle(api, count, node, seconds)

    def answer_twice(self, api: str, *, count: int = 1, node: int | None = None) -> None:
        """Send the responses to the next requests of an API twice.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().answer_twice(api, count, node)

    def answer_another(self, api: str, *, count: int = 1, node: int | None = None) -> None:
        """Respond to the next requests of an API with the correlation id of another request.

        Args:
            api: The API's name in Kafka's protocol, such as `"Produce"`.
            count: How many requests.
            node: Only those that come to this node.

        Raises:
            ArgumentError: There is no such API or node.
        """
        self._started().answer_another(api, count, node)

    def withhold(self, api: str, *, count: int = 1, node: int | None = None) -> None:
        """Omit optional information from the responses to the next requests of an API.

        Args:
            api: `"Metadata"`: its topics have no ids (KIP-516). `"Produce"`, `"Fetch"`, `"ShareFetch"` or
                `"ShareAcknowledge"`: the response of a node that is not the leader does not name the leader (KIP-951).
            count: How many requests, including those whose responses have nothing to omit.
            node: Only those that come to this node.

        Raises:
            ArgumentError: Responses of this API have nothing to omit, or there is no such API or node.
        """
        self._started().withhold(api, count, node)

    def clear_faults(self) -> None:
        """Remove every fault that has not happened yet.

        Raises:
            ClosedError: The broker is not running.
        """
        self._started().clear_faults()

    # Changes while clients are connected.

    def set_release(self, release: str, *, node: int | None = None) -> None:
        """Change the release of Kafka that the broker emulates, as after an upgrade.

        ApiVersions changes between connections.

        A request that the release does not support closes an older connection.

        Args:
            release: One of those of `as_version`.
            node: The node that changes; without it, all.

        Raises:
            ArgumentError: There is no such release or node.
        """
        self._started().set_release(node, release)

    def move_clock(self, seconds: float, *, node: int | None = None) -> None:
        """Move the wall clock by `seconds`, as after a clock adjustment. Moves add up.

        The wall clock determines the timestamps that a broker sets, the age of records, committed offsets, producers
        and transactions, and whether tokens are valid. Durations do not change: timeouts of sessions and requests,
        delays, quotas, and how often logs are checked.

        Args:
            seconds: Forward, or back if negative. Clocks stay between the years 1970 and 9999.
            node: The node whose clock it is; without it, those of all.

        Raises:
            ArgumentError: There is no such node, or `seconds` is not a number.
        """
        self._started().move_clock(node, seconds)

    def create_partitions(self, topic: str, total: int) -> None:
        """Add partitions to a topic until there are `total`.

        Raises:
            ArgumentError: There is no such topic, or it has that many partitions.
        """
        self._started().create_partitions(topic, total)

    def delete_records(self, topic: str, partition: int = 0, *, before: int = -1) -> int:
        """Delete the records of a partition, as retention does, also those that a consumer has not read yet.

        Args:
            topic: The topic.
            partition: The partition.
            before: The first offset that stays; -1 deletes all that are committed.

        Returns:
            The first offset that is left.

        Raises:
            ArgumentError: There is no such partition, it has no leader, or the offset is above the high watermark.
        """
        return self._started().delete_records(topic, partition, before)

    # A cluster of several nodes.

    @property
    def nodes(self) -> list[int]:
        """The numbers of the nodes that are up."""
        return self._started().nodes_up

    @property
    def controller(self) -> int:
        """The number of the controller."""
        return self._started().controller

    def partition(self, topic: str, partition: int = 0) -> PartitionState:
        """Describe the leader and the replicas of a partition.

        Args:
            topic: The topic.
            partition: The partition.

        Returns:
            Its leader, epoch, replicas and in-sync replicas, by the numbers of nodes.

        Raises:
            ArgumentError: There is no such partition.
        """
        found = self._started().partition(topic, partition)
        if found is None:
            raise ArgumentError(f"there is no partition {partition} of topic {topic!r}")
        return PartitionState(*found)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Find the leader of a partition.

        Args:
            topic: The topic.
            partition: The partition.

        Returns:
            The number of the node that leads it; -1 if none does.

        Raises:
            ArgumentError: There is no such partition.
        """
        return self.partition(topic, partition).leader

    def coordinator(self, group: str) -> int | None:
        """Find the coordinator of a group.

        Args:
            group: The group's name.

        Returns:
            The number of the node that coordinates it; None if none does.

        Raises:
            ClosedError: The broker is not running.
        """
        return self._started().coordinator(group)

    def stop_node(self, node: int, *, how: Literal["clean", "kill", "power-loss"] = "clean") -> None:
        """Stop a node: its connections end, and other nodes lead its partitions.

        Args:
            node: Its number.
            how: `"clean"`: it hands over leadership first, so that nothing is lost. `"kill"`: its process ends, and
                everything that it wrote is there when it starts again. `"power-loss"`: records that were not synced are
                lost (`flush.messages`).

        Raises:
            ArgumentError: There is no such node, or no other.
        """
        self._started().stop_node(node, how)

    def start_node(self, node: int) -> None:
        """Start a node that was stopped, on the address that it had. It copies what it missed.

        Raises:
            ArgumentError: There is no such node.
            OSError: Its address was taken meanwhile.
        """
        self._started().start_node(node)

    def move_leader(self, topic: str, partition: int = 0, *, to: int, unclean: bool = False) -> None:
        """Make a node the leader of a partition.

        Args:
            topic: The topic.
            partition: The partition.
            to: The node's number.
            unclean: Whether it may lead without being in sync. The other replicas are then truncated to its log.

        Raises:
            ArgumentError: It cannot lead: the text names the reason.
        """
        self._started().move_leader(topic, partition, to, unclean)

    def move_coordinator(self, group: str, *, to: int) -> None:
        """Make a node the coordinator of a group. Members and committed offsets stay.

        Raises:
            ArgumentError: It cannot be the coordinator: the text names the reason.
        """
        self._started().move_coordinator(group, to)

    def move_controller(self, *, to: int) -> None:
        """Make a node the controller.

        Raises:
            ArgumentError: The node is not up.
        """
        self._started().move_controller(to)

    def pause_replication(self, node: int) -> None:
        """Stop a node's replication: the high watermark does not advance until the node is out of sync.

        The node is out of sync after `replica.lag.time.max.ms`.

        Raises:
            ArgumentError: There is no such node, or no other.
        """
        self._started().set_following(node, False)

    def resume_replication(self, node: int) -> None:
        """Resume a node's replication; it is in sync once it has caught up.

        Raises:
            ArgumentError: There is no such node, or no other.
        """
        self._started().set_following(node, True)

    def pause_metadata(self, node: int) -> None:
        """Stop metadata updates to a node: it continues with the metadata that it has.

        A leader that was replaced meanwhile still accepts records with acks=1, which are lost when it gets the new
        metadata, and it still serves consumers. A Kafka broker that is disconnected from its controller behaves like
        this.

        Raises:
            ArgumentError: There is no such node, or no other.
        """
        self._started().set_hearing(node, False)

    def resume_metadata(self, node: int) -> None:
        """Resume metadata updates to a node, beginning with those that it missed.

        Raises:
            ArgumentError: There is no such node, or no other.
        """
        self._started().set_hearing(node, True)

    def refuse_logins(self, node: int) -> None:
        """Make a node reject all authentications, also on a connection whose session expires.

        Raises:
            ArgumentError: There is no such node, or no other.
        """
        self._started().set_logins(node, False)

    def accept_logins(self, node: int) -> None:
        """Make a node accept valid credentials again.

        Raises:
            ArgumentError: There is no such node, or no other.
        """
        self._started().set_logins(node, True)

    def telemetry(self) -> list[TelemetryPush]:
        """Return the metrics that clients pushed.

        Clients push the metrics that the broker's setting `telemetry.metrics` names, such as `"*"` for all, every
        `telemetry.interval.ms`. They also push what matching subscriptions request: the resource CLIENT_METRICS of
        `Admin.incremental_alter_configs`. A client that connected before the first subscription pushes after its next
        connection.

        Returns:
            The last thousand pushes, the oldest first.

        Raises:
            ClosedError: The broker is not running.
        """
        return [
            TelemetryPush(client, UUID(bytes=instance), terminating, codec, metrics)
            for client, instance, terminating, codec, metrics in self._started().telemetry()
        ]

    def _started(self) -> _ottla.Broker:
        if self._running is None:
            raise ClosedError("the broker is not running: call start(), or use it in a with statement")
        return self._running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Broker({self._running.bootstrap_servers!r})" if self._running else "Broker(not running)"


class KafkaContainer(Container):
    """The embedded broker, with the methods of testcontainers' class of the same name, and without Docker.

    A test changes one import. The image does not matter. Variables that begin with `KAFKA_` set the broker's settings
    as in Confluent's image: `with_env("KAFKA_NUM_PARTITIONS", "3")`. Those that describe the image's listeners and
    processes have no effect.

    ```python
    from ottla.testing import KafkaContainer

    with KafkaContainer().with_kraft() as kafka:
        producer = ottla.Producer(kafka.get_bootstrap_server())
    ```

    Args:
        image: Ignored.
        port: The port that `get_exposed_port` takes.
        options: Further arguments of testcontainers' class; ignored.
    """

    def _made(self, port: int, config: dict[str, ConfigValue]) -> Broker:
        return Broker(port=port, config=config)
