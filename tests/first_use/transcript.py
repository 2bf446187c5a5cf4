"""Print what a new user types and what ottla answers, with how long each answer took.

    .venv/bin/python tests/first_use/transcript.py          # every point
    .venv/bin/python tests/first_use/transcript.py U1 U4    # these points

It runs unchanged against any version of ottla: what a version lacks is answered by an exception, which is printed like
any other answer. Compare the transcripts of two versions to see what first use became.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import logging
import os
import shlex
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import ottla
from ottla.testing import Broker

# Seconds after which a command line is ended, so that one without an answer does not stop the others.
PATIENCE = 15


class Session:
    """A prompt: Python and shell lines, each printed with its answer and its time."""

    def __init__(self, broker: Broker) -> None:
        self.names = {"ottla": ottla, "broker": broker, "b": broker.bootstrap_servers, "nobody": closed_port()}

    def python(self, line: str) -> None:
        print(f">>> {line}")
        begin = time.monotonic()
        try:
            try:
                code = compile(line, "typed", "eval")
            except SyntaxError:
                exec(compile(line, "typed", "exec"), self.names)
            else:
                answer = eval(code, self.names)
                if answer is not None:
                    print(shortened(repr(answer)))
        except BaseException as error:
            print(shortened(f"{type(error).__module__}.{type(error).__name__}: {error}"))
        print(f"    [{time.monotonic() - begin:.2f} s]")

    def shell(self, line: str, data: str | None = None) -> None:
        shown = line.replace("$B", self.names["b"])
        print(f"$ {f'printf {data!r} | ' if data is not None else ''}{shown}")
        command = shlex.split(shown)
        if command[0] == "ottla":
            command[:1] = [sys.executable, "-m", "ottla"]
        begin = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            answer, _ = process.communicate(data, timeout=PATIENCE)
            end = f"status {process.returncode}"
        except subprocess.TimeoutExpired:
            process.terminate()
            answer, _ = process.communicate()
            end = "no end, so it was terminated"
        print(shortened(answer.rstrip("\n"), 1500) + f"\n    [{time.monotonic() - begin:.2f} s, {end}]")


def shortened(text: str, most: int = 600) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} [...] {text[-most // 2 :]}"


def closed_port() -> str:
    """An address that refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def u1(at: Session) -> None:
    """Reading creates no topic."""
    at.shell("ottla consume -b $B -t typo --beginning --idle 2")
    at.shell("ottla topics list -b $B")
    at.python("c = ottla.Consumer(b, topics='typo-in-python', auto_offset_reset='earliest')")
    at.python("c.poll(2)")
    at.python("c.close()")
    at.python("a = ottla.Admin(b)")
    at.python("a.create_topics([ottla.NewTopic('deleted', 3)])")
    at.python("c = ottla.Consumer(b)")
    at.python("c.assign([('deleted', 0)])")
    at.python("c.poll(1)")
    at.python("a.delete_topics('deleted')")
    at.python("c.poll(2)")
    at.python("c.close()")
    at.python("a.list_topics()")
    at.python("len(a.describe_topics('deleted')['deleted'].partitions)")


def u2(at: Session) -> None:
    """The client can be watched."""
    at.python("import logging, sys, time")
    at.python(
        "logging.basicConfig(stream=sys.stdout, level=logging.INFO, format='%(name)s %(levelname)s %(message)s', force=True)"
    )
    at.python("ottla.Admin(nobody).list_topics(timeout=2)")
    at.python(
        "ottla.Admin(b).create_topics([ottla.NewTopic('short', config={'retention.bytes': '1', 'segment.bytes': '200'})])"
    )
    at.python("p = ottla.Producer(b)")
    at.python("for n in range(8): p.send('short', b'%d' % n * 100).result(5)")
    at.python("c = ottla.Consumer(b, auto_offset_reset='latest')")
    at.python("c.assign([ottla.TopicPartition('short', 0, 0)])")
    at.python("len(c.poll(2)), c.position(('short', 0)), c.beginning_offsets([('short', 0)])")
    at.python("time.sleep(0.5)")
    at.python("c.close(); p.close()")
    logging.getLogger().handlers.clear()
    at.shell(f"ottla topics list -b {at.names['nobody']} --config default.api.timeout.ms=2000")


def u3(at: Session) -> None:
    """What is known to be absent is said at once."""
    at.python("from ottla.testing import Broker")
    at.python("broker = Broker(topics=['there'], config={'auto.create.topics.enable': False}).start()")
    at.python("b = broker.bootstrap_servers")
    at.python("p = ottla.Producer(b)")
    at.python("p.partitions_for('absent')")
    at.python("p.send('absent', b'v').result()")
    at.python("ottla.Admin(b).describe_topics('absent')")
    at.python("c = ottla.Consumer(b)")
    at.python("c.assign([('there', 0)])")
    at.python("c.end_offsets([('absent', 0)])")
    at.python("c.end_offsets([('absent', 0)])")
    at.python("ottla.Consumer(b, topics='absent').poll(5)")
    at.python("ottla.Consumer(nobody, topics='there').partitions_for('there')")
    at.shell(f"ottla topics list -b {at.names['nobody']}")
    if not os.environ.get("OTTLA_NO_SPARK"):
        at.python("import os, sys; os.environ['PYSPARK_PYTHON'] = sys.executable")
        at.python("from ottla.spark import ensure_java; _ = ensure_java()")
        at.python("from pyspark.sql import SparkSession")
        at.python("spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', False).getOrCreate()")
        at.python("frame = spark.read.format('ottla').option('kafka.bootstrap.servers', b)")
        at.python("frame.option('subscribe', 'absent').load().count()")
        at.python("spark.stop()")


def u4(at: Session) -> None:
    """The command line understands or refuses what people type."""
    at.shell("ottla topics create -b $B a b tabs")
    at.shell("ottla produce -b $B -t a", "in a\n")
    at.shell("ottla produce -b $B -t b", "in b\n")
    at.shell("ottla consume -b $B -t a -t b --beginning --idle 1")
    at.shell("ottla consume -b $B -t a,b --beginning --idle 1")
    at.shell("ottla produce -b $B -t tabs --key-separator ''", "k=v\n")
    at.shell("ottla produce -b $B -t tabs --key-separator '\\t'", "k\tv\n")
    at.shell("ottla consume -b $B -t tabs --beginning --idle 1 --format json")
    at.shell("ottla -b $B topics")
    at.shell("ottla -b $B topics list")
    at.shell("ottla broker --port 70000")
    at.shell("ottla broker --host 203.0.113.9 --port 0")
    at.shell("ottla config broker")
    at.shell("ottla broker --config num.partition=3")


def u5(at: Session) -> None:
    """ottla can be installed."""
    at.shell("make")
    at.shell("make -n wheel")
    at.shell("grep -n -i install README.md")
    at.python("from pathlib import Path")
    at.python("[(p.name, p.stat().st_size) for p in Path(ottla.__file__).parent.glob('_ottla*.so')]")


def u6(at: Session) -> None:
    """Editors show what a name is: docstrings in the files that they read."""
    files = list(Path(ottla.__file__).parent.rglob("*.py*"))
    wanted = ["Producer", "Producer.send", "Consumer", "Consumer.poll", "Batch.to_arrow", "Delivery.result"]
    for name in wanted:
        print(f"hover {name}")
        for file in files:
            node = definition(file, name) if file.suffix in {".py", ".pyi"} else None
            if node is not None:
                doc = (ast.get_docstring(node) or "(no docstring)").splitlines()[0]
                answer = ast.unparse(node.returns) if isinstance(node, ast.FunctionDef) and node.returns else ""
                print(f"    {file.name}: {doc}{f'  -> {answer}' if answer else ''}")
    at.python("help(ottla.Consumer.poll)")
    print(shortened(inspect.getdoc(ottla.Producer.send) or "(none)", 300))


def definition(file: Path, name: str) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None:
    scope: ast.AST = ast.parse(file.read_text())
    for part in name.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        scope = next((n for n in ast.iter_child_nodes(scope) if isinstance(n, kinds) and n.name == part), None)
        if scope is None:
            return None
    return scope


def u7(at: Session) -> None:
    """What people type from other clients is understood, or answered with the line to write."""
    at.python("ottla.Producer({'bootstrap.servers': b})")
    at.python("ottla.Consumer({'bootstrap.servers': b, 'group.id': 'g'})")
    at.python("ottla.Producer(b, key_serializer=str.encode)")
    at.python("ottla.Producer(b, value_serializer=lambda v: v)")
    at.python("ottla.Producer(b, sasl_username='me')")
    at.python("ottla.Producer(b, config={'sasl.username': 'me'})")
    at.python("ottla.Consumer(b, group_id='g')")
    at.python("p = ottla.Producer(b)")
    at.python("p.send('a', b'x', b'k')")
    at.python("p.produce('a', b'x')")
    at.python("import datetime")
    at.python("p.send('times', b'x', timestamp=datetime.datetime(2024, 1, 1)).result(5)")
    at.python("p.send('times', b'x', timestamp=datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)).result(5)")
    at.python("p.send('times', b'x', timestamp=-5).result(5)")
    at.python("p.close()")
    at.python("ottla.TopicPartition('ev', '0')")
    at.python("sorted([ottla.TopicPartition('ev', 1), ottla.TopicPartition('ev', 0)])")
    at.python("topic, partition = ottla.TopicPartition('ev', 0)")
    at.python("broker.fail('Produce', 'TOPIC_AUTHORIZATION_FAILED')")
    at.python("with ottla.Producer(b) as p: p.send('times', b'x').result(5)")
    at.python("broker.clear_faults()")


def u8(at: Session) -> None:
    """A closed client behaves in one way; reprs say what failed."""
    at.python("p = ottla.Producer(b); p.send('closed', b'x').result(5); p.close()")
    for call in (
        "send('closed', b'x')",
        "send_many('closed', [b'x'])",
        "flush()",
        "partitions_for('closed')",
        "close()",
    ):
        at.python(f"p.{call}")
    at.python("with p: pass")
    at.python("c = ottla.Consumer(b); c.assign([('closed', 0)]); c.close()")
    for call in (
        "poll(1)",
        "seek(('closed', 0), 0)",
        "pause([('closed', 0)])",
        "assignment()",
        "assign([('closed', 0)])",
        "lag()",
    ):
        at.python(f"c.{call}")
    at.python("next(iter(c))")
    at.python("with c: pass")
    at.python("a = ottla.Admin(b); a.close()")
    at.python("a.list_topics()")
    at.python("with a: pass")
    at.python("p = ottla.Producer(b, delivery_timeout_ms=1000, request_timeout_ms=500, linger_ms=0)")
    at.python("broker.fail('Produce', 'TOPIC_AUTHORIZATION_FAILED', count=100)")
    at.python("many = p.send_many('closed', [b'x'] * 1000); p.flush(5)")
    at.python("many")
    at.python("one = p.send('closed', b'x'); p.flush(5)")
    at.python("one")
    at.python("broker.clear_faults(); p.close()")


def main() -> None:
    points = {function.__name__.upper(): function for function in (u1, u2, u3, u4, u5, u6, u7, u8)}
    print(f"ottla {ottla.__version__}, Python {sys.version.split()[0]}")
    sys.stdout.reconfigure(line_buffering=True)
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or points:
        print(f"\n==== {name}: {points[name].__doc__}")
        with Broker() as broker, contextlib.redirect_stderr(sys.stdout):
            points[name](Session(broker))


if __name__ == "__main__":
    main()
