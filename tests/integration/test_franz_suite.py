"""franz-go's own client suite on the embedded broker: what does not pass, or not always, is what `tests/README.md` lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration import franz_suite

if TYPE_CHECKING:
    from tests.integration.franz_suite import Suite

# `make franz` has 500,000.
RECORDS = 20_000
DEADLINE = 240

pytestmark = [pytest.mark.needs("go"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return franz_suite.build(tmp_path_factory.mktemp("franz-suite"))


def test_the_table_is_about_this_suite(suite: Suite) -> None:
    assert franz_suite.expected_size() == (franz_suite.version(), len(suite.names()))


# `make franz` runs it on one node, too.
@pytest.mark.parametrize("nodes", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_table_lists_all_that_does_not_pass(suite: Suite, nodes: int) -> None:
    with franz_suite.embedded(nodes) as broker:
        settings = franz_suite.settings(broker, nodes, RECORDS)
        outcomes = franz_suite.run(suite, suite.names(), settings, DEADLINE)
    found = franz_suite.flat(outcomes)
    failed = [outcomes[name].said for name in outcomes if outcomes[name].how == franz_suite.FAILED]
    assert not franz_suite.differences(found, franz_suite.expected()), "\n".join(failed)[-20_000:]
