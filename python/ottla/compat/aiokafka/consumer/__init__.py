"""The consumer."""

from __future__ import annotations

from ottla.compat.aiokafka.consumer.consumer import AIOKafkaConsumer

__all__ = ["AIOKafkaConsumer"]
