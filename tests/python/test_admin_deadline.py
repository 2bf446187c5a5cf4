"""A call about several items whose deadline passes has an error for each item that is not known to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from tests.python.conftest import Api

# Both nodes coordinate some of them.
IDS = [f"tx-{number}" for number in range(16)]
# The broker responds to the other requests long before.
DEADLINE = 5.0


@pytest.mark.parametrize("applied", [True, False])
def test_only_items_without_a_response_are_failures(api: Api, *, applied: bool) -> None:
    with Broker(nodes=2) as broker, api.admin(broker.bootstrap_servers) as admin:
        api(admin.fence_producers(IDS))
        broker.ignore("InitProducerId", applied=applied, count=1000, node=1)
        with pytest.raises(errors.KafkaTimeoutError) as raised:
            api(admin.fence_producers(IDS, timeout=DEADLINE))
        failures = raised.value.failures
        assert 0 < len(failures) < len(IDS), failures
        for name, error in failures.items():
            assert name in IDS
            assert isinstance(error, errors.KafkaTimeoutError)
            assert "may have been carried out" in str(error)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("creates", [True, False], ids=["create", "delete"])
def test_what_others_did_after_a_lost_attempt_is_no_success(api: Api, *, creates: bool, applied: bool) -> None:
    """A retry that finds the topic there, or gone, does not tell whether this call or somebody else did that."""
    request, there = ("CreateTopics", not applied) if creates else ("DeleteTopics", applied)
    with Broker(topics=["t"] if there else []) as broker, api.admin(broker.bootstrap_servers) as admin:
        change = admin.create_topics if creates else admin.delete_topics
        broker.disconnect(request, applied=applied)
        done = "created" if creates else "deleted"
        kind = errors.AlreadyExistsError if creates else errors.NotFoundError
        with pytest.raises(kind, match=f"an earlier attempt of this call may have {done} it") as raised:
            api(change(["t"]))
        assert raised.value.may_be_done
        with pytest.raises(kind) as raised:
            api(change(["t"]))
        assert not raised.value.may_be_done
        assert "earlier" not in str(raised.value)
