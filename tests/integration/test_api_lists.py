"""The embedded broker lists the APIs and versions of the release that it speaks as, and answers as a cluster without features."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from ottla import protocol
from ottla.testing import Broker
from tests.brokers.brokers import ask
from tests.integration.conftest import REAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]

API_VERSIONS = 18
# What brokers and controllers send to each other, which the embedded broker does not take.
BETWEEN_BROKERS = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition"}


def port_of(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


def listed(bootstrap: str) -> dict[str, tuple[int, int]]:
    """The versions of each API, by its name."""
    names = {api.key: name for name, api in protocol.APIS.items()}
    answer = protocol.decode("ApiVersionsResponse", 0, ask(port_of(bootstrap), API_VERSIONS))
    return {names[row["apiKey"]]: (row["minVersion"], row["maxVersion"]) for row in answer["apiKeys"]}


def request(bootstrap: str, api: str, version: int, message: dict[str, Any]) -> Any:
    """The response to a request, which no client takes part in."""
    with socket.create_connection(("127.0.0.1", port_of(bootstrap)), 20) as link, link.makefile("rb") as received:
        link.sendall(protocol.encode_request(api, version, message, correlation_id=7))
        length = received.read(4)
        frame = length + received.read(struct.unpack(">i", length)[0])
    return protocol.decode_frame(frame, response_to=(api, version)).message


@pytest.mark.parametrize("release", ["0.11.0.3", "2.8.2", "3.9.1", "4.0.2"])
def test_the_lists_are_the_same(release: str, start_kafka: Callable[..., Cluster]) -> None:
    real = listed(start_kafka(version=release).st["bootstrap"]["PLAINTEXT"])
    with Broker(as_version=release) as broker:
        embedded = listed(broker.bootstrap_servers)
    assert embedded == {name: versions for name, versions in real.items() if name not in BETWEEN_BROKERS}


def test_groups_of_a_preview_are_rejected_as_by_kafka(start_kafka: Callable[..., Cluster]) -> None:
    real = start_kafka(version="3.9.1").st["bootstrap"]["PLAINTEXT"]
    joining = {"groupId": "g", "memberId": "", "memberEpoch": 0, "subscribedTopicNames": ["t"]}
    with Broker(as_version="3.9.1") as broker:
        for bootstrap in (real, broker.bootstrap_servers):
            assert request(bootstrap, "ConsumerGroupHeartbeat", 0, joining)["errorCode"] == 35
            described = request(bootstrap, "ConsumerGroupDescribe", 0, {"groupIds": ["g", "h"]})["groups"]
            assert [(row["groupId"], row["errorCode"]) for row in described] == [("g", 35), ("h", 35)]


def test_groups_of_streams_are_rejected_as_by_kafka_without_the_feature(start_kafka: Callable[..., Cluster]) -> None:
    real = start_kafka(feature=["streams.version=0"]).st["bootstrap"]["PLAINTEXT"]
    joining = {"groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000}
    topology = {"groupId": "g", "memberId": "m", "topologyEpoch": 0, "topologyDescription": {}}
    with Broker() as broker:
        for version in (0, 1):
            answers = [
                request(bootstrap, "StreamsGroupHeartbeat", version, joining)
                for bootstrap in (real, broker.bootstrap_servers)
            ]
            assert answers[0] == answers[1]
            assert answers[0]["errorCode"] == 35
        for bootstrap in (real, broker.bootstrap_servers):
            assert request(bootstrap, "StreamsGroupTopologyDescriptionUpdate", 0, topology)["errorCode"] == 35
