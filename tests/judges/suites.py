"""The suites: what each one tests, where its tests come from, and what they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Suite:
    """A suite.

    Attributes:
        package: The package that the suite belongs to, and its version, as pip takes them.
        repository: The name of the folder that `git clone` makes of its repository, or "" if the package's source distribution
            on PyPI holds the tests.
        files: Patterns of its files.
        plugin: The plugin of pytest that puts ottla below the package.
        needs: Packages for its environment besides `package` and pytest.
        arguments: Arguments for pytest.
        environment: Variables that the suite reads, and their values.
    """

    package: str
    repository: str
    files: tuple[str, ...]
    plugin: str
    needs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The package's name without extras and version."""
        return name_of(self.package)

    @property
    def version(self) -> str:
        """The version that is judged."""
        return self.package.partition("==")[2]


def name_of(package: str) -> str:
    """The name of a package without extras and version."""
    return package.partition("==")[0].partition("[")[0]


def _faststream(broker: str) -> tuple[str, ...]:
    folders = (f"tests/brokers/{broker}", f"tests/opentelemetry/{broker}", f"tests/prometheus/{broker}")
    return tuple(f"{folder}/**/test_*.py" for folder in folders)


# What every environment has.
PYTEST: Final = ("pytest>=8", "pytest-timeout>=2.3")
_ASYNCIO: Final = "pytest-asyncio>=1"
# pytest-asyncio warns without it, and the suite makes warnings errors.
_FUNCTION_LOOPS: Final = ("-o", "asyncio_default_fixture_loop_scope=function")
# pytest would look for settings in the folders above, which are this project's.
_OWN_SETTINGS: Final = ("-c", "pyproject.toml")
# FastStream's settings leave out tests that it calls slow.
_SLOW_ONES_TOO: Final = ("-m", "")
CONFLUENT: Final = "confluent-kafka[avro,json,protobuf,rules,schemaregistry]==2.16.1"
_CONFLUENT_TREE: Final = "confluent-kafka-python"
_CONFLUENT_NEEDS: Final = (_ASYNCIO, "async-timeout", "psutil", "requests-mock", "respx")
_AIOKAFKA: Final = "aiokafka[lz4,snappy,zstd]==0.14.0"
_FASTSTREAM: Final = "faststream[cli,confluent,kafka,mqtt,nats,otel,prometheus,rabbit,redis]==0.7.4"
_FASTSTREAM_NEEDS: Final = (
    _ASYNCIO,
    "dirty-equals",
    "email-validator",
    "fastapi",
    "freezegun",
    "httpx",
    "msgspec",
    "psutil",
    "pydantic-settings",
    "pytest-rerunfailures",
    "pyyaml",
    "uvicorn",
)
# OpenTelemetry's own base class of tests has the version of the instrumentation.
_OTEL: Final = "0.66b1"
# What is left out of Quix Streams has no client in any test.
_QUIX: Final = tuple(
    f"tests/test_quixstreams/{files}"
    for files in (
        "test_*.py",
        "test_dataframe/**/test_[!l]*.py",
        "test_internal_consumer/test_*.py",
        "test_kafka/test_*.py",
        "test_models/**/test_*.py",
        "test_sources/**/test_*.py",
        "test_state/**/test_*.py",
    )
)
_CLIENTS: Final = (
    "admin",
    "consumer",
    "pep492",
    "producer",
    "sasl",
    "transactional_consumer",
    "transactional_producer",
)
SUITES: Final = {
    "confluent": Suite(CONFLUENT, _CONFLUENT_TREE, ("tests/test_*.py",), "ottla_below_confluent", _CONFLUENT_NEEDS),
    "confluent-integration": Suite(
        CONFLUENT,
        _CONFLUENT_TREE,
        tuple(f"tests/integration/{folder}/test_*.py" for folder in ("admin", "consumer", "producer", "serialization")),
        "ottla_below_confluent_cluster",
        _CONFLUENT_NEEDS,
    ),
    "confluent-consumer-protocol": Suite(
        CONFLUENT,
        _CONFLUENT_TREE,
        tuple(f"tests/integration/{folder}/test_*.py" for folder in ("consumer", "producer")),
        "ottla_below_confluent_cluster",
        _CONFLUENT_NEEDS,
        environment=(("TEST_CONSUMER_GROUP_PROTOCOL", "consumer"),),
    ),
    "confluent-share": Suite(
        CONFLUENT,
        _CONFLUENT_TREE,
        tuple(f"tests/integration/share_consumer{kind}/test_*.py" for kind in ("", "_sasl")),
        "ottla_below_confluent_cluster",
        _CONFLUENT_NEEDS,
    ),
    "registry": Suite(
        CONFLUENT,
        _CONFLUENT_TREE,
        ("tests/integration/schema_registry/**/test_*.py",),
        "registry_below_confluent",
        _CONFLUENT_NEEDS,
        (*_FUNCTION_LOOPS, "-o", "asyncio_mode=auto"),
    ),
    "aiokafka": Suite(
        _AIOKAFKA,
        "aiokafka",
        tuple(f"tests/test_{name}.py" for name in _CLIENTS),
        "ottla_below_aiokafka",
        # Admin calls of the plugin are confluent-kafka's.
        (_ASYNCIO, "confluent-kafka==2.16.1", "cramjam", "pytest-mock"),
        _FUNCTION_LOOPS,
    ),
    "faststream-kafka": Suite(
        _FASTSTREAM,
        "faststream",
        _faststream("kafka"),
        "ottla_below_faststream_kafka",
        _FASTSTREAM_NEEDS,
        _SLOW_ONES_TOO,
    ),
    "faststream-confluent": Suite(
        _FASTSTREAM,
        "faststream",
        _faststream("confluent"),
        "ottla_below_faststream_confluent",
        _FASTSTREAM_NEEDS,
        _SLOW_ONES_TOO,
    ),
    "opentelemetry-confluent": Suite(
        f"opentelemetry-instrumentation-confluent-kafka=={_OTEL}",
        "",
        ("tests/test_*.py",),
        "ottla_below_confluent",
        ("confluent-kafka==2.16.1", f"opentelemetry-test-utils=={_OTEL}"),
        _OWN_SETTINGS,
    ),
    "opentelemetry-aiokafka": Suite(
        f"opentelemetry-instrumentation-aiokafka=={_OTEL}",
        "",
        ("tests/test_*.py",),
        "ottla_below_aiokafka_without_broker",
        ("aiokafka==0.14.0", f"opentelemetry-test-utils=={_OTEL}"),
        # Tests whose mocks have no effect wait for a record without end.
        (*_OWN_SETTINGS, "--timeout=5"),
    ),
    "kombu": Suite(
        "kombu==5.7.0",
        "",
        ("t/integration/test_kafka.py",),
        "ottla_below_kombu",
        ("confluent-kafka==2.16.1",),
    ),
    "quix": Suite(
        "quixstreams[all]==3.25.0",
        "quix-streams",
        _QUIX,
        "ottla_below_quix",
        ("confluent-kafka==2.11.1", "requests>=2.32", "testcontainers"),
        ("-o", "log_cli=false"),
    ),
    "bytewax": Suite(
        "bytewax[kafka]==0.21.1",
        "bytewax",
        ("pytests/connectors/test_kafka.py",),
        "ottla_below_bytewax",
        ("confluent-kafka[avro,schemaregistry]==2.16.1",),
    ),
    "dlt": Suite(
        "dlt[duckdb]==1.31.0",
        "verified-sources",
        ("tests/kafka/test_kafka.py",),
        "embedded_below_dlt",
        ("confluent-kafka==2.16.1",),
    ),
    "ray": Suite(
        "ray[data]==2.60.0",
        "ray",
        ("python/ray/data/tests/datasource/test_kafka*.py",),
        "ottla_below_ray",
        ("confluent-kafka==2.16.1",),
        # Its conftest.py needs packages of Ray's tests, which are not in its wheel.
        ("--noconftest", "--import-mode=importlib"),
    ),
    "daft": Suite(
        "daft==0.7.24",
        "Daft",
        ("tests/integration/io/test_kafka_integration.py",),
        "ottla_below_daft",
        ("confluent-kafka==2.16.1", "pandas", "pyarrow"),
        ("-m", "integration"),
    ),
}
