"""aiokafka's classes on `ottla.aio`, for programs that were written for aiokafka.

Import from here what the program imports from `aiokafka`, or call `install()` first: then these modules stand in
`sys.modules` under aiokafka's names, and `import aiokafka` finds them.

Why whole modules, and not a seam as for confluent-kafka: aiokafka has no native module that everything passes through; its
clients, its protocol and its connections are Python classes that know each other. Programs and frameworks import its
submodules (FastStream `aiokafka.producer.producer`, `aiokafka.coordinator.assignors.roundrobin`), so each public module has
its place here. aiokafka need not be installed. If it is, its modules without a place here (`aiokafka.protocol`,
`aiokafka.record`, `aiokafka.util`) are still its own.
"""

from __future__ import annotations

from ottla.compat.aiokafka._install import install
from ottla.compat.aiokafka._version import VERSION as __version__
from ottla.compat.aiokafka.abc import ConsumerRebalanceListener
from ottla.compat.aiokafka.client import AIOKafkaClient
from ottla.compat.aiokafka.consumer import AIOKafkaConsumer
from ottla.compat.aiokafka.errors import ConsumerStoppedError, IllegalOperation
from ottla.compat.aiokafka.producer import AIOKafkaProducer
from ottla.compat.aiokafka.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

__all__ = [
    "AIOKafkaClient",
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "__version__",
    "install",
]
