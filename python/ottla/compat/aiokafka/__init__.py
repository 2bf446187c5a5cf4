"""aiokafka's classes on `ottla.aio`, for programs that were written for aiokafka.

Import from here what the program imports from `aiokafka`, or call `install()` first: then these modules are in
`sys.modules` under aiokafka's names, and `import aiokafka` finds them.

confluent-kafka is replaced at one native module. aiokafka has no such module: its clients, its protocol and its
connections are Python classes that know each other. Programs and frameworks import its submodules, such as FastStream
`aiokafka.producer.producer` and `aiokafka.coordinator.assignors.roundrobin`. So each public module of aiokafka has a
module of the same name here. aiokafka need not be installed. If it is installed, its other modules, such as
`aiokafka.protocol`, `aiokafka.record` and `aiokafka.util`, are its own.
"""

from __future__ import annotations

from ottla.compat.aiokafka._install import install
from ottla.compat.aiokafka._version import VERSION
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

__version__ = VERSION
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
