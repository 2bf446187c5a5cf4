"""Plans of which brokers hold the replicas of topics, as Kafka's reassignment tool makes, starts and verifies them."""

from __future__ import annotations

from collections.abc import Iterable

from ottla import _admin as results
from ottla._types import TopicPartition
from ottla.aio._calls.cluster import Cluster
from ottla.aio._calls.configs import Configs
from ottla.aio._calls.topics import Topics


class Reassignments(Topics, Configs, Cluster):
    """Calls about plans. They are made of calls of Java's Admin."""

    __slots__ = ()

    async def plan_reassignment(
        self,
        topics: str | Iterable[str],
        *,
        brokers: Iterable[int] | None = None,
        replication: int | None = None,
        rack_aware: bool = True,
        timeout: float | None = None,
    ) -> results.ReassignmentPlan:
        """Plans which brokers are to hold the replicas of topics. Nothing is changed.

        Each broker gets as many replicas and as many preferred leaders as the others. The replicas of a partition are
        on different racks, if there are enough racks. Unlike `kafka-reassign-partitions.sh --generate`, the plan keeps
        replicas where they are if that is balanced.

        Args:
            topics: Names of topics.
            brokers: The ids of the brokers that may have replicas; None for all that are up.
            replication: The number of replicas of each partition; None keeps each partition's.
            rack_aware: Whether to look at the racks of brokers.
            timeout: Seconds to wait at most, for each request. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The plan: `start_reassignment` carries it out.

        Raises:
            NotFoundError: A topic does not exist.
            ArgumentError: There is no such broker, there are too few, or only some of them have a rack.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        from ottla._admin import reassigning
        from ottla.errors import ArgumentError

        described = await self.describe_topics(topics, timeout=timeout)
        racks = {node.id: node.rack for node in (await self.describe_cluster(timeout=timeout)).nodes}
        wanted = sorted(racks) if brokers is None else sorted(set(brokers))
        if missing := [broker for broker in wanted if broker not in racks]:
            raise ArgumentError(f"there are no brokers {missing}; there are {sorted(racks)}")
        return reassigning.plan(
            described.values(),
            {broker: racks[broker] for broker in wanted},
            replication=replication,
            rack_aware=rack_aware,
        )

    async def start_reassignment(
        self, plan: results.ReassignmentPlan, *, throttle: int | None = None, timeout: float | None = None
    ) -> None:
        """Begins to move the replicas of a plan (KIP-455, Kafka 2.4 and later).

        Args:
            plan: The plan.
            throttle: Bytes a second that each broker may send and get for these moves (KIP-73); None for no limit. The
                limit stays until `verify_reassignment` finds the plan done, or until this is called again.
            timeout: Seconds to wait at most, for each request. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            ArgumentError: The throttle is not above 0.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        from ottla._admin import reassigning
        from ottla.errors import ArgumentError

        if throttle is not None:
            if throttle <= 0:
                raise ArgumentError(f"a throttle is above 0, in bytes a second: {throttle}")
            changes: dict[tuple[str, str], dict[str, str | None]] = {
                ("TOPIC", topic): {reassigning.LEADER_REPLICAS: leaders, reassigning.FOLLOWER_REPLICAS: followers}
                for topic, (leaders, followers) in reassigning.throttled_replicas(plan.moves).items()
            }
            rate = {reassigning.LEADER_RATE: str(throttle), reassigning.FOLLOWER_RATE: str(throttle)}
            changes |= {("BROKER", str(broker)): dict(rate) for broker in reassigning.brokers_of(plan.moves)}
            if changes:
                await self.incremental_alter_configs(changes, timeout=timeout)
        if plan.moves:
            await self.alter_partition_reassignments(plan.reassignments, timeout=timeout)

    async def verify_reassignment(
        self, plan: results.ReassignmentPlan, *, keep_throttle: bool = False, timeout: float | None = None
    ) -> results.Rows[results.ReassignmentProgress]:
        """Compares a plan with the replicas that there are. Removes the throttle once nothing moves any more.

        As with Kafka's own tool, moves of other plans keep the throttle, too: brokers have one for all moves.

        Args:
            plan: The plan.
            keep_throttle: Whether the throttle stays when nothing moves.
            timeout: Seconds to wait at most, for each request. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            A row for each partition of the plan.

        Raises:
            NotFoundError: A topic does not exist any more.
            AuthorizationError: This client may not describe the cluster, or may not alter its configurations.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        from ottla._admin import reassigning

        moving = await self.list_partition_reassignments(timeout=timeout)
        topics = sorted({move.topic for move in plan.moves})
        described = await self.describe_topics(topics, timeout=timeout)
        now = {
            TopicPartition(topic.name, row.partition): row for topic in described.values() for row in topic.partitions
        }
        rows = reassigning.progress(plan.moves, moving, now)
        if not keep_throttle and not moving:
            await self._unthrottle(topics, reassigning.brokers_of(plan.moves), timeout)
        return rows

    async def _unthrottle(self, topics: Iterable[str], brokers: Iterable[int], timeout: float | None) -> None:
        """Removes the throttles that are set."""
        from ottla._admin import reassigning

        names = {
            "TOPIC": (reassigning.LEADER_REPLICAS, reassigning.FOLLOWER_REPLICAS),
            "BROKER": (reassigning.LEADER_RATE, reassigning.FOLLOWER_RATE),
        }
        resources = [("TOPIC", topic) for topic in topics] + [("BROKER", str(broker)) for broker in brokers]
        found = await self.describe_configs(resources, timeout=timeout)
        changes: dict[tuple[str, str], dict[str, str | None]] = {}
        for resource, rows in found.items():
            own = {"DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG"}
            set_here = [row.name for row in rows if row.name in names[resource.type] and row.source in own]
            if set_here:
                changes[resource.type, resource.name] = dict.fromkeys(set_here)
        if changes:
            await self.incremental_alter_configs(changes, timeout=timeout)
