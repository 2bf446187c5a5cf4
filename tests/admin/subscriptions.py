"""What a broker requests of clients that its subscriptions match (KIP-714): the same steps on real Kafka and on the embedded broker."""

from __future__ import annotations

import base64
import contextlib
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import ottla
from tests.admin.scenes import until
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

CLIENT_METRICS = 16
NEW = UUID(int=0)
INTERVAL = 0.1
CODES = {0: "done", 42: "INVALID_REQUEST", 89: "THROTTLING_QUOTA_EXCEEDED", 117: "UNKNOWN_SUBSCRIPTION_ID"}

# As Kafka 4.4.0 responds.
REQUESTED: dict[str, Any] = {
    "without a subscription": ([], 300_000),
    "of one": (["org.a."], 60_000),
    "of two": (["org.a.", "org.b."], 30_000),
    "of an interval alone": (["org.a.", "org.b."], 20_000),
    "of an asterisk": (["*"], 30_000),
    "matches": {
        "client_id=asking": True,
        "client_id=ask": False,
        "client_id=king": False,
        "client_id=ask|asking": True,
        "client_id=ASKING": False,
        " client_id = asking ": True,
        "client_id=nobody,client_id=asking": True,
        "client_id=asking,client_id=nobody": False,
        "client_id=asking,client_software_name=tester": True,
        "client_id=asking,client_software_name=other": False,
        "client_software_version=1\\..*": True,
        "client_source_address=127\\..*": True,
        "client_source_port=\\d+": True,
        "client_source_port=0": False,
        "client_instance_id=[A-Za-z0-9_-]{22}": True,
        "client_instance_id=none": False,
    },
    "without a name of software": True,
    "of an instance": (True, False),
    "pushed": ["done", "THROTTLING_QUOTA_EXCEEDED", "done"],
    "pushed after a change": ["UNKNOWN_SUBSCRIPTION_ID", "THROTTLING_QUOTA_EXCEEDED", "done"],
    "pushed after a change of others": "done",
    "pushed after the end": "UNKNOWN_SUBSCRIPTION_ID",
    "after the end": ([], 300_000),
}


class Asking:
    """A client that requests its subscription and pushes."""

    def __init__(self, bootstrap: str, software: tuple[str, str] | None = ("tester", "1.5")) -> None:
        self.wire = Connection(bootstrap)
        self.instance, self.subscription = NEW, 0
        if software is not None:
            name, version = software
            self._ask("ApiVersions", 3, {"client_software_name": name, "client_software_version": version})

    def _ask(self, api: str, version: int, message: dict[str, Any]) -> dict[str, Any]:
        return self.wire.ask(api, version, message, "asking")

    def requested(self, instance: UUID | None = None) -> tuple[list[str], int]:
        """The metrics, sorted, and the interval."""
        message = {"client_instance_id": instance or self.instance}
        answer = self._ask("GetTelemetrySubscriptions", 0, message)
        assert answer["error_code"] == 0, answer
        self.instance, self.subscription = answer["client_instance_id"], answer["subscription_id"]
        return sorted(answer["requested_metrics"]), answer["push_interval_ms"]

    def push(self) -> str:
        message = {
            "client_instance_id": self.instance,
            "subscription_id": self.subscription,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        }
        return CODES[self._ask("PushTelemetry", 0, message)["error_code"]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.socket.close()


def requested(bootstrap: str) -> dict[str, Any]:
    """Every step of `REQUESTED`, with what the broker responds. All subscriptions of the steps are gone after them."""
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(ottla.Admin(bootstrap))

        def subscribe(name: str, **configs: str) -> None:
            rows = [{"name": key.replace("interval", "interval.ms"), "value": value} for key, value in configs.items()]
            resource = {"resourceType": CLIENT_METRICS, "resourceName": name, "configs": rows}
            answer = admin.request("AlterConfigs", {"resources": [resource], "validateOnly": False})
            assert [row["errorCode"] for row in answer["responses"]] == [0], answer

        def client(software: tuple[str, str] | None = ("tester", "1.5")) -> Asking:
            return stack.enter_context(Asking(bootstrap, software))

        def now(wanted: Any) -> Any:
            """What a new client is asked for: brokers learn of a change after the controller has responded."""

            def look() -> Any:
                with Asking(bootstrap) as asking:
                    return asking.requested()

            return until(look, wanted)

        def is_matched(wanted: bool, look: Callable[[], tuple[list[str], int]]) -> bool:
            """Whether a client is asked for the metrics of the subscription `match`."""
            return until(lambda: "match." in look()[0], wanted)  # type: ignore[no-any-return]

        # The embedded broker has telemetry once there has been a subscription; Kafka has it with its plugin.
        subscribe("first", metrics="org.a.")
        subscribe("first")
        found: dict[str, Any] = {"without a subscription": now(([], 300_000))}
        subscribe("first", metrics="org.a.", interval="60000")
        found["of one"] = now((["org.a."], 60_000))
        subscribe("second", metrics="org.b.,org.a.", interval="30000", match="client_id=ask.*")
        found["of two"] = now((["org.a.", "org.b."], 30_000))
        subscribe("third", interval="20000")
        found["of an interval alone"] = now((["org.a.", "org.b."], 20_000))
        subscribe("third", interval="400000", metrics="*,org.c.")
        found["of an asterisk"] = now((["*"], 30_000))
        subscribe("second")
        subscribe("third")

        found["matches"] = {}
        for match, wanted in REQUESTED["matches"].items():
            # The metrics of each step show that it is this match that the broker knows.
            metric = f"org.{len(found['matches'])}."
            subscribe("first", metrics=metric)
            subscribe("match", metrics="match.", match=match)
            requests = now(([*(["match."] if wanted else []), metric], 300_000))[0]
            found["matches"][match] = "match." in requests
        subscribe("match", metrics="match.", match="client_software_name=unknown,client_software_version=unknown")
        nameless = client(None)
        found["without a name of software"] = is_matched(True, lambda: nameless.requested(uuid4()))
        instance = uuid4()
        text = base64.urlsafe_b64encode(instance.bytes).decode().rstrip("=")
        subscribe("match", metrics="match.", match=f"client_instance_id={text}")
        other = is_matched(False, lambda: client(None).requested(uuid4()))
        found["of an instance"] = "match." in client().requested(instance)[0], other
        subscribe("match")

        subscribe("first", metrics="org.a.", interval="100")
        now((["org.a."], 100))
        pushing = client()
        pushing.requested()
        found["pushed"] = [pushing.push(), pushing.push()]
        time.sleep(INTERVAL * 1.5)
        found["pushed"].append(pushing.push())
        subscribe("first", metrics="org.b.", interval="100")
        now((["org.b."], 100))
        refused = pushing.push()
        pushing.requested()
        found["pushed after a change"] = [refused, pushing.push()]
        time.sleep(INTERVAL * 1.5)
        found["pushed after a change"].append(pushing.push())
        subscribe("second", metrics="org.c.", match="client_id=nobody")
        time.sleep(INTERVAL * 1.5)
        found["pushed after a change of others"] = pushing.push()
        subscribe("second")
        subscribe("first")
        now(([], 300_000))
        found["pushed after the end"] = pushing.push()
        found["after the end"] = pushing.requested()
        return found
