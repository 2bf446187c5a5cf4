"""The producer."""

from __future__ import annotations

from ottla.compat.aiokafka.producer.producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]
