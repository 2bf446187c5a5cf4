"""Ctrl-C ends every call that waits: within 0.3 s of the signal, as KeyboardInterrupt, and the client can be used afterwards.

A machine that is busy lets any thread wait for its turn. So each call has some tries, of which the best counts, and may take
0.3 s longer than `threading.Event.wait`, which is interrupted in the same process at the same time.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ottla
from tests.pace import patience
from tests.python.interrupts import LIMIT, SCENES, TRIES, names

ROOT = Path(__file__).resolve().parent.parent.parent
# What has a timeout and nothing to wait for: an administrator's client leaves no group, and keeps no records.
NEVER_WAITS = {"Admin.close"}


def measured(scene: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.python.interrupts", scene]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience(100), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", SCENES)
def test_ctrl_c_ends_every_wait(scene: str) -> None:
    late = []
    for line in measured(scene):
        if "failed" in line:
            late.append(f"{line['call']}: {line['failed']}")
            continue
        said = f"{line['call']}: {line['took'] * 1000:.0f} ms, and {line['control'] * 1000:.0f} ms for a wait of Python's own"
        print(f"{said}, {line['tries']} of {TRIES} tries, the worst {line['worst'] * 1000:.0f} ms")
        if line["took"] > LIMIT + line["control"]:
            late.append(said)
    assert not late, "\n".join(late)


def test_no_call_that_takes_a_timeout_is_left_out() -> None:
    takes_one = set()
    for kind in (ottla.Consumer, ottla.Producer, ottla.ShareConsumer, ottla.Admin, ottla.Delivery, ottla.Deliveries):
        for name, method in inspect.getmembers(kind, callable):
            if not name.startswith("_") and "timeout" in inspect.signature(method).parameters:
                takes_one.add(f"{kind.__name__}.{name}")
    assert {"Consumer.poll", "Consumer.commit", "Producer.flush", "Delivery.result"} <= takes_one
    assert takes_one - NEVER_WAITS <= names()
