"""Scenes: each calls an admin client as an operator would, and returns what a reader can compare as plain values.

Names are those of the scene alone, so that a broker may be shared. Ids, times and texts of brokers are left out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import ottla
from ottla.errors import KafkaError

SCENES: dict[str, Callable[[ottla.Admin, str], Any]] = {}
DEADLINE = 60


def scene(of: Callable[[ottla.Admin, str], Any]) -> Callable[[ottla.Admin, str], Any]:
    """Note a scene by the name of its function."""
    SCENES[of.__name__] = of
    return of


def new(what: str) -> str:
    """A name that nobody else has."""
    return f"{what}-{uuid.uuid4().hex[:10]}"


def refusal(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Kafka's name of the error that a call raises, with those of its items in their order."""
    try:
        call(*args, **options)
    except KafkaError as error:
        name = error.name or type(error).__name__
        return [name, *[each.name or type(each).__name__ for each in error.failures.values()], len(error.results)]
    return "done"


def topic_of(admin: ottla.Admin, partitions: int = 1, **config: str) -> str:
    """A topic that all brokers know."""
    topic = new("topic")
    admin.create_topics([ottla.NewTopic(topic, partitions, 1, config=config)])
    end = time.monotonic() + DEADLINE
    while topic not in admin.list_topics():
        assert time.monotonic() < end
        time.sleep(0.05)
    return topic


def fill(bootstrap: str, topic: str, count: int, start: int = 1_700_000_000_000, partition: int = 0) -> None:
    """Records a second apart."""
    with ottla.Producer(bootstrap, linger_ms=0) as producer:
        for i in range(count):
            producer.send(topic, b"v", partition=partition, timestamp=start + 1000 * i).result(DEADLINE)


def until(look: Callable[[], Any], wanted: Any) -> Any:
    """What is there once it is what is wanted; or what is there at the end."""
    end = time.monotonic() + 20
    while (found := look()) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return found


# --- topics and partitions


@scene
def create_partitions(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, other = topic_of(admin), topic_of(admin)
    count = lambda: len(admin.describe_topics([topic])[topic].partitions)  # noqa: E731
    admin.create_partitions({topic: 3}, validate_only=True)
    checked = count()
    admin.create_partitions([ottla.NewPartitions(topic, 3)])
    return {
        "checked only": checked,
        "added": until(count, 3),
        "fewer": refusal(admin.create_partitions, {topic: 2}),
        "no topic": refusal(admin.create_partitions, {"missing-topic": 3}),
        "one of two": refusal(admin.create_partitions, {other: 2, "missing-topic": 3}),
        "wrong assignment": refusal(admin.create_partitions, [ottla.NewPartitions(other, 4, [[77], [78]])]),
    }


@scene
def create_assigned_topics(admin: ottla.Admin, bootstrap: str) -> Any:
    """The program says which brokers have the replicas."""
    node = admin.describe_cluster().nodes[0].id
    topic = new("assigned")
    admin.create_topics([ottla.NewTopic(topic, assignments=[[node], [node]])])

    def refused(*assignments: list[int]) -> Any:
        return refusal(admin.create_topics, [ottla.NewTopic(new("assigned"), assignments=assignments)])

    described = until(lambda: [list(at.replicas) == [node] for at in partitions(admin, topic)], [True] * 2)
    return {
        "replicas": described,
        "no broker": refused([77], [node]),
        "twice": refused([node, node]),
        "unequal": refused([node], [node, 77]),
        "none": refused([node], []),
    }


def partitions(admin: ottla.Admin, topic: str) -> list[ottla.PartitionInfo]:
    """Those of a topic."""
    return list(admin.describe_topics([topic])[topic].partitions)


@scene
def delete_records(admin: ottla.Admin, bootstrap: str) -> Any:
    topic = topic_of(admin, 2)
    fill(bootstrap, topic, 10)
    place, other = ottla.TopicPartition(topic, 0), ottla.TopicPartition(topic, 1)
    found = {
        "before": admin.delete_records({(topic, 0): 4})[place],
        "again": admin.delete_records({place: 2})[place],
        "beyond": refusal(admin.delete_records, {place: 11, other: 0}),
        "start": admin.list_offsets({place: "earliest"})[place].offset,
        "all": admin.delete_records({place: -1})[place],
        "no partition": refusal(admin.delete_records, {(topic, 7): 1}),
    }
    compacted = topic_of(admin, **{"cleanup.policy": "compact"})
    return found | {"compacted": refusal(admin.delete_records, {(compacted, 0): 0})}


@scene
def list_offsets(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, start = topic_of(admin, 2), 1_700_000_000_000
    fill(bootstrap, topic, 10, start)
    place = ottla.TopicPartition(topic, 0)

    def found(spec: Any, **options: Any) -> Any:
        row = admin.list_offsets({place: spec}, **options)[place]
        return row.offset, row.timestamp, row.leader_epoch is not None

    several = admin.list_offsets({(topic, 1): "latest", (topic, 0): "latest"})
    return {
        "earliest": found("earliest"),
        "latest": found("latest"),
        "max_timestamp": found("max_timestamp"),
        "earliest_local": found("earliest_local"),
        "time": found(start + 3500),
        "datetime": found(datetime.fromtimestamp(start / 1000 + 5, UTC)),
        "after all": found(start + 1_000_000),
        "committed": found("latest", isolation_level="read_committed"),
        "several": [(key.partition, row.offset) for key, row in several.items()],
        "one of two": refusal(admin.list_offsets, {(topic, 0): "latest", (topic, 5): "latest"}),
        "no topic": refusal(admin.list_offsets, {("missing-topic", 0): "latest"}, timeout=20),
    }


@scene
def tiered_offsets(admin: ottla.Admin, bootstrap: str) -> Any:
    """Without tiered storage there are none."""
    place = ottla.TopicPartition(topic_of(admin), 0)
    fill(bootstrap, place.topic, 3)
    return [admin.list_offsets({place: spec})[place].offset for spec in ("latest_tiered", "earliest_pending_upload")]


@scene
def topics_by_id(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, other = topic_of(admin, 2), topic_of(admin)
    described = admin.describe_topics(topic, include_authorized_operations=True)[topic]
    ids = {name: found.id for name, found in admin.describe_topics([topic, other]).items()}
    unknown = uuid.UUID(int=5)
    by_id = admin.describe_topics(ids[topic])
    found = {
        "operations": sorted(described.authorized_operations or []),
        "not requested": by_id[ids[topic]].authorized_operations,
        "described": by_id == {ids[topic]: described._replace(authorized_operations=None)},
        "unknown": refusal(admin.describe_topics, unknown),
        "one of two": refusal(admin.describe_topics, [unknown, ids[topic]]),
        "delete unknown": refusal(admin.delete_topics, unknown),
        "delete one of two": refusal(admin.delete_topics, [unknown, ids[other]]),
    }
    admin.delete_topics(ids[topic])
    return found | {"gone": until(lambda: {topic, other} & set(admin.list_topics()), set())}


@scene
def pages_of_partitions(admin: ottla.Admin, bootstrap: str) -> Any:
    """DescribeTopicPartitions, which returns topics in the order of their names, and a cursor."""
    topic = topic_of(admin, 3)
    other = topic + "-2"
    admin.create_topics([ottla.NewTopic(other, 2, 1)])
    until(lambda: other in admin.list_topics(), True)

    def found(*names: str, cursor: tuple[str, int] | None = None, limit: int = 2000) -> Any:
        place = None if cursor is None else {"topicName": cursor[0], "partitionIndex": cursor[1]}
        message = {"topics": [{"name": name} for name in names], "responsePartitionLimit": limit, "cursor": place}
        answer = admin.request("DescribeTopicPartitions", message)
        following = answer["nextCursor"]
        return [
            (
                row["name"].replace(topic, "t"),
                row["errorCode"],
                len(row["partitions"]),
                row["topicAuthorizedOperations"],
            )
            for row in answer["topics"]
        ], following and (following["topicName"].replace(topic, "t"), following["partitionIndex"])

    row = admin.request("DescribeTopicPartitions", {"topics": [{"name": topic}]})["topics"][0]["partitions"][0]
    return {
        "fields": {name: value for name, value in row.items() if name not in {"leaderId", "replicaNodes", "isrNodes"}},
        "all": found(other, topic, topic, "missing-topic", "wrong/name"),
        "few": [found(topic, other, limit=limit) for limit in (-1, 0, 1, 2, 3, 4, 5)],
        "from": [
            found(topic, other, cursor=cursor)
            for cursor in ((topic, 1), (topic, 7), (other, 0), (topic, -1), (topic + "-1", 0))
        ],
        "missing first": found("missing-topic", topic, limit=1),
    }


# --- configurations


@scene
def replaced_configs(admin: ottla.Admin, bootstrap: str) -> Any:
    """AlterConfigs, which older clients send: what is left out returns to its default."""
    topic, group = topic_of(admin), new("group")

    def own(kind: str, name: str) -> Any:
        rows = admin.describe_configs((kind, name))[ottla.ConfigResource(kind, name)]
        return {row.name: row.value for row in rows if row.source in {"DYNAMIC_TOPIC_CONFIG", "DYNAMIC_GROUP_CONFIG"}}

    def replaced(*resources: tuple[int, str, dict[str, str | None] | list[tuple[str, str]]], **options: Any) -> Any:
        rows = []
        for kind, name, configs in resources:
            pairs = configs.items() if isinstance(configs, dict) else configs
            listed = [{"name": key, "value": value} for key, value in pairs]
            rows.append({"resourceType": kind, "resourceName": name, "configs": listed})
        answer = admin.request("AlterConfigs", {"resources": rows, "validateOnly": False} | options)
        return [row["errorCode"] for row in answer["responses"]]

    first = replaced((2, topic, {"retention.ms": "1000", "compression.type": "zstd"}))
    found = {
        "first": (first, until(lambda: own("TOPIC", topic), {"compression.type": "zstd", "retention.ms": "1000"})),
        "second": (
            replaced((2, topic, {"retention.ms": "2"})),
            until(lambda: own("TOPIC", topic), {"retention.ms": "2"}),
        ),
        "checked": replaced((2, topic, {"retention.ms": "3"}), validateOnly=True),
        "no value": replaced((2, topic, {"retention.ms": None})),
        "wrong name": replaced((2, topic, {"retention": "1"})),
        "wrong value": replaced((2, topic, {"retention.ms": "soon"})),
        "twice": replaced((2, topic, [("retention.ms", "1"), ("retention.ms", "2")])),
        "one of two": replaced((2, "missing-topic", {}), (2, topic, {"retention.ms": "4"})),
        "no name": replaced((2, "", {"retention.ms": "1"})),
        "bad name": replaced((2, "a/b", {"retention.ms": "1"})),
        "unknown kind": replaced((99, "a", {"retention.ms": "1"})),
        "group": replaced((32, group, {"consumer.session.timeout.ms": "50000"})),
        "of the group": until(lambda: own("GROUP", group), {"consumer.session.timeout.ms": "50000"}),
        "wrong of a group": replaced((32, group, {"session": "1"})),
        "all groups": replaced((32, "", {"consumer.session.timeout.ms": "50000"})),
    }
    found["after"] = until(lambda: own("TOPIC", topic), {"retention.ms": "4"})
    resource = ("TOPIC", topic)
    repeated = [ottla.AlterConfigOp("retention.ms", "5"), ottla.AlterConfigOp("retention.ms", "6")]
    found["changed twice"] = refusal(admin.incremental_alter_configs, {resource: repeated})
    return found | {"emptied": (replaced((2, topic, {})), until(lambda: own("TOPIC", topic), {}))}


@scene
def topic_configs(admin: ottla.Admin, bootstrap: str) -> Any:
    topic = topic_of(admin, **{"retention.ms": "1000"})
    resource, names = ottla.ConfigResource("TOPIC", topic), ["retention.ms", "cleanup.policy", "max.message.bytes"]

    def shown(**options: Any) -> Any:
        rows = admin.describe_configs(resource, names=names, **options)[resource]
        return [(row.name, row.value, row.source, row.is_sensitive, row.is_read_only, row.type) for row in rows]

    def values() -> Any:
        return {row.name: row.value for row in admin.describe_configs(resource, names=names)[resource]}

    before = shown()
    admin.incremental_alter_configs({resource: {"retention.ms": "5"}}, validate_only=True)
    checked = values()
    admin.incremental_alter_configs(
        {
            resource: [
                ottla.AlterConfigOp("cleanup.policy", "compact", "APPEND"),
                ottla.AlterConfigOp("retention.ms", "7"),
            ]
        }
    )
    appended = until(values, {"cleanup.policy": "delete,compact", "max.message.bytes": "1048588", "retention.ms": "7"})
    admin.incremental_alter_configs(
        {
            resource: [
                ottla.AlterConfigOp("cleanup.policy", "delete", "SUBTRACT"),
                ottla.AlterConfigOp("retention.ms", None, "DELETE"),
            ]
        }
    )
    after = until(values, {"cleanup.policy": "compact", "max.message.bytes": "1048588", "retention.ms": "604800000"})
    rows = admin.describe_configs(resource, names=["cleanup.policy"], include_synonyms=True)[resource]
    missing = ("TOPIC", "missing-topic")
    return {
        "before": before,
        "checked": checked,
        "appended": appended,
        "after": after,
        "synonyms": [(each.name, each.value, each.source) for each in rows[0].synonyms],
        "documented": bool(
            admin.describe_configs(resource, names=names, include_documentation=True)[resource][0].documentation
        ),
        "wrong value": refusal(admin.incremental_alter_configs, {resource: {"retention.ms": "soon"}}),
        "wrong name": refusal(admin.incremental_alter_configs, {resource: {"retention": "1"}}),
        "no topic": refusal(admin.describe_configs, missing),
        "alter no topic": refusal(admin.incremental_alter_configs, {missing: {"retention.ms": "1"}}),
        "one of two": refusal(admin.describe_configs, [resource, missing]),
    }


@scene
def broker_and_group_configs(admin: ottla.Admin, bootstrap: str) -> Any:
    (node,) = admin.describe_cluster().nodes[:1]
    broker, group = ("BROKER", str(node.id)), ("GROUP", new("group"))
    names = ["message.max.bytes", "num.partitions"]
    rows = admin.describe_configs(broker, names=names)[ottla.ConfigResource(*broker)]
    admin.incremental_alter_configs({group: {"consumer.session.timeout.ms": "50000"}})
    own = lambda: [  # noqa: E731
        (row.value, row.source)
        for row in admin.describe_configs([group], names=["consumer.session.timeout.ms"])[ottla.ConfigResource(*group)]
    ]
    return {
        "broker": [(row.name, row.value) for row in rows],
        "group": until(own, [("50000", "DYNAMIC_GROUP_CONFIG")]),
        "no broker": refusal(admin.describe_configs, ("BROKER", "77")),
        "listed": ottla.ConfigResource(*group) in admin.list_config_resources("GROUP"),
    }


@scene
def config_resources(admin: ottla.Admin, bootstrap: str) -> Any:
    topic = topic_of(admin)
    nodes = [str(node.id) for node in admin.describe_cluster().nodes]
    listed = admin.list_config_resources()
    return {
        "topic": ottla.ConfigResource("TOPIC", topic) in listed,
        "topics only": {each.type for each in admin.list_config_resources("TOPIC")},
        "brokers": [each.name for each in admin.list_config_resources(["BROKER"])] == nodes,
        "loggers": [each.name for each in listed if each.type == "BROKER_LOGGER"] == nodes,
        "no subscription": ottla.ConfigResource("CLIENT_METRICS", topic) in listed,
    }


@scene
def client_metrics(admin: ottla.Admin, bootstrap: str) -> Any:
    """Subscriptions to metrics of clients (KIP-714) are resources with configurations; one without any is gone."""
    resource = ottla.ConfigResource("CLIENT_METRICS", new("subscription"))
    fresh = ottla.ConfigResource("CLIENT_METRICS", new("subscription"))

    def rows(**options: Any) -> Any:
        return [
            (
                row.name,
                row.value,
                row.source,
                row.type,
                row.is_sensitive,
                row.is_read_only,
                [(each.name, each.value, each.source) for each in row.synonyms],
                bool(row.documentation),
            )
            for row in admin.describe_configs(resource, **options)[resource]
        ]

    def values() -> Any:
        return {row.name: row.value for row in admin.describe_configs(resource)[resource] if "DYNAMIC" in row.source}

    def altered(where: ottla.ConfigResource = resource, **configs: str | None) -> Any:
        named = {name.replace("interval", "interval.ms"): value for name, value in configs.items()}
        return refusal(admin.incremental_alter_configs, {where: named})

    def replaced(name: str, configs: dict[str, str | None], **options: Any) -> Any:
        pairs = [{"name": key, "value": value} for key, value in configs.items()]
        row = {"resourceType": 16, "resourceName": name, "configs": pairs}
        answer = admin.request("AlterConfigs", {"resources": [row], "validateOnly": False} | options)
        return [row["errorCode"] for row in answer["responses"]]

    def is_listed(where: ottla.ConfigResource = resource) -> bool:
        return where in admin.list_config_resources("CLIENT_METRICS")

    def operation(kind: Any, name: str, value: str | None) -> Any:
        return refusal(admin.incremental_alter_configs, {resource: [ottla.AlterConfigOp(name, value, kind)]})

    found: dict[str, Any] = {
        "missing": rows(include_synonyms=True, include_documentation=True),
        "nothing": (altered(), is_listed()),
    }
    wanted = {"interval.ms": "1000", "match": "client_id=a.*,client_source_port=90.*", "metrics": "org.a.,org.b."}
    admin.incremental_alter_configs({resource: wanted})
    found["set"] = until(values, wanted), is_listed()
    found["rows"] = rows(include_synonyms=True)
    found["one row"] = rows(names=["metrics", "nothing"])
    altered(interval=None, match=None)
    found["less"] = until(values, {"metrics": "org.a.,org.b."})
    altered(metrics=" org.a , org.b,org.a ", interval=" +500 ", match=" client_id = a ")
    found["trimmed"] = until(values, {"interval.ms": "500", "match": "client_id = a", "metrics": "org.a,org.b"})
    found["intervals"] = {text: altered(interval=text) for text in ("99", "100", "3600000", "3600001", "-1")}
    found["no intervals"] = {text: altered(interval=text) for text in ("", "soon", "1e3", "9999999999")}
    found["metrics"] = {text: altered(metrics=text) for text in ("", "*", "a", "x y", "*,a", "a,,b", ",", "a,")}
    matches = (
        *("", "client_id", "client_id=", "=a", "client_id=a=", "client_id=a=b", "client_id=[", "client_id=(a"),
        *(
            "client_id=a)(b",
            "client_id=*",
            "client_id=a{2,3}",
            "client_id=a{2}",
            "foo=a",
            "CLIENT_ID=a",
            "a,client_id=a",
        ),
        *("client_id=a,client_id=b", "client_id=a,", "client_instance_id=a", "client_software_name=a|b"),
        *("client_software_version=1\\.0", "client_source_address=127.*", "client_source_port=\\d+"),
    )
    found["matches"] = {text: altered(match=text) for text in matches}
    found["operations"] = {
        f"{kind} {name}": operation(kind, name, "100")
        for kind in ("APPEND", "SUBTRACT")
        for name in ("metrics", "match", "interval.ms")
    }
    found["unknown"] = altered(nothing="1"), operation("DELETE", "nothing", None), operation("DELETE", "match", None)
    found["several are wrong"] = [
        altered(nothing="1", interval="soon"),
        altered(interval="5", match="a"),
        altered(interval="soon", match="a"),
        altered(interval="5", metrics="a,,b"),
    ]
    found["no name"] = [
        altered(ottla.ConfigResource("CLIENT_METRICS", ""), metrics="a"),
        refusal(admin.describe_configs, ("CLIENT_METRICS", "")),
        replaced("", {"metrics": "a"}),
    ]
    found["checked"] = [
        refusal(admin.incremental_alter_configs, {fresh: {"metrics": "a"}}, validate_only=True),
        refusal(admin.incremental_alter_configs, {fresh: {"interval.ms": "5"}}, validate_only=True),
        replaced(fresh.name, {"metrics": "a"}, validateOnly=True),
        is_listed(fresh),
    ]
    found["one of two"] = refusal(
        admin.incremental_alter_configs, {fresh: {"interval.ms": "5"}, resource: {"metrics": "org.c."}}
    )
    found["of the other"] = until(lambda: values()["metrics"], "org.c.")
    found["replaced"] = replaced(resource.name, {"interval.ms": "5000"}), until(values, {"interval.ms": "5000"})
    found["wrongly replaced"] = [
        replaced(resource.name, configs) for configs in ({"interval.ms": "5"}, {"nothing": "1"}, {"metrics": None})
    ]
    found["emptied"] = replaced(resource.name, {}), until(is_listed, False), values()
    admin.incremental_alter_configs({fresh: {"metrics": "", "match": ""}})
    found["without values"] = until(lambda: is_listed(fresh), True)
    altered(fresh, metrics=None, match=None)
    return found | {"gone": until(lambda: is_listed(fresh), False)}


# --- groups


def joined(bootstrap: str, topic: str, group: str, **options: Any) -> ottla.Consumer:
    """A member that has read and committed the records of the topic."""
    consumer = ottla.Consumer(
        bootstrap, group_id=group, topics=[topic], auto_offset_reset="earliest", enable_auto_commit=False, **options
    )
    count, end = 0, time.monotonic() + DEADLINE
    while count < 6 and time.monotonic() < end:
        count += len(consumer.poll(1))
    consumer.commit()
    return consumer


def group_scene(admin: ottla.Admin, bootstrap: str, protocol: str) -> Any:
    topic, group = topic_of(admin, 2), new("group")
    fill(bootstrap, topic, 6)
    place, idle = ottla.TopicPartition(topic, 0), ottla.TopicPartition(topic, 1)
    with joined(bootstrap, topic, group, group_protocol=protocol, client_id="reader"):
        described = admin.describe_groups(group, include_authorized_operations=True)[group]
        (member,) = described.members
        running = {
            "type": described.type,
            "state": described.state,
            "operations": sorted(described.authorized_operations or []),
            "coordinated": described.coordinator in [node.id for node in admin.describe_cluster().nodes],
            "member": (member.client_id, member.assignment == [place, idle], member.is_upgraded),
            "listed": group in [row.group_id for row in admin.list_groups(states="Stable", types=protocol)],
            "not listed": [row for row in admin.list_groups(states="Empty") if row.group_id == group],
            "other type": [row for row in admin.list_groups(types="share") if row.group_id == group],
            "protocol type": group in [row.group_id for row in admin.list_groups(protocol_types="consumer")],
            "deleted": refusal(admin.delete_groups, group),
            "altered": refusal(admin.alter_group_offsets, group, {place: 1}),
            "offsets deleted": refusal(admin.delete_group_offsets, group, [place]),
            "lag": [(row.partition, row.committed, row.end_offset, row.lag, row.client_id) for row in admin.lag(group)],
        }
    until(lambda: admin.describe_groups(group)[group].state, "Empty")
    found = {
        "state": admin.describe_groups(group)[group].state,
        "offsets": admin.list_group_offsets(group)[group][place].offset,  # type: ignore[union-attr]
        "wanted": admin.list_group_offsets({group: [place, (topic, 1)]}, require_stable=True)[group][place].offset,  # type: ignore[union-attr]
        "dry run": [
            (row.old_offset, row.new_offset)
            for row in admin.reset_group_offsets(group, "earliest", partitions=[place], dry_run=True)
        ],
        "untouched": admin.list_group_offsets(group)[group][place].offset,  # type: ignore[union-attr]
        "shift": [
            (row.old_offset, row.new_offset) for row in admin.reset_group_offsets(group, shift=-2, partitions=[place])
        ],
        "too far": [row.new_offset for row in admin.reset_group_offsets(group, shift=100, partitions=[place])],
        "by time": [row.new_offset for row in admin.reset_group_offsets(group, 1_700_000_002_500, topics=topic)],
        "by duration": [
            row.new_offset for row in admin.reset_group_offsets(group, timedelta(hours=1), partitions=[place])
        ],
        "by offsets": [row.new_offset for row in admin.reset_group_offsets(group, {place: 3})],
        "lag": [(row.partition, row.lag, row.member_id) for row in admin.lag(group) if row.partition == 0],
    }
    admin.alter_group_offsets(group, {place: ottla.OffsetAndMetadata(2, "note")})
    found["altered"] = admin.list_group_offsets(group)[group][place]._replace(leader_epoch=None)  # type: ignore[union-attr]
    found["no partition"] = refusal(admin.alter_group_offsets, group, {(topic, 9): 1})
    admin.delete_group_offsets(group, [place])
    found["gone"] = admin.list_group_offsets({group: [place]})[group][place]
    admin.delete_groups(group)
    found["no group"] = refusal(admin.describe_groups, group)
    found["delete no group"] = refusal(admin.delete_groups, group)
    found["offsets of no group"] = admin.list_group_offsets(group)[group]
    return running, found


@scene
def classic_group(admin: ottla.Admin, bootstrap: str) -> Any:
    return group_scene(admin, bootstrap, "classic")


@scene
def consumer_group(admin: ottla.Admin, bootstrap: str) -> Any:
    return group_scene(admin, bootstrap, "consumer")


@scene
def removed_members(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, group = topic_of(admin), new("group")
    fill(bootstrap, topic, 6)
    consumer = joined(bootstrap, topic, group, group_protocol="classic", group_instance_id="one")
    try:
        missing = refusal(admin.remove_group_members, group, ["two"])
        mixed = refusal(admin.remove_group_members, group, ["two", "one"])
        state = until(lambda: admin.describe_groups(group)[group].state, "Empty")
    finally:
        consumer.close(0)
    return missing, mixed, state, refusal(admin.remove_group_members, new("group"))


@scene
def new_group_by_offsets(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, group = topic_of(admin, 2), new("group")
    admin.alter_group_offsets(group, {(topic, 0): 5, (topic, 1): 6})
    offsets = admin.list_group_offsets([group])[group]
    described = admin.describe_groups(group)[group]
    return (
        [(place.partition, found.offset) for place, found in offsets.items() if found],
        (described.type, described.state, described.members),
        refusal(admin.reset_group_offsets, group),
    )


@scene
def share_groups(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, group = topic_of(admin), new("share")
    fill(bootstrap, topic, 6)
    place = ottla.TopicPartition(topic, 0)
    admin.incremental_alter_configs({("GROUP", group): {"share.auto.offset.reset": "earliest"}})
    with ottla.ShareConsumer(bootstrap, group_id=group, client_id="sharer") as consumer:
        consumer.subscribe([topic])
        count, end = 0, time.monotonic() + DEADLINE
        while count < 6 and time.monotonic() < end:
            count += len(consumer.poll(1))
        consumer.commit()
        described = admin.describe_share_groups(group, include_authorized_operations=True)[group]
        (member,) = described.members
        running = {
            "type": described.type,
            "state": described.state,
            "operations": sorted(described.authorized_operations or []),
            "member": (member.client_id, member.assignment, member.subscribed_topics) == ("sharer", [place], [topic]),
            "listed": group in [row.group_id for row in admin.list_groups(types="share")],
            "deleted": refusal(admin.delete_groups, group),
            "altered": refusal(admin.alter_share_group_offsets, group, {place: 1}),
        }
    until(lambda: admin.describe_share_groups(group)[group].state, "Empty")
    start = lambda: admin.list_share_group_offsets(group)[group][place].start_offset  # noqa: E731
    found = {"begun": until(start, 6)}
    admin.alter_share_group_offsets(group, {place: 2})
    found["altered"] = until(start, 2)
    found["wanted"] = [each.start_offset for each in admin.list_share_group_offsets({group: [place]})[group].values()]
    found["no topic"] = refusal(admin.delete_share_group_offsets, group, "missing-topic")
    admin.delete_share_group_offsets(group, topic)
    found["forgotten"] = admin.list_share_group_offsets(group)[group]
    admin.delete_groups(group)
    found["no group"] = refusal(admin.describe_share_groups, group)
    return running, found


@scene
def groups_of_other_kinds(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, group = topic_of(admin), new("group")
    admin.alter_group_offsets(group, {(topic, 0): 5})
    return [
        refusal(admin.describe_share_groups, group),
        refusal(admin.describe_streams_groups, group),
        refusal(admin.describe_streams_groups, "missing-group"),
    ]


# --- the cluster


@scene
def leaders_and_replicas(admin: ottla.Admin, bootstrap: str) -> Any:
    topic = topic_of(admin, 2)
    place = ottla.TopicPartition(topic, 0)
    (leader,) = {part.leader for part in admin.describe_topics([topic])[topic].partitions[:1]}
    assert isinstance(leader, int)
    admin.alter_partition_reassignments({place: [leader]})
    return {
        "elected": admin.elect_leaders("PREFERRED", [place, (topic, 1)]) == {place: None, (topic, 1): None},
        "all": refusal(admin.elect_leaders),
        "unclean": list(admin.elect_leaders("UNCLEAN", [place]).values()),
        "no topic": refusal(admin.elect_leaders, "PREFERRED", [("missing-topic", 0)]),
        "one of two": refusal(admin.elect_leaders, "PREFERRED", [place, (topic, 9)]),
        "moving": admin.list_partition_reassignments([place]),
        "all that move": refusal(admin.list_partition_reassignments),
        "cancelled": refusal(admin.alter_partition_reassignments, {place: None}),
        "no broker": refusal(admin.alter_partition_reassignments, {place: [77]}),
        "no partition": refusal(admin.alter_partition_reassignments, {place: [leader], (topic, 9): [leader]}),
    }


@scene
def log_dirs(admin: ottla.Admin, bootstrap: str) -> Any:
    topic = topic_of(admin, 2)
    fill(bootstrap, topic, 3)

    def look() -> tuple[int, ottla.LogDir, list[ottla.LogDirReplica]]:
        ((node, (folder,)),) = admin.describe_log_dirs().items()
        return node, folder, [row for row in folder.replicas if row.topic == topic]

    # The broker makes the folder of the second partition, which nobody has used, in its own time.
    until(lambda: len(look()[2]), 2)
    node, folder, mine = look()
    replica = ottla.TopicPartitionReplica(topic, 0, node)
    missing = ottla.TopicPartitionReplica(topic, 9, node)
    places = admin.describe_replica_log_dirs([replica, missing])
    (size,) = admin.list_topic_sizes(topic)
    return {
        "error": folder.error,
        "replicas": [(row.partition, row.size > 0, row.offset_lag, row.is_future) for row in mine],
        "bytes": (folder.total_bytes or 0) > (folder.usable_bytes or 0) > 0,
        "place": places[replica] == ottla.ReplicaLogDir(folder.path, 0, None, None),
        "no place": places[missing],
        "size": (size.partitions, size.replicas, size.bytes == size.unique_bytes == sum(row.size for row in mine)),
        "no broker": refusal(admin.describe_log_dirs, [77]),
        "stays": refusal(admin.alter_replica_log_dirs, {replica: folder.path}),
        "no folder": refusal(admin.alter_replica_log_dirs, {replica: "/missing/folder"}),
    }


@scene
def features(admin: ottla.Admin, bootstrap: str) -> Any:
    found = admin.describe_features()
    (node,) = admin.describe_cluster().nodes[:1]
    level = found.finalized["group.version"].max
    return {
        "groups": (level, found.supported["group.version"]),
        "epoch": found.epoch is not None,
        "of a broker": admin.describe_features(broker=node.id).supported == found.supported,
        "no broker": refusal(admin.describe_features, broker=77),
        "same": refusal(admin.update_features, {"group.version": level}, validate_only=True),
        "unknown": refusal(admin.update_features, {"missing.version": 1}),
        "too high": refusal(admin.update_features, {"group.version": 99}, validate_only=True),
        "lower": refusal(admin.update_features, {"group.version": level - 1}, validate_only=True),
    }


@scene
def quorum(admin: ottla.Admin, bootstrap: str) -> Any:
    found = admin.describe_metadata_quorum()
    nodes = [node.id for node in admin.describe_cluster().nodes]
    unknown = uuid.UUID(int=5)
    return {
        "leader": found.leader_id in [voter.id for voter in found.voters],
        "watermark": found.high_watermark > 0,
        "voters": [voter.id for voter in found.voters] == nodes,
        "nodes": [node.id for node in found.nodes] == nodes,
        "observers": found.observers,
        "added": refusal(admin.add_raft_voter, 9, unknown, [ottla.RaftEndpoint("CONTROLLER", "127.0.0.1", 1)]),
        "removed": refusal(admin.remove_raft_voter, 9, unknown),
        "unregistered": refusal(admin.unregister_broker, 77),
    }


@scene
def requests(admin: ottla.Admin, bootstrap: str) -> Any:
    topic = topic_of(admin)
    cluster = admin.request("DescribeCluster")
    metadata = admin.request("Metadata", {"topics": [{"name": topic}]}, version=1)
    return {
        "cluster": cluster["clusterId"] == admin.describe_cluster().cluster_id,
        "of a broker": admin.request("DescribeCluster", broker=cluster["brokers"][0]["brokerId"])["errorCode"],
        "version": sorted(metadata),
        "topic": [each["name"] == topic for each in metadata["topics"]],
        "no api": refusal(admin.request, "DescribeNothing"),
        "no field": refusal(admin.request, "DescribeCluster", {"nothing": 1}),
        "no version": refusal(admin.request, "DescribeCluster", version=99),
    }


# --- transactions


@scene
def transactions(admin: ottla.Admin, bootstrap: str) -> Any:
    topic, name = topic_of(admin), new("producer")
    with ottla.Producer(bootstrap, transactional_id=name) as producer:
        with producer.transaction():
            producer.send(topic, b"open").result(DEADLINE)
            (state,) = admin.describe_producers([(topic, 0)])[ottla.TopicPartition(topic, 0)]
            listed = lambda **options: [  # noqa: E731
                row.state for row in admin.list_transactions(**options) if row.transactional_id == name
            ]
            found = {
                "ongoing": listed(states="Ongoing"),
                "empty": listed(states="Empty"),
                "of the producer": listed(producer_ids=[state.producer_id]),
                "of another": listed(producer_ids=[state.producer_id + 1000]),
                "for long": listed(longer_than=3600),
                "pattern": listed(pattern=f"^{name[:12]}.*"),
                "other pattern": listed(pattern="nothing.*"),
                "hanging": list(admin.find_hanging_transactions(topic, open_for=-60)),
            }
        return found | {"complete": until(lambda: listed(states="CompleteCommit"), ["CompleteCommit"])}
