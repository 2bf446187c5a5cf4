"""What scenes return, as texts that are kept: real Kafka's in `outcomes/RELEASE.json`.

`python -m tests.admin.outcomes RELEASE ADDRESS` writes the file from a broker of that release.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla
from tests.admin.scenes import SCENES

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path(__file__).parent / "outcomes"


def shown(value: Any) -> Any:
    """A value as JSON can hold it; objects as their repr."""
    if isinstance(value, dict):
        return {str(key): shown(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [shown(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(shown, value))
    if value is None or isinstance(value, (bool, int, str, float)):
        return value
    return repr(value)


def outcome(name: str, bootstrap: str, module: Any = ottla) -> Any:
    """What a scene returns on a broker; the error that ended it, if one did."""
    with module.Admin(bootstrap) as admin:
        return shown(SCENES[name](admin, bootstrap))


def kept(release: str) -> dict[str, Any]:
    """What real Kafka of a release returned."""
    found: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text())
    return found


def record(release: str, bootstrap: str, names: Iterable[str]) -> None:
    """Write what a broker returns; of some scenes only where some are named."""
    path = FOLDER / f"{release}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        found[name] = outcome(name, bootstrap)
        print(name, json.dumps(found[name]))
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2], sys.argv[3:] or SCENES)
