"""The hand-written stubs say what the compiled module has, and the typed properties what the table has."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = "tests/typing/allowlist.txt"

# Seconds that a command may take. Each takes 10 to 30 s of processor time, and a busy machine may give it a tenth.
DEADLINE = 450
# More than the commands of a test may take together, so that a late one is named.
pytestmark = pytest.mark.timeout(950)


def test_stubs_match_the_compiled_module():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy.stubtest",
            "ottla",
            "--mypy-config-file",
            "pyproject.toml",
            "--allowlist",
            ALLOWED,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_typed_properties_match_the_table():
    text = runpy.run_path(str(ROOT / "scripts" / "properties.py"))["text"]()
    assert (ROOT / "python" / "ottla" / "_properties.py").read_text() == text, "run scripts/properties.py"


def test_docstrings_of_stubs_are_those_of_the_compiled_module():
    text = runpy.run_path(str(ROOT / "scripts" / "stubs.py"))["text"]()
    assert (ROOT / "python" / "ottla" / "_ottla.pyi").read_text() == text, "run scripts/stubs.py"


@pytest.mark.needs("pyright")
def test_users_code_is_typed_for_editors(tmp_path):
    """Pyright in strict mode, whose engine is that of many editors, knows the type of everything that users touch."""
    settings = {
        "include": ["users.py"],
        "extraPaths": [str(ROOT / "python")],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    shutil.copy(ROOT / "tests" / "typing" / "users.py", tmp_path)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", project]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stdout
    assert report["generalDiagnostics"] == []


def test_users_code_is_typed(tmp_path):
    """Right calls pass strict mypy, wrong ones do not."""
    good = tmp_path / "good.py"
    good.write_text(
        "import ottla\n"
        "from ottla import aio\n"
        "def f(producer: ottla.Producer, consumer: ottla.Consumer) -> None:\n"
        "    offset: int = producer.send('t', b'v', headers={'a': None}).result().offset\n"
        "    producer.send_many('t', ['a', b'b', None], keys=[None] * 3).result(timeout=5)[1].tolist()\n"
        "    for record in consumer:\n"
        "        value: bytes | None = record.value\n"
        "    consumer.assign([ottla.TopicPartition('t', 0), ('t', 1)])\n"
        "ottla.Producer('a:1', linger_ms=5, acks='all', compression_type='zstd')\n"
        "async def g(consumer: aio.Consumer, producer: aio.Producer) -> int:\n"
        "    async for batch in consumer.batches():\n"
        "        len(batch)\n"
        "    return (await (await producer.send('t', b'v'))).offset\n"
    )
    bad = tmp_path / "bad.py"
    wrong = [
        "ottla.Producer('a:1', lingerms=5)",
        "ottla.Producer('a:1', acks='some')",
        "ottla.Producer('a:1', linger_ms='x')",
        "ottla.Consumer('a:1', linger_ms=5)",
        "ottla.Producer('a:1').send('t', 5)",
        "ottla.Producer('a:1').send(b't')",
        "ottla.Consumer('a:1').poll('1')",
    ]
    bad.write_text("import ottla\n" + "\n".join(wrong) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file="]
    done = subprocess.run([*command, good], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*command, bad], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
    for line in range(2, 2 + len(wrong)):
        assert f"bad.py:{line}: error" in done.stdout, done.stdout
