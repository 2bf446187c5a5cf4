"""A client of schema registries with Confluent's REST API: schemas by id, and ids by schema."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla._later import uuid
from ottla._ottla import __version__
from ottla.errors import (
    ArgumentError,
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    KafkaTimeoutError,
    NotFoundError,
    ProtocolError,
    UnreachableError,
)

if TYPE_CHECKING:
    import ssl

_MOST_BYTES = 16 << 20
"""Of one response."""
_DEEPEST = 50
"""References of references."""


T = TypeVar("T")


def unmarked(schema: T) -> T | str:
    """A schema without the byte order mark that editors on Windows begin a file with."""
    return schema.removeprefix("\ufeff") if isinstance(schema, str) else schema


def registry_of(given: object) -> Any:
    """A registry, or that of a URL.

    Raises:
        ArgumentError: It is neither.
        ConfigError: The URL cannot be used.
    """
    if isinstance(given, str):
        return _at(given)
    if given is None or hasattr(given, "schema"):
        return given
    raise ArgumentError(f"registry is a SchemaRegistry or its URL, not {type(given).__name__}")


# A loop that passes the URL each time requests each schema once.
@lru_cache(maxsize=16)
def _at(url: str) -> SchemaRegistry:
    return SchemaRegistry(url)


def subject_of(topic: str, column: str, schema: object = None) -> str:
    """The subject of a topic's keys or values, as Confluent's serializers name it by default.

    Args:
        topic: The topic.
        column: "key" or "value".
        schema: If a registry returned it from a context other than the default one, the subject is in that context.
    """
    known = schema.subject if isinstance(schema, RegisteredSchema) else None
    return f"{_context(known)}{topic}-{column}"


class RegisteredSchema(NamedTuple):
    """A schema in a registry.

    Attributes:
        type: "AVRO", "JSON" or "PROTOBUF".
        text: The schema's text; for Protobuf, the file's descriptor in base64, or the text of the .proto file from a
            registry without descriptors.
        references: Texts of the schemas that it names, each after those that it names itself.
        id: Its number, if the response has it.
        subject: Where it was looked up, if by subject.
        version: Its version there.
        guid: Its GUID, which is the same in all contexts, if the registry reports one.
    """

    type: str
    text: str
    references: tuple[str, ...] = ()
    id: int | None = None
    subject: str | None = None
    version: int | None = None
    guid: str | None = None

    def descriptors(self) -> list[bytes]:
        """Return the Protobuf files of the schema, those that are imported first.

        Returns:
            Serialized `FileDescriptorProto`s; the schema's own file is the last.

        Raises:
            ProtocolError: The registry returned the text of a .proto file, not a descriptor in base64.
        """
        try:
            return [base64.b64decode(text, validate=True) for text in (*self.references, self.text)]
        except ValueError as error:
            raise ProtocolError(
                "the registry returned a Protobuf schema that is not a descriptor in base64 (some registries have no "
                "descriptors): pass the descriptors as schema"
            ) from error


class SchemaRegistry:
    """A schema registry with Confluent's REST API. Threads may share it; it holds no connection, and it pickles.

    A schema with an id never changes, so each schema is requested once. Only requests to servers that cannot be reached
    or that return status 429 or 5xx are retried.

    ```python
    registry = ottla.SchemaRegistry("http://localhost:8081", auth=("user", "secret"))
    table = batch.decode(format="avro", registry=registry).to_arrow()
    ```
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        auth: tuple[str, str] | None = None,
        token: str | Callable[[], str] | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        key_password: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        retries: int = 3,
    ) -> None:
        """Set the registry's address; nothing is sent yet.

        Args:
            url: Of the registry, or of several of its servers, which are tried in turn; as a list or with commas. It
                has no user and password: those are `auth`.
            auth: User and password for HTTP basic authentication.
            token: A bearer token, or a callable that returns the current one.
            ca: Certificates that the server's is checked against, as a path or PEM; without it, those of the system.
            certificate: Path of a client certificate in PEM.
            key: Path of its private key, if it is in another file.
            key_password: Password of the key.
            headers: More headers for each request, such as `{"target-sr-cluster": "lsrc-1"}`.
            timeout: Seconds for one request with all its attempts.
            retries: Attempts after the first.

        Raises:
            ConfigError: A URL, a header or a certificate cannot be used.
        """
        given = url.split(",") if isinstance(url, str) else list(url)
        self._urls = [one.strip().rstrip("/") for one in given if one.strip()]
        _check_urls(self._urls)
        if not self._urls:
            raise ConfigError("a schema registry needs a URL")
        if auth is not None and token is not None:
            raise ConfigError("auth and token exclude each other: pass the one that the registry requires")
        if timeout <= 0 or retries < 0:
            raise ConfigError(f"timeout must be above 0 seconds and retries at least 0, not {timeout} and {retries}")
        if token is not None and not callable(token):
            _check_header("Authorization", token)
        self._auth, self._token = auth, token
        self._tls = (ca, certificate, key, key_password)
        self._headers = dict(headers or {})
        for name, value in self._headers.items():
            _check_header(name, value)
        self._timeout, self._retries = timeout, retries
        self._start()
        if any(one.startswith("https:") for one in self._urls):
            self._context()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[Any, ...], RegisteredSchema] = {}
        self._ids: dict[tuple[Any, ...], RegisteredSchema] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"_lock", "_known", "_ids"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        return f"SchemaRegistry({','.join(self._urls)!r})"

    def schema(
        self,
        id: int | bytes | uuid.UUID,  # noqa: A002
        *,
        subject: str | None = None,
    ) -> RegisteredSchema:
        """Returns the schema of an id, requested once.

        Args:
            id: A number, or a GUID, which newer serializers write.
            subject: A subject that has the schema, such as `"orders-value"`. Each context of a registry counts its own
                numbers; the subject selects the context. A GUID has one meaning in all contexts.

        Returns:
            The schema, with the texts of those that it names.

        Raises:
            NotFoundError: The registry has no such schema.
            UnreachableError: The registry cannot be reached, or returns status 429 or 5xx.
            AuthenticationError: It does not accept the credentials.
            AuthorizationError: It does not allow this.
            ConfigError: The token that the callable returns is not a valid header.
            KafkaTimeoutError: The time was up.
            ProtocolError: The response is not that of a schema registry.
        """
        if isinstance(id, int):
            return self._once(("id", id, subject), _Request.of_id(id, subject))
        guid = id if isinstance(id, uuid.UUID) else uuid.UUID(bytes=bytes(id))
        return self._once(("guid", guid), _Request(f"/schemas/guids/{guid}", None))

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Returns one version of a subject, requested once.

        Args:
            subject: The subject, such as `"orders-value"`.
            version: From 1 up.

        Returns:
            The schema, with the texts of those that it names.

        Raises:
            NotFoundError: The registry has no such subject or version.
            KafkaError: The other errors of `schema`.
        """
        return self._once(("version", subject, version), _Request.of_version(subject, version))

    def latest(self, subject: str) -> RegisteredSchema:
        """Returns the newest version of a subject, requested each time.

        Args:
            subject: The subject, such as `"orders-value"`.

        Returns:
            The schema, with the texts of those that it names.

        Raises:
            NotFoundError: The registry has no such subject, or it has no version.
            KafkaError: The other errors of `schema`.
        """
        return self._schema(_Request.of_version(subject, "latest"), _Path())

    def register(
        self,
        subject: str,
        schema: str,
        type: str = "AVRO",  # noqa: A002 - as `RegisteredSchema` names it
        references: Iterable[Mapping[str, Any]] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """Registers a schema as a version of a subject, unless it is one; requested once, and raises as `schema` does.

        Args:
            subject: The subject, such as `"orders-value"`.
            schema: The schema's text; of Protobuf, also the file's descriptor in base64.
            type: "AVRO", "JSON" or "PROTOBUF".
            references: The schemas that it names, each a `name`, `subject` and `version`.
            normalize: Whether the registry first brings the schema into its normal form.

        Returns:
            The schema's id.

        Raises:
            ArgumentError: The registry rejects the schema as invalid, or as incompatible with earlier versions.
        """
        return self._number(f"/subjects/{_quoted(subject)}/versions", schema, type, references, normalize=normalize)

    def lookup(
        self,
        subject: str,
        schema: str,
        type: str = "AVRO",  # noqa: A002 - as `RegisteredSchema` names it
        references: Iterable[Mapping[str, Any]] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """Returns the id of a subject's schema; requested once, and raises as `schema` does.

        Args:
            subject: The subject, such as `"orders-value"`.
            schema: The schema's text; of Protobuf, also the file's descriptor in base64.
            type: "AVRO", "JSON" or "PROTOBUF".
            references: The schemas that it names, each a `name`, `subject` and `version`.
            normalize: Whether the registry first brings the schema into its normal form.

        Returns:
            The schema's id.

        Raises:
            NotFoundError: No version of the subject is this schema.
        """
        return self._number(f"/subjects/{_quoted(subject)}", schema, type, references, normalize=normalize)

    def find(
        self,
        subject: str,
        schema: str,
        type: str = "AVRO",  # noqa: A002 - as `RegisteredSchema` names it
        references: Iterable[Mapping[str, Any]] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Returns the version of a subject that is a schema, requested once.

        Args:
            subject: The subject, such as `"orders-value"`.
            schema: The schema's text; of Protobuf, also the file's descriptor in base64.
            type: "AVRO", "JSON" or "PROTOBUF".
            references: The schemas that it names, each a `name`, `subject` and `version`.
            normalize: Whether the registry first brings the schema into its normal form.

        Returns:
            The schema as it was passed, with its id, version and GUID.

        Raises:
            NotFoundError: No version of the subject is this schema.
            KafkaError: The other errors of `schema`.
        """
        path = f"/subjects/{_quoted(subject)}"
        return self._posted(path, schema, type, references, normalize=normalize)._replace(subject=subject)

    def _number(self, path: str, schema: str, type: str, references: Any, *, normalize: bool) -> int:  # noqa: A002
        return int(self._posted(path, schema, type, references, normalize=normalize).id or 0)

    def _posted(
        self,
        path: str,
        schema: str,
        type: str,  # noqa: A002
        references: Iterable[Mapping[str, Any]],
        *,
        normalize: bool,
    ) -> RegisteredSchema:
        if normalize:
            path += "?normalize=true"
        request: dict[str, Any] = {"schema": unmarked(schema)}
        # Older registries support only Avro, and no other field.
        if type != "AVRO":
            request["schemaType"] = type
        if listed := [dict(reference) for reference in references]:
            request["references"] = listed
        body = json.dumps(request).encode()
        with self._lock:
            found = self._ids.get((path, body))
        if found is None:
            response = self._get(path, body)
            number, version, guid = (response.get(name) for name in ("id", "version", "guid"))
            if not isinstance(number, int):
                raise ProtocolError(f"the response of the schema registry to {path} has no id")
            found = RegisteredSchema(
                type=type,
                text=schema,
                id=number,
                version=version if isinstance(version, int) else None,
                guid=guid if isinstance(guid, str) else None,
            )
            with self._lock:
                self._ids[path, body] = found
        return found

    def _once(self, key: tuple[Any, ...], request: _Request, above: _Path | None = None) -> RegisteredSchema:
        with self._lock:
            found = self._known.get(key)
        if found is None:
            found = self._schema(request, above or _Path())
            with self._lock:
                self._known[key] = found
        return found

    def _schema(self, request: _Request, above: _Path) -> RegisteredSchema:
        response = self._get(request.path())
        text = response.get("schema")
        kind = response.get("schemaType") or "AVRO"
        if not isinstance(text, str) or not isinstance(kind, str):
            raise ProtocolError(f"the response of the schema registry to {request.path()} has no schema")
        if kind == "PROTOBUF":
            text = self._serialized(request) or text
        subject = response.get("subject")
        texts: dict[str, None] = {}
        for reference in response.get("references") or ():
            inner = self._reference(reference, subject or request.subject, above)
            texts.update(dict.fromkeys((*inner.references, inner.text)))
        number, version = response.get("id", request.number), response.get("version")
        return RegisteredSchema(
            type=kind,
            text=text,
            references=tuple(texts),
            id=number if isinstance(number, int) else None,
            subject=subject,
            version=version if isinstance(version, int) else None,
            guid=guid if isinstance(guid := response.get("guid"), str) else None,
        )

    def _serialized(self, request: _Request) -> str | None:
        """A Protobuf schema as a descriptor that the registry makes of the text; None without support."""
        path = request.path(("format", "serialized"))
        try:
            text = self._get(path).get("schema")
        except (ArgumentError, NotFoundError):
            return None
        if not isinstance(text, str):
            raise ProtocolError(f"the response of the schema registry to {path} has no schema")
        return text

    def _reference(self, reference: Any, parent: str | None, above: _Path) -> RegisteredSchema:
        try:
            subject, version = str(reference["subject"]), int(reference["version"])
        except (TypeError, KeyError, ValueError) as error:
            raise ProtocolError(f"the schema registry returned a reference without a version: {reference}") from error
        if not _context(subject):
            subject = f"{_context(parent)}{subject}"
        # The schema may refer to a version that was deleted since.
        request = _Request.of_version(subject, version, ("deleted", "true"))
        return self._once(("reference", subject, version), request, above.below(subject, version))

    def _get(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The response to one request, from the first server that returns it within the time and the attempts.

        A body is posted. Registering a schema twice has the same result as once, so the request can be retried.
        """
        # HTTP and TLS are imported for the first request only: `import ottla` stays quick.
        import http.client
        import random
        import ssl

        end = time.monotonic() + self._timeout
        problem: Exception | None = None
        for attempt in range(self._retries + 1):
            if attempt:
                # Servers take turns; when all had theirs, a pause, longer each time and never twice the same.
                pause = 0.0 if attempt % len(self._urls) else min(2.0, 0.1 * 2 ** (attempt // len(self._urls)))
                pause *= random.uniform(0.5, 1)  # noqa: S311 - spreads clients, hides nothing
                if time.monotonic() + pause >= end:
                    break
                time.sleep(pause)
            url = self._urls[attempt % len(self._urls)]
            try:
                # A server that does not respond leaves time for the servers that were not tried
                # yet.
                left = (end - time.monotonic()) / max(1, len(self._urls) - attempt)
                status, content = self._request(url, path, left, body)
            except TimeoutError as error:
                problem = error
            except (OSError, http.client.HTTPException) as error:
                problem = error
                if isinstance(error, ssl.SSLCertVerificationError):
                    break
            else:
                if status == 429 or status >= 500:
                    problem = _RefusalError(f"it returned status {status}{_reason(content)}")
                else:
                    return _checked(url, path, status, content)
        text = f"the schema registry at {', '.join(self._urls)} did not return {path}: {problem or 'the time is up'}"
        if isinstance(problem, TimeoutError) or problem is None:
            raise KafkaTimeoutError(f"{text}, within {self._timeout:g} seconds") from problem
        raise UnreachableError(text) from problem

    def _request(self, url: str, path: str, seconds: float, body: bytes | None) -> tuple[int, bytes]:
        if seconds <= 0:
            raise TimeoutError("the time is up")
        from ottla import _http

        headers = self._request_headers()
        if body is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        method = "GET" if body is None else "POST"
        try:
            response = _http.request(
                method,
                url + path,
                headers=headers,
                body=body,
                context=self._context,
                timeout=seconds,
                most=_MOST_BYTES,
            )
        except _http.TooLongError:
            text = f"the schema registry at {url} returned more than {_MOST_BYTES} bytes for {path}"
            raise ProtocolError(text) from None
        return response.status, response.body

    def _request_headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/vnd.schemaregistry.v1+json, application/json",
            "User-Agent": f"ottla/{__version__}",
            **self._headers,
        }
        if self._auth is not None:
            user, password = self._auth
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        elif self._token is not None:
            token = self._token() if callable(self._token) else self._token
            _check_header("Authorization", token)
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _context(self) -> ssl.SSLContext:
        import ssl

        ca, certificate, key, password = self._tls
        try:
            pem = ca if ca is not None and "-----BEGIN" in ca else None
            context = ssl.create_default_context(cafile=None if pem else ca, cadata=pem)
            if certificate is not None:
                context.load_cert_chain(certificate, key, password)
        except (OSError, ValueError) as error:
            raise ConfigError(f"the certificates for the schema registry cannot be used: {error}") from error
        return context


class _RefusalError(Exception):
    """A server returned status 429 or 5xx."""


class _Request(NamedTuple):
    """A schema to request.

    Attributes:
        resource: The path without its query.
        subject: The subject of the schema; references without a context are in the same context.
        query: Names and values of the query.
        number: The schema's id, if the request has it: the response does not repeat it.
    """

    resource: str
    subject: str | None
    query: tuple[tuple[str, str], ...] = ()
    number: int | None = None

    @classmethod
    def of_id(cls, number: int, subject: str | None) -> _Request:
        """A schema by its number, in the context of a subject."""
        return cls(f"/schemas/ids/{number}", subject, () if subject is None else (("subject", subject),), number)

    @classmethod
    def of_version(cls, subject: str, version: int | str, *query: tuple[str, str]) -> _Request:
        """A version of a subject."""
        return cls(f"/subjects/{_quoted(subject)}/versions/{version}", subject, query)

    def path(self, *more: tuple[str, str]) -> str:
        """The path with its query, to which `more` is added."""
        from urllib.parse import quote, urlencode

        query = urlencode([*self.query, *more], quote_via=quote)
        return f"{self.resource}?{query}" if query else self.resource


class _Path(NamedTuple):
    """The references that led to a schema: one that leads back to itself would never end."""

    steps: tuple[tuple[str, int], ...] = ()

    def below(self, subject: str, version: int) -> _Path:
        if (subject, version) in self.steps or len(self.steps) >= _DEEPEST:
            raise ProtocolError(f"version {version} of subject {subject!r} refers to itself through its references")
        return _Path((*self.steps, (subject, version)))


def _context(subject: str | None) -> str:
    """The prefix of a subject that names its context, as `:.staging:`; empty for the default context."""
    if subject is None or not subject.startswith(":."):
        return ""
    context, colon, _ = subject[1:].partition(":")
    return f":{context}:" if colon and context != "." else ""


def _quoted(subject: str) -> str:
    """A subject as a part of a path."""
    from urllib.parse import quote

    return quote(subject, safe="")


def _check_urls(urls: list[str]) -> None:
    """Reject invalid URLs of a registry. Errors and `repr` show URLs, so a URL may not have a password."""
    if any("@" in url for url in urls):
        raise ConfigError(
            "the URL of a schema registry must not have a user and a password: pass auth=(user, password)"
        )
    from urllib.parse import urlsplit

    for url in urls:
        try:
            parts = urlsplit(url)
            # Reading the port validates it.
            is_address = parts.scheme in {"http", "https"} and parts.hostname is not None and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address:
            raise ConfigError(
                f"the URL of a schema registry must begin with http:// or https:// and have a host, not {url!r}"
            )
        if parts.query or parts.fragment:
            raise ConfigError("the URL of a schema registry must end with its path: remove everything after ? or #")


def _check_header(name: object, value: object) -> None:
    """Reject characters that would end a line of the request. The value may be a secret: no error shows it."""
    if not isinstance(name, str) or not name.isascii() or not name.isprintable() or set(name) & set(": ") or not name:
        raise ConfigError(f"the name of a header must be ASCII without spaces and colons, not {name!r}")
    if not isinstance(value, str):
        raise ConfigError(f"the header {name!r} for the schema registry must be a str, not {type(value).__name__}")
    if any(char in "\r\n\0" or ord(char) > 0xFF for char in value):
        raise ConfigError(
            f"the header {name!r} for the schema registry has a line end, or a character beyond Latin-1: strip "
            "the text that was read from a file"
        )


def _checked(url: str, path: str, status: int, body: bytes) -> dict[str, Any]:
    where = f"the schema registry at {url}"
    if status == 401:
        raise AuthenticationError(f"{where} does not accept the credentials{_reason(body)}: correct auth or token")
    if status == 403:
        raise AuthorizationError(f"{where} does not allow {path}{_reason(body)}")
    if status == 404:
        raise NotFoundError(f"{where} does not have {path}{_reason(body)}")
    if status != 200:
        raise ArgumentError(f"{where} rejected {path} with status {status}{_reason(body)}")
    try:
        response = json.loads(body)
    except ValueError as error:
        raise ProtocolError(
            f"the server at {url} is not a schema registry: its response to {path} is not JSON"
        ) from error
    if not isinstance(response, dict):
        raise ProtocolError(
            f"the server at {url} is not a schema registry: its response to {path} is not a JSON object"
        )
    return response


def _reason(body: bytes) -> str:
    """The error message of the registry, as `: Schema 7 not found`."""
    try:
        message = json.loads(body).get("message")
    except (ValueError, AttributeError):
        return ""
    return f": {message}" if isinstance(message, str) else ""
