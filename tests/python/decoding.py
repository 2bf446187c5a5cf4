"""What tests of decoding share: a way from values to a batch, and a schema registry to ask."""

from __future__ import annotations

import itertools
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import ottla

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NUMBERS = itertools.count()


def context_of(subject: str) -> str:
    """The context that a subject names, as `:.staging:`; empty for the default one."""
    return subject[: subject.index(":", 1) + 1] if subject.startswith(":.") else ""


class Sender:
    """Sends values to a fresh topic of one partition, and polls them back as one batch."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.producer = ottla.Producer(address)

    def __call__(self, values: Sequence[bytes | None], **record: Any) -> ottla.Batch:
        topic = f"decode-{next(NUMBERS)}"
        with ottla.Admin(self.address) as admin:
            admin.create_topics([topic])
        sent = [self.producer.send(topic, value, **record) for value in values]
        self.producer.flush(20)
        assert [delivery.result(20).offset for delivery in sent] == list(range(len(values)))
        with ottla.Consumer(self.address) as consumer:
            consumer.assign([ottla.TopicPartition(topic, 0, 0)])
            batch = consumer.poll(20, max_records=len(values))
            while (left := len(values) - len(batch)) > 0:
                more = consumer.poll(20, max_records=left)
                assert len(more)
                batch += more
        return batch


class FakeRegistry:
    """Confluent's REST API, as an HTTP server of this process.

    Attributes:
        url: Where it listens.
        requests: Paths that were asked for, in order.
        seen: Headers of the last request.
        fault: Called with the path before it is answered; a status and a body that it returns are the answer.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.seen: dict[str, str] = {}
        self.fault: Callable[[str], tuple[int, bytes] | None] = lambda path: None
        self._schemas: dict[str, dict[str, Any]] = {}
        # By context and number, the schema of each subject that has it.
        self._numbered: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(lambda: registry.answer(self.path))

            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.reply(lambda: registry.post(self.path, question))

            def reply(self, answer: Callable[[], tuple[int, bytes]]) -> None:
                registry.requests.append(self.path)
                registry.seen = {name.lower(): value for name, value in self.headers.items()}
                status, body = registry.fault(self.path) or answer()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                """Nothing to the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def add(
        self,
        subject: str,
        schema: str,
        *,
        kind: str = "AVRO",
        references: Sequence[dict[str, Any]] = (),
        serialized: str | None = None,
        guid: uuid.UUID | None = None,
    ) -> int:
        """Register a schema as the newest of its subject; its id, which each context counts from 1."""
        context = context_of(subject)
        number = 1 + max((taken for of, taken in self._numbered if of == context), default=0)
        version = 1 + sum(path.startswith(f"/subjects/{subject}/versions/v") for path in self._schemas)
        answer: dict[str, Any] = {"subject": subject, "id": number, "version": version, "schema": schema}
        answer |= {"guid": str(guid or uuid.UUID(int=number))}
        if kind != "AVRO":
            answer["schemaType"] = kind
        if references:
            answer["references"] = list(references)
        answer["serialized"] = serialized
        by_id = {name: value for name, value in answer.items() if name not in {"id", "version", "subject"}}
        self._numbered[context, number] = {subject: by_id}
        self._schemas |= {
            f"/schemas/guids/{answer['guid']}": by_id,
            f"/subjects/{subject}/versions/v{version}": answer,
            f"/subjects/{subject}/versions/{version}": answer,
            f"/subjects/{subject}/versions/latest": answer,
        }
        return number

    def answer(self, path: str) -> tuple[int, bytes]:
        """What a registry says."""
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query))
        found = self._schemas.get(unquote(parts.path))
        if parts.path.startswith("/schemas/ids/"):
            found = self._by_number(int(parts.path.rpartition("/")[2]), query.get("subject", ""))
        if found is None:
            return 404, b'{"error_code":40403,"message":"Schema not found"}'
        shown = {name: value for name, value in found.items() if name != "serialized"}
        if query.get("format") == "serialized":
            shown["schema"] = found["serialized"]
        return 200, json.dumps(shown).encode()

    def _by_number(self, number: int, subject: str) -> dict[str, Any] | None:
        """A schema by its number and a subject, in the order in which Confluent's registry looks."""
        context = context_of(subject)
        of_context = self._numbered.get((context, number), {})
        if subject == context:
            return next(iter(of_context.values()), None)
        if context or subject in of_context:
            return of_context.get(subject)
        for (other, taken), of_other in self._numbered.items():
            if taken == number and f"{other}{subject}" in of_other:
                return of_other[f"{other}{subject}"]
        return next(iter(of_context.values()), None)

    def post(self, path: str, question: dict[str, Any]) -> tuple[int, bytes]:
        """What a registry says to a schema: its id in the subject, after it was registered where the path asks for that."""
        subject, _, versions = unquote(urlsplit(path).path).removeprefix("/subjects/").partition("/")
        kind, schema = question.get("schemaType", "AVRO"), question["schema"]
        for place, known in self._schemas.items():
            is_same = known["schema"] == schema and known.get("schemaType", "AVRO") == kind
            if place.startswith(f"/subjects/{subject}/versions/v") and is_same:
                return 200, json.dumps(known).encode()
        if not versions:
            return 404, b'{"error_code":40403,"message":"Schema not found"}'
        # A Protobuf schema that is a descriptor in base64 is one in that form, too.
        number = self.add(subject, schema, kind=kind, references=question.get("references", ()), serialized=schema)
        return 200, json.dumps({"id": number}).encode()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
