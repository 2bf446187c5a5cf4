# Written by scripts/unasync.py from python/ottla/aio/_calls/cluster.py. Change that file, and run the script.
"""The cluster: brokers, controllers, replicas and folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Literal

from ottla import _admin as results
from ottla import _ottla
from ottla._admin import arguments
from ottla._later import uuid
from ottla._types import Partition, TopicPartition


class Cluster:
    """Calls about the cluster."""

    __slots__ = ()
    _core: _ottla.AdminCore

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> results.ClusterDescription:
        """Describe the cluster: its id, its controller and its brokers (KIP-700).

        Brokers before Kafka 2.8 return it as metadata, without fenced brokers.

        Args:
            include_authorized_operations: Whether to return the operations that the client is authorized for (KIP-430,
                Kafka 2.3 and later).
            include_fenced_brokers: Whether to list fenced brokers too: registered, but not in service (KIP-1073, Kafka
                4.0 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The cluster's id, its controller, its brokers and, if requested, the authorized operations.

        Raises:
            UnsupportedError: The brokers are too old for `include_fenced_brokers`.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: results.ClusterDescription = self._core.call(
            "describe_cluster",
            timeout,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        ).wait()
        return described

    def elect_leaders(
        self,
        election: Literal["PREFERRED", "UNCLEAN"] = "PREFERRED",
        partitions: Iterable[Partition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Elect leaders of partitions (KIP-183, Kafka 2.2 and later; unclean KIP-460, Kafka 2.4).

        Args:
            election: `"PREFERRED"` elects the first replica; `"UNCLEAN"` a replica that may have lost records, where no
                other is there.
            partitions: Partitions as `TopicPartition`s or pairs; None for all.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The partitions that have the leader that they are to have. Those of `failures` have not.

        Raises:
            NotFoundError: A topic or a partition does not exist.
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"PREFERRED_LEADER_NOT_AVAILABLE"` or `"ELIGIBLE_LEADERS_NOT_AVAILABLE"` if no such
                replica is in sync.
            ClosedError: The client is closed.
        """
        elected: dict[TopicPartition, None]
        elected = self._core.call("elect_leaders", timeout, election=election, partitions=partitions).wait()
        return elected

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Iterable[int] | None] | Mapping[tuple[str, int], Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Move replicas of partitions to other brokers (KIP-455, Kafka 2.4 and later).

        The call returns when the move has begun; `list_partition_reassignments` lists what is under way.

        Args:
            reassignments: The ids of the brokers, the preferred leader first, by partition; None cancels what is under
                way.
            allow_replication_factor_change: Whether the number of replicas may change (KIP-860: False needs Kafka 4.1).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: A topic or a partition does not exist.
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"INVALID_REPLICA_ASSIGNMENT"` for brokers that do not exist, and
                `"NO_REASSIGNMENT_IN_PROGRESS"` where there is nothing to cancel.
            ClosedError: The client is closed.
        """
        self._core.call(
            "alter_partition_reassignments",
            timeout,
            reassignments=arguments.reassignments(reassignments),
            allow_replication_factor_change=allow_replication_factor_change,
        ).wait()

    def list_partition_reassignments(
        self, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, results.PartitionReassignment]:
        """List replicas that are moving (KIP-455, Kafka 2.4 and later).

        Args:
            partitions: Only these partitions, as `TopicPartition`s or pairs; None for all.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            What is under way, by partition.

        Raises:
            AuthorizationError: This client may not describe the cluster.
            UnsupportedError: The brokers are too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: dict[TopicPartition, results.PartitionReassignment]
        found = self._core.call("list_partition_reassignments", timeout, partitions=partitions).wait()
        return found

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, list[results.LogDir]]:
        """Describe the folders of brokers' logs and the replicas in them (KIP-113, Kafka 1.0 and later).

        Args:
            brokers: Ids of brokers; None for all.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Folders by broker.

        Raises:
            ArgumentError: There is no such broker.
            AuthorizationError: This client may not describe the cluster.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: dict[int, list[results.LogDir]]
        found = self._core.call("describe_log_dirs", timeout, brokers=None if brokers is None else list(brokers)).wait()
        return found

    def describe_replica_log_dirs(
        self, replicas: Iterable[results.TopicPartitionReplica], *, timeout: float | None = None
    ) -> dict[results.TopicPartitionReplica, results.ReplicaLogDir]:
        """Find the folders of replicas (KIP-113, Kafka 1.0 and later).

        Args:
            replicas: `TopicPartitionReplica`s.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Folders by replica. One that does not exist has the path None.

        Raises:
            ArgumentError: There is no such broker.
            AuthorizationError: This client may not describe the cluster.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: dict[results.TopicPartitionReplica, results.ReplicaLogDir]
        found = self._core.call("describe_replica_log_dirs", timeout, replicas=list(replicas)).wait()
        return found

    def alter_replica_log_dirs(
        self, assignments: Mapping[results.TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> None:
        """Move replicas to other folders of their brokers (KIP-113, Kafka 1.0 and later).

        The call returns when the move has begun; `describe_replica_log_dirs` shows how far it is.

        Args:
            assignments: The path of a folder, one of the broker's `log.dirs`, by replica.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: A replica or a folder does not exist.
            ArgumentError: There is no such broker.
            AuthorizationError: This client may not alter the cluster.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        rows = [SimpleNamespace(replica=replica, path=path) for replica, path in assignments.items()]
        self._core.call("alter_replica_log_dirs", timeout, assignments=rows).wait()

    def list_topic_sizes(
        self, topics: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> results.Rows[results.TopicSize]:
        """List the sizes of the logs of topics on all brokers, from `describe_log_dirs`.

        Args:
            topics: Only these topics; None for all.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Sizes by topic.

        Raises:
            AuthorizationError: This client may not describe the cluster.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or one did not respond in time.
        """
        found: results.Rows[results.TopicSize]
        found = self._core.call("list_topic_sizes", timeout, topics=topics).wait()
        return found

    def describe_features(self, *, broker: int | None = None, timeout: float | None = None) -> results.FeatureMetadata:
        """Describe the features of the cluster (KIP-584, Kafka 2.4 and later).

        Args:
            broker: The id of the broker to ask (KIP-1120); None for any.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The levels that the broker supports and those that the cluster uses, by feature.

        Raises:
            ArgumentError: There is no such broker.
            UnsupportedError: The broker is too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: results.FeatureMetadata = self._core.call("describe_features", timeout, broker=broker).wait()
        return found

    def update_features(
        self,
        updates: Mapping[str, int] | Iterable[results.FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change the levels of features (KIP-584, Kafka 2.7 and later).

        Brokers since Kafka 4.0 change all or none.

        Args:
            updates: Levels by feature, which only rise; or `FeatureUpdate`s, which may also lower a level.
            validate_only: Only checks whether the levels could be changed (Kafka 3.3 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"INVALID_UPDATE_VERSION"` for a level that the cluster cannot have.
            ClosedError: The client is closed.
        """
        rows = (
            [results.FeatureUpdate(feature, level) for feature, level in updates.items()]
            if isinstance(updates, Mapping)
            else list(updates)
        )
        self._core.call("update_features", timeout, updates=rows, validate_only=validate_only).wait()

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> results.QuorumInfo:
        """Describe the quorum of the controllers (KIP-836, Kafka 3.3 and later with KRaft).

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The leader of the quorum, its epoch, and how far each voter and observer has read the metadata log.

        Raises:
            AuthorizationError: This client may not describe the cluster.
            UnsupportedError: The brokers have no quorum, or are too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: results.QuorumInfo = self._core.call("describe_metadata_quorum", timeout).wait()
        return found

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: uuid.UUID,
        endpoints: Iterable[results.RaftEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Add a controller as a voter of the quorum (KIP-853, Kafka 3.9 and later).

        Args:
            voter_id: The id of the controller.
            directory_id: The id of its folder, which `describe_metadata_quorum` returns for observers.
            endpoints: Where it can be reached.
            cluster_id: The id of the cluster, to be sure that it is this one.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"DUPLICATE_VOTER"` if it is one, and `"UNSUPPORTED_VERSION"` if the quorum is static.
            ClosedError: The client is closed.
        """
        self._core.call(
            "add_raft_voter",
            timeout,
            voter_id=voter_id,
            directory_id=directory_id.bytes,
            endpoints=list(endpoints),
            cluster_id=cluster_id,
        ).wait()

    def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: uuid.UUID,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove a controller from the voters of the quorum (KIP-853, Kafka 3.9 and later).

        Args:
            voter_id: The id of the controller.
            directory_id: The id of its folder, which `describe_metadata_quorum` returns.
            cluster_id: The id of the cluster, to be sure that it is this one.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"VOTER_NOT_FOUND"` if it does not vote, `"UNSUPPORTED_VERSION"` if the quorum is
                static.
            ClosedError: The client is closed.
        """
        self._core.call(
            "remove_raft_voter",
            timeout,
            voter_id=voter_id,
            directory_id=directory_id.bytes,
            cluster_id=cluster_id,
        ).wait()

    def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Unregister a broker that is gone for good (KIP-631, Kafka 2.8 and later with KRaft).

        Args:
            broker: Its id.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"BROKER_ID_NOT_REGISTERED"` if there is no such broker.
            ClosedError: The client is closed.
        """
        self._core.call("unregister_broker", timeout, broker=broker).wait()

    def unregister_controller(self, controller: int, *, timeout: float | None = None) -> None:
        """Unregister a controller that is gone for good (Kafka 4.4 and later).

        Args:
            controller: Its id.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            UnsupportedError: The brokers are too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        self._core.call("unregister_controller", timeout, controller=controller).wait()

    def request(
        self,
        api: str,
        message: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        broker: int | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send any request of Kafka's protocol, once, and return the response as it is.

        Both are in the JSON of Kafka's own converters, as in `ottla.protocol`: names begin with a small letter, and
        bytes are base64. The response may hold error codes, which are not raised.

        Args:
            api: The name of the API, such as `"DescribeCluster"`.
            message: The fields of the request. Those of the message itself that are left out have their defaults.
            version: The version; None takes the highest that the broker speaks and that has all fields of the message.
            broker: The id of the broker; None for any.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The fields of the response's message.

        Raises:
            ArgumentError: There is no such API or broker, or the message does not fit it.
            UnsupportedError: The broker does not speak the version.
            ClosedError: The client is closed.
            KafkaError: No broker responded in time. `may_be_done` is true if the request was sent.

        Example:
            ```python
            admin.request("ListGroups", {"typesFilter": ["share"]}, broker=1)["groups"]
            ```
        """
        import json  # not needed by other calls

        text: str = self._core.call(
            "request", timeout, api=api, message=json.dumps(message or {}), version=version, broker=broker
        ).wait()
        found: dict[str, Any] = json.loads(text)
        return found
