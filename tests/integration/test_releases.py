"""Clients on real brokers of the two ends and of two generations between; `make brokers` has all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla.testing
from ottla import protocol
from tests.brokers.brokers import ask
from tests.brokers.releases import API_VERSIONS, CODECS, RECORDS, REFUSED, YES, examine, has_timestamps, tells_versions
from tests.integration.conftest import REAL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [REAL]

# What is negotiated: Produce, Fetch, ListOffsets, Metadata.
NEGOTIATED = {
    "0.8.2.2": (0, 0, 0, 0),
    "0.10.2.2": (2, 3, 1, 2),
    "2.8.2": (9, 12, 6, 11),
    "4.4.0": (13, 17, 11, 13),
}


@pytest.mark.parametrize(
    "release", [pytest.param(each, marks=pytest.mark.nightly) if each == "2.8.2" else each for each in NEGOTIATED]
)
def test_a_release_does_what_it_can_and_refuses_the_rest(release: str, tmp_path: Path) -> None:
    # lz4 is the codec that was framed otherwise before 0.10.
    found = examine(release, tmp_path / "kafka", theirs=("lz4",))
    assert tuple(found.versions.values()) == NEGOTIATED[release]
    new = release in {"2.8.2", "4.4.0"}
    codecs = dict.fromkeys(CODECS, YES) | ({} if new else {"zstd": REFUSED})
    assert found.codecs == codecs
    count = RECORDS * list(codecs.values()).count(YES)
    assert found.their_consumer == f"{count} of {count}"
    assert found.their_producer == {"lz4": YES}
    assert found.headers == (YES if new else REFUSED)
    assert found.by_time == ("by file" if release == "0.8.2.2" else "exact")
    assert found.topics == (REFUSED if release == "0.8.2.2" else YES)
    assert found.timestamps == (YES if has_timestamps(release) else "none")
    assert (found.asyncio, found.shell) == (YES, YES)
    if tells_versions(release):
        assert_embedded_tells_alike(release, found.told)


def versions(told: bytes) -> dict[int, tuple[int, int]]:
    answer = protocol.decode("ApiVersionsResponse", 0, told)
    return {row["apiKey"]: (row["minVersion"], row["maxVersion"]) for row in answer["apiKeys"]}


def assert_embedded_tells_alike(release: str, told: bytes) -> None:
    """What the embedded broker tells as this release, a real one tells: fewer APIs, and of some not the oldest version."""
    with ottla.testing.Broker(as_version=release) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        ours, theirs = versions(ask(port, API_VERSIONS)), versions(told)
    newest = {api: most for api, (_, most) in ours.items() if api != API_VERSIONS}
    assert newest == {api: theirs[api][1] for api in newest}
    assert all(theirs[api][0] <= least for api, (least, _) in ours.items())
    older = {api for api, (least, _) in ours.items() if least > theirs[api][0]}
    assert older <= {8, 9, 32}, "OffsetCommit, OffsetFetch and DescribeConfigs"
