"""A call about several items whose deadline passes has an error for each item that is not known to be done."""

from __future__ import annotations

import asyncio

import pytest

import ottla
from ottla import aio, errors
from ottla.testing import Broker

# Both nodes coordinate some of them.
IDS = [f"tx-{number}" for number in range(16)]
# The broker responds to the other requests long before.
DEADLINE = 5.0


@pytest.mark.parametrize("facade", ["sync", "aio"])
@pytest.mark.parametrize("applied", [True, False])
def test_only_items_without_a_response_are_failures(facade: str, *, applied: bool) -> None:
    with Broker(nodes=2) as broker:

        def sync_run() -> None:
            with ottla.Admin(broker.bootstrap_servers) as admin:
                admin.fence_producers(IDS)
                broker.ignore("InitProducerId", applied=applied, count=1000, node=1)
                admin.fence_producers(IDS, timeout=DEADLINE)

        async def async_run() -> None:
            async with aio.Admin(broker.bootstrap_servers) as admin:
                await admin.fence_producers(IDS)
                broker.ignore("InitProducerId", applied=applied, count=1000, node=1)
                await admin.fence_producers(IDS, timeout=DEADLINE)

        with pytest.raises(errors.KafkaTimeoutError) as raised:
            sync_run() if facade == "sync" else asyncio.run(async_run())
        failures = raised.value.failures
        assert 0 < len(failures) < len(IDS), failures
        for name, error in failures.items():
            assert name in IDS
            assert isinstance(error, errors.KafkaTimeoutError)
            assert "may have been carried out" in str(error)


@pytest.mark.parametrize("facade", ["sync", "aio"])
@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("creates", [True, False], ids=["create", "delete"])
def test_what_others_did_after_a_lost_attempt_is_no_success(facade: str, *, creates: bool, applied: bool) -> None:
    """A retry that finds the topic there, or gone, does not tell whether this call or somebody else did that."""
    api, there = ("CreateTopics", not applied) if creates else ("DeleteTopics", applied)
    with Broker(topics=["t"] if there else []) as broker:

        async def async_run() -> None:
            async with aio.Admin(broker.bootstrap_servers) as admin:
                await (admin.create_topics(["t"]) if creates else admin.delete_topics(["t"]))

        def sync_run() -> None:
            with ottla.Admin(broker.bootstrap_servers) as admin:
                _ = admin.create_topics(["t"]) if creates else admin.delete_topics(["t"])

        broker.disconnect(api, applied=applied)
        done = "created" if creates else "deleted"
        kind = errors.AlreadyExistsError if creates else errors.NotFoundError
        with pytest.raises(kind, match=f"an earlier attempt of this call may have {done} it") as raised:
            sync_run() if facade == "sync" else asyncio.run(async_run())
        assert raised.value.may_be_done
        with pytest.raises(kind) as raised:
            sync_run() if facade == "sync" else asyncio.run(async_run())
        assert not raised.value.may_be_done
        assert "earlier" not in str(raised.value)
