"""A short run of `steady`: a stream of a steady load while nodes are hurt. `make faults` has the long one."""

import pytest
from tests.integration.fault_runs import FAULTS, three_nodes

from .steady import steady

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(300)]

# How many times what they held the workers may come to hold. Python and what it imports is nearly all of it in so short a run:
# this finds workers that do not end, and rows by the hundred thousand.
BOUND = 2.0


def test_no_row_is_lost_or_doubled_while_nodes_die(spark, tmp_path):
    with three_nodes(tmp_path / "kafka", "4.4.0") as cluster:
        _, growth = steady(spark, cluster, tmp_path, 20, list(FAULTS))
    assert growth < BOUND
