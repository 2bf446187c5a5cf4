"""What a client that can describe its cluster has, of whatever kind it is."""

from __future__ import annotations

from typing import Any

from ottla.compat.confluent_kafka.cluster import Cluster


class Handle:
    """A client of a cluster."""

    def _ottla_cluster(self) -> Cluster | None:
        """Return the cluster. Programs subclass clients, and the prefix leaves their names free.

        Returns: None if the client is closed.
        """
        raise NotImplementedError

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Describe brokers and topics.

        Args:
            topic: A topic's name; without it, all topics.
            timeout: Seconds to wait at most; negative waits without end.

        Returns: A ClusterMetadata.
        """
        return self.__open().list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """Return the id of the cluster.

        Args:
            timeout: Seconds to wait at most; negative waits without end.
        """
        return self.__open().cluster_id(timeout)

    def __open(self) -> Cluster:
        """Return the cluster.

        Raises:
            RuntimeError: The client is closed.
        """
        cluster = self._ottla_cluster()
        if cluster is None:
            raise RuntimeError("Handle has been closed")
        return cluster
