"""The plugin of dbt-duckdb, in a project that dbt runs."""

from __future__ import annotations

import pytest

import ottla
from tests.libraries.environments import report
from tests.libraries.topics import HUNDRED, fill

pytestmark = pytest.mark.real


def test_topics_are_sources_and_targets(address, numbers, tmp_path):
    names = [f"{numbers}-{kind}" for kind in ("plain", "transactional", "sums")]
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=2) for name in names])
    for name in names[:2]:
        fill(address, name, transactional="transactional" in name)
    found = report("dbt", "project_for_dbt.py", address, numbers, *names, tmp_path)
    assert found["by_partition"] == [[0, 5, 4], [1, 5, 4]]
    assert found["late"] == ["5", "6", "7", "8", "9"]
    assert found["hundreds"] == sorted([value.decode() for value in HUNDRED] * 2)
    assert sorted((r.key, r.value) for r in ottla.read(address, names[2])) == [(b"0", b"5"), (b"1", b"5")]
