"""confluent-kafka's asyncio layer, where its own Python code would take most of the time of each record."""
