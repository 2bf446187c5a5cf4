"""The scenarios of Spark: each is prepared when its first measurement comes, and all are measured in one session."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import spark_sink
import spark_source
from on_spark import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Broker
    from report import Measured
    from scenarios import Scenario, Way

    Work = Callable[[Way], Measured]

CASES: dict[str, Callable[[Session, Scenario, str], Work]] = {
    "spark-rows": spark_source.rows,
    "spark-json": spark_source.typed_json,
    "spark-avro": spark_source.typed_avro,
    "spark-batches": spark_source.micro_batches,
    "spark-sink": spark_sink.writes,
    "shape-wide-json-spark": spark_source.wide_json,
    "shape-wide-avro-spark": spark_source.wide_avro,
}


class SparkBench:
    """Measures ways of Spark's on one broker.

    Args:
        broker: That runs.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._session: Session | None = None
        self._prepared: dict[str, Work] = {}
        self._numbers = itertools.count()

    def measure(self, scenario: Scenario, way: Way) -> Measured:
        """One measurement.

        Raises:
            RuntimeError: Spark or one of its tasks failed.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            self._session = self._session or Session(self._broker)
            if scenario.name not in self._prepared:
                topic = f"{scenario.name}-{next(self._numbers)}"
                self._prepared[scenario.name] = CASES[scenario.name](self._session, scenario, topic)
            return self._prepared[scenario.name](way)
        except (PySparkException, Py4JError) as error:
            raise RuntimeError(str(error)[-3000:]) from error

    def close(self) -> None:
        """End the session."""
        if self._session:
            self._session.at_end.close()
