"""The names of `confluent_kafka.cimpl`, whose place this module takes."""

from __future__ import annotations

from contextvars import ContextVar

from ottla.compat.confluent_kafka.admin import _AdminClientImpl as _AdminClientImpl
from ottla.compat.confluent_kafka.admin.types import NewPartitions as NewPartitions
from ottla.compat.confluent_kafka.admin.types import NewTopic as NewTopic
from ottla.compat.confluent_kafka.constants import *  # noqa: F403 all of them
from ottla.compat.confluent_kafka.consumer import Consumer as Consumer
from ottla.compat.confluent_kafka.errors import ConcurrentModificationException as ConcurrentModificationException
from ottla.compat.confluent_kafka.errors import IllegalStateException as IllegalStateException
from ottla.compat.confluent_kafka.errors import KafkaError as KafkaError
from ottla.compat.confluent_kafka.errors import KafkaException as KafkaException
from ottla.compat.confluent_kafka.functions import consistent as consistent
from ottla.compat.confluent_kafka.functions import fnv1a as fnv1a
from ottla.compat.confluent_kafka.functions import libversion as libversion
from ottla.compat.confluent_kafka.functions import murmur2 as murmur2
from ottla.compat.confluent_kafka.functions import version as version
from ottla.compat.confluent_kafka.message import Message as Message
from ottla.compat.confluent_kafka.producer import Producer as Producer
from ottla.compat.confluent_kafka.share_consumer import ShareConsumer as ShareConsumer
from ottla.compat.confluent_kafka.topic_partition import TopicPartition as TopicPartition
from ottla.compat.confluent_kafka.topic_partition import Uuid as Uuid

# confluent-kafka's asyncio layer sets it around its calls.
_reentry_identity_var: ContextVar[int] = ContextVar("_reentry_identity_var", default=0)
