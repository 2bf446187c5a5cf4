"""Modules that the compiled half of ottla imports by name, which PyInstaller cannot read out of it."""

hiddenimports = [
    "array",
    "asyncio",
    "collections.abc",
    "datetime",
    "ottla._admin",
    "ottla._assignors",
    "ottla._callbacks",
    "ottla._decoding",
    "ottla._habits",
    "ottla._logging",
    "ottla._metrics",
    "ottla._notebook",
    "ottla._reporting",
    "ottla._sasl",
    "ottla._types",
    "ottla.aio._completions",
    "ottla.compat.confluent_kafka.errors",
    "ottla.compat.confluent_kafka.outbox",
    "ottla.errors",
    "uuid",
]
