"""Admin calls by both facades: what is retried, what a lost response means, and what a call about many items raises."""

from __future__ import annotations

import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.python.conftest import Api

PLACE = ottla.TopicPartition("t", 0)

# A call, its API, and the error after which it is made again.
RETRIED: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "create_partitions": ("CreatePartitions", "NOT_CONTROLLER", lambda admin: admin.create_partitions({"t": 5})),
    "delete_records": ("DeleteRecords", "NOT_LEADER_OR_FOLLOWER", lambda admin: admin.delete_records({PLACE: 0})),
    "list_offsets": ("ListOffsets", "NOT_LEADER_OR_FOLLOWER", lambda admin: admin.list_offsets({PLACE: "latest"})),
    "list_group_offsets": ("OffsetFetch", "NOT_COORDINATOR", lambda admin: admin.list_group_offsets("g")),
    "alter_group_offsets": (
        "OffsetCommit",
        "NOT_COORDINATOR",
        lambda admin: admin.alter_group_offsets("g", {PLACE: 0}),
    ),
    "delete_group_offsets": ("OffsetDelete", "NOT_COORDINATOR", lambda admin: admin.delete_group_offsets("g", [PLACE])),
    "delete_groups": ("DeleteGroups", "COORDINATOR_LOAD_IN_PROGRESS", lambda admin: admin.delete_groups("g")),
    "alter_quotas": (
        "AlterClientQuotas",
        "NOT_CONTROLLER",
        lambda admin: admin.alter_client_quotas([({"user": "a"}, {"producer_byte_rate": 1.0})]),
    ),
    "elect_leaders": ("ElectLeaders", "NOT_CONTROLLER", lambda admin: admin.elect_leaders()),
    "update_features": ("UpdateFeatures", "NOT_CONTROLLER", lambda admin: admin.update_features({"share.version": 2})),
}


@pytest.mark.parametrize("name", RETRIED)
def test_a_call_is_made_again_where_another_broker_answers(api: Api, name: str) -> None:
    request, code, call = RETRIED[name]
    with Broker(topics=["t"]) as broker, api.admin(broker.bootstrap_servers, retry_backoff_ms=1) as admin:
        api(admin.alter_group_offsets("g", {PLACE: 0}))
        broker.fail(request, code, count=2)
        api(call(admin))


def test_a_topic_that_no_broker_knows_is_not_looked_for_until_the_deadline(api: Api) -> None:
    with (
        Broker() as broker,
        api.admin(broker.bootstrap_servers, retry_backoff_ms=1) as admin,
        pytest.raises(errors.NotFoundError),
    ):
        api(admin.describe_configs(("TOPIC", "missing"), timeout=10))


@pytest.mark.parametrize("name", ["create_partitions", "alter_group_offsets", "delete_groups", "alter_quotas"])
def test_a_lost_response_of_a_change_is_one_that_may_be_done(api: Api, name: str) -> None:
    request, _, call = RETRIED[name]
    with Broker(topics=["t"]) as broker, api.admin(broker.bootstrap_servers, default_api_timeout_ms=1500) as admin:
        api(admin.alter_group_offsets("g", {PLACE: 0}))
        broker.ignore(request, count=1000)
        with pytest.raises(errors.KafkaTimeoutError) as caught:
            api(call(admin))
        assert caught.value.may_be_done


def test_a_question_without_a_response_changed_nothing(api: Api) -> None:
    with Broker(topics=["t"]) as broker, api.admin(broker.bootstrap_servers, default_api_timeout_ms=1000) as admin:
        broker.hang("ListOffsets", count=1000)
        with pytest.raises(errors.KafkaTimeoutError) as caught:
            api(admin.list_offsets({PLACE: "latest"}))
        assert not caught.value.may_be_done


def test_an_error_has_the_failures_and_the_results(api: Api) -> None:
    missing = ottla.TopicPartition("t", 7)
    with Broker(topics=["t"]) as broker, api.admin(broker.bootstrap_servers) as admin:
        with pytest.raises(errors.ArgumentError) as caught:
            api(admin.list_offsets({PLACE: "latest", missing: "latest"}))
        assert caught.value.results == {PLACE: ottla.ListedOffset(0, None, 0)}
        assert list(caught.value.failures) == [missing]
        copy = pickle.loads(pickle.dumps(caught.value))
        assert copy.results == caught.value.results
        resource, other = ottla.ConfigResource("TOPIC", "t"), ottla.ConfigResource("TOPIC", "missing")
        with pytest.raises(errors.NotFoundError) as caught:
            api(admin.describe_configs([other, resource], names=["retention.ms"]))
        assert list(caught.value.failures) == [other]
        assert [row.name for row in caught.value.results[resource]] == ["retention.ms"]


def test_arguments_that_cannot_be(api: Api) -> None:
    with Broker(topics=["t"]) as broker, api.admin(broker.bootstrap_servers) as admin:
        for call, kind, text in (
            (lambda: admin.list_offsets({PLACE: "last"}), errors.ArgumentError, "an offset is one of latest, earliest"),
            (lambda: admin.list_offsets({PLACE: -1}), errors.ArgumentError, "a time is not negative: -1"),
            (
                lambda: admin.describe_configs(("TABLE", "t")),
                ValueError,
                "'TABLE' is not|\"TABLE\" is not a type of resource",
            ),
            (lambda: admin.elect_leaders("ANY"), ValueError, "is not a type of election"),
            (lambda: admin.reset_group_offsets("g"), errors.ArgumentError, "say where to"),
            (lambda: admin.delete_records({("t",): 1}), TypeError, ""),
            (lambda: admin.describe_log_dirs([77]), errors.ArgumentError, "there is no broker 77"),
        ):
            with pytest.raises(kind, match=text or None):
                api(call())


def test_rows_are_a_table_in_arrow_and_in_notebooks(api: Api) -> None:
    with Broker(topics=["t"]) as broker, api.admin(broker.bootstrap_servers) as admin:
        api(admin.alter_group_offsets("g", {PLACE: 0}))
        rows = api(admin.lag("g"))
        assert rows.to_arrow().to_pylist() == [
            {
                "group": "g",
                "topic": "t",
                "partition": 0,
                "committed": 0,
                "start_offset": 0,
                "end_offset": 0,
                "lag": 0,
                "member_id": None,
                "client_id": None,
                "client_host": None,
            }
        ]
        assert re.search("<caption>1 row</caption>.*<th>lag</th>.*<td>t</td>", rows._repr_html_())
        assert api(admin.list_groups()).to_arrow().column_names == ["group_id", "protocol_type", "state", "type"]
        assert pickle.loads(pickle.dumps(rows)) == rows


def test_several_nodes_each_answer_for_themselves(api: Api) -> None:
    with Broker(nodes=3, topics=["t"]) as broker, api.admin(broker.bootstrap_servers) as admin:
        assert sorted(api(admin.describe_log_dirs())) == broker.nodes
        assert sorted(api(admin.describe_log_dirs([2]))) == [2]
        groups = [f"g{number}" for number in range(12)]
        for group in groups:
            api(admin.alter_group_offsets(group, {PLACE: 0}))
        assert [row.group_id for row in api(admin.list_groups())] == sorted(groups)
        described = api(admin.describe_groups(groups))
        assert {group.coordinator for group in described.values()} == set(broker.nodes)
        with pytest.raises(errors.NotFoundError) as caught:
            api(admin.delete_groups([*groups, "missing"]))
        assert list(caught.value.failures) == ["missing"]
        assert caught.value.results.keys() == set(groups)
