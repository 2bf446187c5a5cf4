"""What admin calls do, as scenes that run on any broker: the embedded one, and real Kafka of several releases."""
