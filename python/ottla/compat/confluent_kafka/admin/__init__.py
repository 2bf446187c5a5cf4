"""`_AdminClientImpl`: the native half of confluent-kafka's AdminClient, a file for each noun."""

from __future__ import annotations

from ottla.compat.confluent_kafka.admin.base import AdminBase
from ottla.compat.confluent_kafka.admin.configs import ConfigCalls
from ottla.compat.confluent_kafka.admin.groups import GroupCalls
from ottla.compat.confluent_kafka.admin.offsets import OffsetCalls
from ottla.compat.confluent_kafka.admin.security import SecurityCalls
from ottla.compat.confluent_kafka.admin.topics import TopicCalls


class _AdminClientImpl(TopicCalls, OffsetCalls, GroupCalls, ConfigCalls, SecurityCalls, AdminBase):
    """The native half of AdminClient: each call takes a future and sets its result from a thread.

    Args:
        config: A dict of librdkafka's properties, and callbacks.
    """


_AdminClientImpl.__module__ = "confluent_kafka.cimpl"
