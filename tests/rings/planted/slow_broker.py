"""A foreign program that is not ready the first time, and a test that never passes."""

import os
from pathlib import Path

import pytest
from tests.waiting import NotInTimeError


@pytest.mark.real
def test_passes_the_second_time():
    tries = Path(os.environ["OTTLA_TRIES"])
    tries.write_text(tries.read_text() + "x")
    if len(tries.read_text()) < 2:
        raise NotInTimeError("not within 1 s: the broker is up")
