"""Streams that write exactly once from a standalone cluster of two hosts: executors are killed, tasks run twice at once, and
brokers ask for TLS and SCRAM.

Spark starts no second attempt of a task beside the first in local mode, nor on the same host.
"""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from tests.brokers.running import free_ports, running
from tests.waiting import check_time

import ottla
from ottla.spark import ensure_java

from .once import RECORDS, Copy, Driver, fault, fill, happened, make_topic
from .test_read import sentence

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(380)]

# A second attempt of the last tasks begins when they take longer than the others; by then the first one is under way.
SPECULATES = {"spark.speculation": "true", "spark.speculation.interval": "100ms"}
SPECULATES |= {"spark.speculation.multiplier": "1.5", "spark.speculation.minTaskRuntime": "5s"}
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """A broker with an open port, one with TLS and SCRAM, and one that asks for a certificate."""
    config = {"auto.create.topics.enable": "false"}
    with running(tmp_path_factory.mktemp("kafka"), config=config, tls=True, sasl="scram") as cluster:
        yield cluster.st


@pytest.fixture(scope="module")
def bootstrap(kafka):
    return kafka["bootstrap"]["PLAINTEXT"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A driver with an executor on each of two hosts."""
    ensure_java()
    folder, faults = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("faults")
    home = Path(pyspark.__file__).parent
    with contextlib.ExitStack() as started:
        port = started.enter_context(free_ports())
        master = f"spark://127.0.0.1:{port}"

        def start(name, host, *arguments):
            log = started.enter_context((folder / f"{name}.log").open("w"))
            environment = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host}
            environment = {**os.environ, **environment, "PYSPARK_PYTHON": sys.executable}
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", "--host", host]
            command += ["--webui-port", "0", *arguments[1:]]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            started.callback(process.wait, 30)
            # Its executors end with it.
            started.callback(process.terminate)

        start("master", "127.0.0.1", "master.Master", "--port", str(port))
        for number in (1, 2):
            size = ["--cores", "2", "--memory", "600m", "--work-dir", str(folder / f"work{number}")]
            start(f"worker{number}", f"127.0.0.{number}", "worker.Worker", *size, master)
        end = time.monotonic() + 120
        while (folder / "master.log").read_text().count("Registering worker") < 2:
            check_time(end, (folder / "master.log").read_text())
            time.sleep(0.2)
        config = [f"{name}={value}" for name, value in {**SPECULATES, **SMALL}.items()]
        config += [f"spark.executorEnv.OTTLA_FAULTS={faults}"]
        driver = Driver(master, faults, *config, SPARK_HOME=str(home))
        yield driver
        driver.kill()


@pytest.fixture(scope="module")
def source(bootstrap):
    return fill(bootstrap)


def test_the_first_of_two_attempts_at_once_is_fenced(driver, bootstrap, source, tmp_path):
    """It tries to commit while the second one has taken over and has not committed yet."""
    query = Copy(bootstrap, source, tmp_path)
    error = query.run(
        driver,
        fault("task is overtaken"),
        fault("another attempt is about to commit", attempt=1),
    )
    assert error is None
    told = [what for what, batch, shard, _ in happened(driver) if (batch, shard) == (1, 1)]
    assert told == [
        "task is overtaken",
        "another attempt is about to commit",
        "commit refused: FencedError",
        "committed",
    ]
    assert query.counts() == {1: RECORDS}


def test_executors_are_killed(driver, bootstrap, source, tmp_path):
    query = Copy(bootstrap, source, tmp_path)
    what = "executor is killed"
    assert query.run(driver, fault(what, "before", batch=0), fault(what, "after", batch=1)) is None
    for batch in (0, 1):
        told = [(what, attempt) for what, *at, attempt in happened(driver) if at == [batch, 1]]
        # On a busy machine a second attempt may begin beside the first, and be the one that is killed.
        (killed,) = [attempt for done, attempt in told if done == what]
        (committed,) = [attempt for done, attempt in told if done == "committed"]
        assert (killed == committed) == (batch == 1)
    assert query.counts() == {1: RECORDS}


def test_brokers_with_tls_and_scram(driver, kafka, source, tmp_path):
    """With what people paste from Java's clients: a login, and the texts of certificates and keys in place of files."""
    ask = {"bootstrap": kafka["bootstrap"]["SASL_SSL"], "source": source}
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
    trust = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": Path(kafka["tls"]["ca"]).read_text(),
    }
    scram = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512", **trust}
    secured = {**scram, "kafka.sasl.jaas.config": login.format("alice-secret")}
    query = Copy(kafka["bootstrap"]["PLAINTEXT"], source, tmp_path)
    assert query.run(driver, bootstrap=ask["bootstrap"], kafka=secured) is None
    assert query.counts() == {1: RECORDS}

    # A second attempt of a task may have sent its rows again.
    query = Copy(kafka["bootstrap"]["PLAINTEXT"], source, tmp_path, options={})
    assert query.run(driver, bootstrap=ask["bootstrap"], kafka=secured) is None
    assert sum(query.counts().values()) == RECORDS

    typed = make_topic(kafka["bootstrap"]["PLAINTEXT"], "typed")
    with ottla.Producer(kafka["bootstrap"]["PLAINTEXT"]) as producer:
        producer.send_many(typed, [b'{"n": %d}' % n for n in range(100)], partitions=[0, 1] * 50).result(30)
    columns = {"value.format": "json", "value.schema": "n int"}
    sums = ["sum(value.n)", "count(value.n)", "count(distinct partition)"]
    driver.ask({**ask, "source": typed, "kafka": {**secured, **columns}, "select": sums})
    assert driver.answer() == {"error": None, "row": [sum(range(100)), 100, 2]}

    wanted = ["count(distinct cast(value as string))", "count(distinct partition)"]
    driver.ask({**ask, "kafka": secured, "select": wanted})
    assert driver.answer() == {"error": None, "row": [RECORDS, 2]}
    identity = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": Path(kafka["tls"]["cert"]).read_text(),
        "secret.kafka.ssl.keystore.key": Path(kafka["tls"]["key"]).read_text(),
    }
    driver.ask({**ask, "bootstrap": kafka["bootstrap"]["MTLS"], "kafka": {**trust, **identity}, "select": wanted})
    assert driver.answer() == {"error": None, "row": [RECORDS, 2]}

    wrong = {**scram, "kafka.sasl.jaas.config": login.format("hunter2")}
    driver.ask({**ask, "kafka": wrong, "select": wanted})
    of_batch = driver.answer()["error"]
    of_stream = Copy(kafka["bootstrap"]["PLAINTEXT"], source, tmp_path).run(driver, **{**ask, "kafka": wrong})
    for error in (of_batch, of_stream):
        told = sentence(error)
        assert told.startswith("ottla.errors.AuthenticationError: "), told
        assert "SCRAM-SHA-512" in told
        assert "alice" in told
        assert "hunter2" not in error
