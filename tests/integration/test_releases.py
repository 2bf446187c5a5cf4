"""Clients on real brokers of the two ends and of two generations between; `make brokers` has all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.brokers.releases import CODECS, RECORDS, REFUSED, YES, examine, has_timestamps
from tests.integration.conftest import REAL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [REAL, pytest.mark.timeout(240)]

# What is negotiated: Produce, Fetch, ListOffsets, Metadata.
NEGOTIATED = {
    "0.8.2.2": (0, 0, 0, 0),
    "0.10.2.2": (2, 3, 1, 2),
    "2.8.2": (9, 12, 6, 11),
    "4.4.0": (13, 17, 10, 13),
}


@pytest.mark.parametrize("release", NEGOTIATED)
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
