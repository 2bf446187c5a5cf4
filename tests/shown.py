"""What clients show of what they are given: in logs at the finest level, in themselves and in errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import traceback
from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

import ottla
from ottla import aio, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


# Each kind of client, what it needs beside the options, and what it is asked for.
KINDS: list[tuple[str, dict[str, str], Callable[[Any], Any]]] = [
    ("Admin", {}, lambda admin: admin.list_topics()),
    ("Producer", {}, lambda producer: producer.partitions_for("t")),
    ("Consumer", {"group_id": "g"}, lambda consumer: consumer.end_offsets([("t", 0)])),
    ("ShareConsumer", {"group_id": "s"}, lambda sharer: sharer.commit()),
]


def forms(secret: str | bytes) -> set[str]:
    """How a secret may stand in a text: as it is, escaped, encoded, or as a debug form of its bytes."""
    data = secret.encode() if isinstance(secret, str) else secret
    return {
        data.decode(errors="backslashreplace"),
        repr(data)[2:-1],
        data.hex(),
        data.hex().upper(),
        quote(data),
        b64encode(data).decode(),
        urlsafe_b64encode(data).decode(),
        ", ".join(map(str, data)),
    }


class Shown:
    """Collects what is shown."""

    def __init__(self, logs: pytest.LogCaptureFixture) -> None:
        self._logs = logs
        self._texts: list[str] = []

    def of_client(self, call: Callable[[ottla.Admin], Any] = ottla.Admin.list_topics, **options: Any) -> None:
        """What an admin client with these options shows while it answers `call` or fails."""
        with self._watching(), ottla.Admin(**options) as admin:
            self._look_at(admin)
            self._texts.append(repr(call(admin)))

    def of_every_client(self, **options: Any) -> None:
        """What clients of each kind with these options show, of both facades, while they ask for something or fail."""
        for kind, more, ask in KINDS:
            with self._watching(), getattr(ottla, kind)(**options, **more) as client:
                self._look_at(client)
                self._texts.append(repr(ask(client)))

        async def on_a_loop() -> None:
            for kind, more, ask in KINDS:
                with self._watching():
                    async with getattr(aio, kind)(**options, **more) as client:
                        self._look_at(client)
                        self._texts.append(repr(await ask(client)))

        asyncio.run(on_a_loop())

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        with self._logs.at_level(logging.DEBUG, "ottla"):
            try:
                yield
            except errors.KafkaError as error:
                self._texts += [str(error), repr(error), repr(vars(error)), repr(error.__reduce__())]
                self._texts += traceback.format_exception(error)

    def _look_at(self, client: object) -> None:
        self._texts += [repr(client), str(client), repr(getattr(client, "__dict__", ""))]
        with pytest.raises(TypeError) as refused:
            pickle.dumps(client)
        self._texts.append(str(refused.value))

    def texts(self) -> list[str]:
        """All of it."""
        assert self._logs.records, "nothing was logged, so that nothing was looked at"
        return self._texts + [f"{record.getMessage()} {vars(record)}" for record in self._logs.records]

    def has(self, word: str) -> bool:
        """Whether a word is in it, which shows that it is not all hidden."""
        return any(word in text for text in self.texts())

    def found(self, secrets: Iterable[str | bytes]) -> list[str]:
        """The texts that have one of the secrets in any form."""
        looked_for = set().union(*map(forms, secrets)) - {""}
        return [text for text in self.texts() if any(form in text for form in looked_for)]
