"""`ottla.compat.confluent_kafka`: programs print the same on librdkafka and, by one line, on ottla."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.compat.confluent_kafka.property_table import UNSUPPORTED, WITHOUT_EFFECT
from ottla.testing import Broker, bearer_token
from tests.brokers.running import EMBEDDED_KEPT

pytest.importorskip("confluent_kafka")
PROGRAMS = Path(__file__).parent / "confluent_programs"
# Seconds until a program has ended: it waits up to 30 for each thing.
PATIENCE = 120


@pytest.fixture(scope="module")
def servers():
    topics = {f"{name}-{side}": 3 for name in NAMES for side in ("theirs", "ours")}
    with Broker(topics=topics, super_users=["ANONYMOUS"], config=EMBEDDED_KEPT) as broker:
        yield broker.bootstrap_servers


NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "__init__")


def run(name, servers, *, side):
    seam = ["-m", "ottla.compat"] if side == "ours" else []
    command = [sys.executable, *seam, str(PROGRAMS / f"{name}.py"), servers, f"{name}-{side}", f"group-{name}-{side}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.replace(f"{name}-{side}", "TOPIC").splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_the_same_on_ottla(name, servers):
    theirs = run(name, servers, side="theirs")
    assert theirs
    assert run(name, servers, side="ours") == theirs


def python(text, *arguments):
    command = [sys.executable, "-c", text, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_install_replaces_the_native_module_only():
    ended = python(
        "from ottla.compat.confluent_kafka import install; install(); install()\n"
        "import confluent_kafka, confluent_kafka.admin, confluent_kafka.aio, confluent_kafka.serialization\n"
        "print(confluent_kafka.cimpl.Consumer is confluent_kafka.Consumer, confluent_kafka.cimpl.__name__, confluent_kafka.__file__.count('ottla'))"
    )
    assert ended.stdout.split() == ["True", "ottla.compat.confluent_kafka.cimpl", "0"], ended.stderr


def test_install_after_the_import_says_what_to_do():
    ended = python("import confluent_kafka\nfrom ottla.compat.confluent_kafka import install\ninstall()")
    assert ended.returncode == 1
    assert "call install() first, or start the program with `python -m ottla.compat PROGRAM`" in ended.stderr


def test_the_names_are_those_of_the_native_module():
    names = "print(sorted(n for n in dir(c) if not n.startswith('__')))"
    theirs = python(f"import confluent_kafka.cimpl as c\n{names}")
    ours = python(
        f"from ottla.compat.confluent_kafka import install; install()\nimport confluent_kafka.cimpl as c\n{names}"
    )
    assert set(eval(theirs.stdout)) <= set(eval(ours.stdout)), ours.stderr


def test_ctrl_c_ends_a_poll(servers):
    text = (
        "from ottla.compat.confluent_kafka import install; install()\n"
        "import sys\n"
        "from confluent_kafka import Consumer\n"
        "consumer = Consumer({'bootstrap.servers': sys.argv[1], 'group.id': 'interrupted'})\n"
        "consumer.subscribe(['round_trip-ours'], on_assign=lambda *_: print('assigned', flush=True))\n"
        "try:\n    consumer.poll()\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        "consumer.close()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", text, servers], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "assigned\n"
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
        child.wait()
    assert said == "interrupted\n"


@pytest.mark.parametrize("kind", ["AdminClient", "Producer", "Consumer"])
def test_a_client_that_is_dropped_without_a_close_disconnects_at_once(servers, kind):
    """Not only when Python collects garbage, which is off here; what a first client opens for all of them stays open."""
    text = (
        "from ottla.compat.confluent_kafka import install; install()\n"
        "import gc, logging, os, sys, time\n"
        "from confluent_kafka import Consumer, Producer\n"
        "from confluent_kafka.admin import AdminClient\n"
        "gc.disable()\n"
        "config = {'bootstrap.servers': sys.argv[1], 'error_cb': print, 'stats_cb': str, 'statistics.interval.ms': 50}\n"
        "config |= {'logger': logging.getLogger('quiet'), 'debug': 'all', 'auto.offset.reset': 'earliest'}\n"
        "def drop():\n"
        "    client = globals()[sys.argv[2]](config | {'group.id': 'dropped'})\n"
        "    client.list_topics(timeout=30)\n"
        "    if sys.argv[2] == 'Producer':\n"
        "        client.produce('failures-ours', b'1', on_delivery=lambda error, _: print('delivered', error))\n"
        "        print('left', client.flush(30))\n"
        "    if sys.argv[2] == 'Consumer':\n"
        "        called = lambda owner, found: print(owner is not None, len(found))\n"
        "        client.subscribe(['round_trip-ours'], on_assign=called, on_revoke=called)\n"
        "        deadline = time.monotonic() + 30\n"
        "        while not client.assignment() and time.monotonic() < deadline: client.poll(0.2)\n"
        "        print('assigned', len(client.assignment()))\n"
        "def descriptors(): return len(os.listdir('/dev/fd'))\n"
        "drop()\n"
        "before = descriptors()\n"
        "for _ in range(3): drop()\n"
        "deadline = time.monotonic() + 10\n"
        "while descriptors() > before and time.monotonic() < deadline: time.sleep(0.05)\n"
        "print('more', max(0, descriptors() - before))\n"
    )
    ended = python(text, servers, kind)
    assert ended.returncode == 0, ended.stderr
    each = {"Producer": ["left 0"], "Consumer": ["True 3", "assigned 3"]}.get(kind, [])
    found = [line for line in ended.stdout.splitlines() if line != "delivered None"]
    assert found == [*each * 4, "more 0"], ended.stderr


def test_statistics_errors_and_logs_reach_their_callbacks(servers):
    ended = python(
        "from ottla.compat.confluent_kafka import install; install()\n"
        "import json, logging, sys, time\n"
        "from confluent_kafka import Consumer, KafkaError, Producer\n"
        "seen = []\n"
        "producer = Producer({'bootstrap.servers': sys.argv[1], 'statistics.interval.ms': 50, 'stats_cb': seen.append})\n"
        "producer.produce('failures-ours', 'x')\n"
        "producer.flush(20)\n"
        "deadline = time.monotonic() + 40\n"
        "seen.clear()\n"
        "while not seen and time.monotonic() < deadline: producer.poll(0.1)\n"
        "made = json.loads(seen[-1])\n"
        "print(made['type'], made['txmsgs'] > 0, made['msg_cnt'], sorted(made['topics']))\n"
        "[broker] = [each for each in made['brokers'].values() if each['nodeid'] > 0]\n"
        "print(broker['nodename'] == sys.argv[1], broker['name'] == f\"{sys.argv[1]}/{broker['nodeid']}\", broker['rtt']['avg'] > 0)\n"
        "seen.clear()\n"
        "consumer = Consumer({'bootstrap.servers': sys.argv[1], 'group.id': 'stats', 'auto.offset.reset': 'earliest',\n"
        "                     'statistics.interval.ms': 50, 'stats_cb': seen.append, 'auto.commit.interval.ms': 50})\n"
        "consumer.subscribe(['failures-ours'])\n"
        "while time.monotonic() < deadline:\n"
        "    consumer.poll(0.1)\n"
        "    read = {'cgrp': {}, 'topics': {}} if not seen else json.loads(seen[-1])\n"
        "    parts = read['topics'].get('failures-ours', {'partitions': {}})['partitions'].values()\n"
        "    moved = [(p['app_offset'], p['stored_offset'], p['committed_offset']) for p in parts if p['committed_offset'] > 0]\n"
        "    if moved: break\n"
        "print(moved[0][0] == moved[0][1] == moved[0][2] > 0, read['cgrp']['join_state'], read['cgrp']['assignment_size'])\n"
        "consumer.close()\n"
        "errors = []\n"
        "consumer = Consumer({'bootstrap.servers': '127.0.0.1:1', 'group.id': 'g', 'error_cb': errors.append})\n"
        "consumer.subscribe(['t'])\n"
        "while KafkaError._ALL_BROKERS_DOWN not in errors and time.monotonic() < deadline: consumer.poll(0.1)\n"
        "print([error.name() for error in errors[:2]])\n"
        "consumer.close()\n",
        servers,
    )
    assert ended.stdout.splitlines() == [
        "producer True 0 ['failures-ours']",
        "True True True",
        "True steady 3",
        "['_TRANSPORT', '_ALL_BROKERS_DOWN']",
    ], ended.stderr


@pytest.mark.parametrize(
    "client",
    ["Producer({**dead})", "ShareConsumer({**dead, 'group.id': 'g'})", "AdminClient({**dead})"],
)
def test_a_new_client_tells_that_it_cannot_connect(servers, client):
    """It was given nothing to send or to ask: librdkafka connects all the same."""
    ended = python(
        "from ottla.compat.confluent_kafka import install; install()\n"
        "import time\n"
        "from confluent_kafka import KafkaError, Producer, ShareConsumer\n"
        "from confluent_kafka.admin import AdminClient\n"
        "errors = []\n"
        "dead = {'bootstrap.servers': '127.0.0.1:1', 'error_cb': errors.append}\n"
        f"client = {client}\n"
        "if isinstance(client, ShareConsumer): client.subscribe(['t'])\n"
        "deadline = time.monotonic() + 20\n"
        "while not errors and time.monotonic() < deadline: client.poll(0.1)\n"
        "print(errors[0].name())\n",
        servers,
    )
    assert ended.stdout.splitlines() == ["_TRANSPORT"], ended.stderr


TOKENS_AND_LOGS = """
import logging, sys, time
from confluent_kafka import Consumer, Producer

asked, logged = set(), []

def token(configuration):
    asked.add(configuration)
    return sys.argv[2], time.time() + 3600

class Kept(logging.Handler):
    def emit(self, record):
        logged.append(record.levelname)

logger = logging.getLogger("app")
logger.addHandler(Kept())
common = {
    "bootstrap.servers": sys.argv[1], "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
    "oauth_cb": token, "sasl.oauthbearer.config": "scope=a",
}
producer = Producer(common, logger=logger)
producer.produce("t", "x", on_delivery=lambda error, message: print(error, message.offset()))
print("left", producer.flush(30))
consumer = Consumer({**common, "group.id": "g", "auto.offset.reset": "earliest"})
consumer.subscribe(["t"])
deadline, message = time.monotonic() + 30, None
while message is None and time.monotonic() < deadline:
    message = consumer.poll(1)
print(message.value(), asked)
consumer.close()
away = Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda error: None}, logger=logger)
while not logged and time.monotonic() < deadline:
    away.poll(0.1)
print(len(logged) > 0)
"""


def of_both_sides(program, tmp_path, *arguments, **options):
    """What a program prints, each time with a broker of its own."""
    (tmp_path / "program.py").write_text(program)
    for seam in ([], ["-m", "ottla.compat"]):
        with Broker(topics={"t": 1}, config=EMBEDDED_KEPT, **options) as broker:
            command = [sys.executable, *seam, str(tmp_path / "program.py"), broker.bootstrap_servers, *arguments]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert ended.returncode == 0, ended.stderr
        yield ended.stdout.splitlines()


def test_tokens_come_from_the_callback_and_lines_go_to_the_logger(tmp_path):
    listener = {"listeners": ["SASL_PLAINTEXT mechanisms=OAUTHBEARER"], "token_key": b"key"}
    for printed in of_both_sides(TOKENS_AND_LOGS, tmp_path, bearer_token("alice", key=b"key"), **listener):
        assert printed == ["None 0", "left 0", "b'x' {'scope=a'}", "True"]


PROTOCOLS = """
import sys, time
from confluent_kafka import Consumer, KafkaException, Producer

servers = {"bootstrap.servers": sys.argv[1]}
producer = Producer(servers)
producer.produce("t", "x")
print(producer.flush(30))
# Less than the default of session.timeout.ms, which the classic protocol does not accept.
short = {**servers, "group.id": "g", "auto.offset.reset": "earliest", "max.poll.interval.ms": 10_000}
try:
    Consumer(short)
except KafkaException as error:
    print(error.args[0].name())
classic = Consumer({**servers, "group.id": "g"})
print(classic.memberid())
classic.close()
consumer = Consumer({**short, "group.protocol": "consumer"})
before = consumer.memberid()
consumer.subscribe(["t"])
deadline, message = time.monotonic() + 30, None
while message is None and time.monotonic() < deadline:
    message = consumer.poll(1)
print(message.value(), len(before) > 0, before == consumer.memberid())
consumer.close()
"""


def test_a_consumer_of_the_new_protocol_chooses_its_member_id_and_has_no_session(tmp_path):
    """KIP-848 and KIP-1082."""
    for printed in of_both_sides(PROTOCOLS, tmp_path):
        assert printed == ["0", "_INVALID_ARG", "None", "b'x' True True"]


def test_unsupported_properties_raise():
    ended = python(
        "from ottla.compat.confluent_kafka import install; install()\n"
        "from confluent_kafka import KafkaException, Producer\n"
        "from ottla.compat.confluent_kafka.property_table import UNSUPPORTED\n"
        "for row in UNSUPPORTED:\n"
        "    try:\n        Producer({row.name: '1'})\n"
        "    except KafkaException as error:\n        assert error.args[0].name() == '_INVALID_ARG', error\n"
        "    else:\n        raise SystemExit(row.name)\n"
        "print('done')\n"
    )
    assert ended.stdout.split() == ["done"], ended.stderr


def test_invalid_values_have_the_texts_that_programs_see():
    text = (
        "from confluent_kafka import KafkaException, Producer\n"
        "for name in ('partitioner', 'compression.codec'):\n"
        "    try:\n        Producer({name: 'murmur'})\n"
        "    except KafkaException as error:\n        print(error)\n"
    )
    ours = python("from ottla.compat.confluent_kafka import install; install()\n" + text)
    assert ours.stdout.count("murmur") == 2, ours.stderr
    assert ours.stdout == python(text).stdout


ALTERING = (
    "from ottla.compat.confluent_kafka import install; install()\n"
    "import sys, warnings\n"
    "from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic\n"
    "warnings.simplefilter('ignore')\n"
    "admin = AdminClient({'bootstrap.servers': sys.argv[1]})\n"
    "config = {'retention.ms': '1000', 'cleanup.policy': 'compact'}\n"
    "print(admin.create_topics([NewTopic('replaced', 1, 1, config=config)])['replaced'].result(20))\n"
    "known = ConfigResource('topic', 'replaced', set_config={'retention.ms': '2000'})\n"
    "other = ConfigResource('topic', 'no-such', set_config={'retention.ms': '2000'})\n"
    "def alter(**options):\n"
    "    for future in admin.alter_configs([known, other], **options).values():\n"
    "        print(future.exception(20) and future.exception(20).args[0].name())\n"
    "    found = admin.describe_configs([known])[known].result(20)\n"
    "    print(found['retention.ms'].value, found['cleanup.policy'].value)\n"
    "alter(validate_only=True)\n"
    "alter()\n"
)


@pytest.mark.parametrize("release", [None, "1.1"])
def test_alter_configs_replaces_what_was_set(release):
    """Brokers before Kafka 2.3 know AlterConfigs only."""
    with Broker(as_version=release) as broker:
        ended = python(ALTERING, broker.bootstrap_servers)
    lines = ["None", "None", "UNKNOWN_TOPIC_OR_PART", "1000 compact", "None", "UNKNOWN_TOPIC_OR_PART", "2000 delete"]
    assert ended.stdout.splitlines() == lines, ended.stderr


def test_alter_configs_refuses_the_name_of_a_broker(servers):
    ended = python(
        "from ottla.compat.confluent_kafka import install; install()\n"
        "import sys, warnings\n"
        "from confluent_kafka.admin import AdminClient, ConfigResource\n"
        "warnings.simplefilter('ignore')\n"
        "admin = AdminClient({'bootstrap.servers': sys.argv[1]})\n"
        "wrong = ConfigResource('broker', 'first', set_config={'log.retention.ms': '2000'})\n"
        "print(admin.alter_configs([wrong])[wrong].exception(20).args[0].name())\n",
        servers,
    )
    assert ended.stdout.split() == ["_INVALID_ARG"], ended.stderr


DOCS = Path(__file__).parents[2] / "docs" / "start" / "confluent-kafka-programs.md"


def named(text):
    return set(re.findall(r"`([^`]+)`", text))


def test_the_docs_name_what_raises_and_what_has_no_effect():
    text = DOCS.read_text()
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", text, re.MULTILINE)
    assert rows == [(row.name, row.instead) for row in UNSUPPORTED]
    assert named(text.partition("<!-- without effect -->")[2].partition("<!-- end -->")[0]) == WITHOUT_EFFECT
