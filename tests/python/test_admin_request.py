"""`Admin.request`: any request of the protocol, at a version that has its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def admin() -> Iterator[ottla.Admin]:
    with Broker(nodes=3, topics={"t": 1}) as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        yield admin


def test_the_newest_version_is_sent_that_has_all_fields(admin: ottla.Admin) -> None:
    """FindCoordinator has `key` up to version 3, and `coordinatorKeys` from version 4 on."""
    groups = [f"group-{number}" for number in range(20)]
    found = admin.request("FindCoordinator", {"coordinatorKeys": groups, "keyType": 0})["coordinators"]
    wanted = {each["key"]: each["nodeId"] for each in found}
    assert len(set(wanted.values())) > 1
    assert {group: admin.request("FindCoordinator", {"key": group})["nodeId"] for group in groups} == wanted


def test_fields_of_different_versions_are_refused(admin: ottla.Admin) -> None:
    with pytest.raises(errors.ArgumentError, match="the message is no FindCoordinator request"):
        admin.request("FindCoordinator", {"key": "g", "coordinatorKeys": ["g"]})
    with pytest.raises(errors.ArgumentError, match="the message is no FindCoordinator request"):
        admin.request("FindCoordinator", {"key": "g"}, version=6)


def test_a_member_that_an_old_version_names_leaves(admin: ottla.Admin) -> None:
    """LeaveGroup has `memberId` up to version 2."""
    left = admin.request("LeaveGroup", {"groupId": "nobodys", "memberId": "m"}, version=1)
    assert left["errorCode"] != 0
