"""The suites whose tests are in a source distribution on PyPI pass on ottla, but for what their lists allow.

`python -m tests.judges all --trees FOLDER` runs the others, too, in checkouts of their repositories.
"""

from __future__ import annotations

import pytest

from tests.judges.suite import ALL_TESTS, HEADER, run
from tests.judges.suites import SUITES

pytestmark = [pytest.mark.real, pytest.mark.timeout(ALL_TESTS)]


@pytest.mark.parametrize("name", sorted(name for name, suite in SUITES.items() if not suite.repository))
def test_the_suite_passes_on_ottla(name):
    verdict = run(name)
    print(HEADER, verdict.row, sep="\n")
    assert not verdict.problems, verdict.row
