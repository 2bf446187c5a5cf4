"""Confluent's REST API: from a request to the store, and from the store to a response."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ottla.testing._registry import errors
from ottla.testing._registry.names import DEFAULT_CONTEXT, Name
from ottla.testing._registry.store import LEVELS, MODES, Store, Version

TYPES = ("JSON", "PROTOBUF", "AVRO")
_FORMATS_OF_CONFIG = (
    "alias",
    "normalize",
    "validateFields",
    "validateRules",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)


class Request(NamedTuple):
    """A request.

    Attributes:
        method: The HTTP method.
        context: The context that the path names, for names without one.
        query: The query; the last value of each name.
        queries: The query; all values of each name.
        body: The JSON object in the body; empty without a body.
    """

    method: str
    context: str
    query: Mapping[str, str]
    queries: Mapping[str, list[str]]
    body: Mapping[str, Any]

    def flag(self, name: str) -> bool:
        """Whether a parameter is `true`."""
        return self.query.get(name, "").lower() == "true"

    def name(self, text: str) -> Name:
        """A subject in its context."""
        return Name.parse(text, self.context)

    def page(self, found: list[Any]) -> list[Any]:
        """The part of a list that `offset` and `limit` select."""
        offset, limit = int(self.query.get("offset", 0)), int(self.query.get("limit", -1))
        return found[offset:] if limit < 0 else found[offset : offset + limit]


Handler = Callable[..., Any]
_ROUTES: list[tuple[str, re.Pattern[str], Handler]] = []
# Configurations and modes of an alias are its own: only paths under `subjects` follow it.
_SUBJECT = re.compile(r"(/subjects/)([^/]+)")


def _route(method: str, path: str) -> Callable[[Handler], Handler]:
    pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]*)", path) + "/?")

    def add(handler: Handler) -> Handler:
        _ROUTES.append((method, pattern, handler))
        return handler

    return add


def respond(store: Store, method: str, target: str, body: Mapping[str, Any]) -> Any:
    """The response to a request, as data to write as JSON.

    Raises:
        RestError: The response is an error.
    """
    parts = urlsplit(target)
    queries = parse_qs(parts.query, keep_blank_values=True)
    path, context = parts.path, DEFAULT_CONTEXT
    if found := re.match(r"/contexts/([^/]+)(?=/)", path):
        path = path[found.end() :]
        context = "." + unquote(found[1]).strip(":").lstrip(".")
    request = Request(method, context, {name: values[-1] for name, values in queries.items()}, queries, body)
    known = False
    with store.lock:
        path = _SUBJECT.sub(lambda found: found[1] + quote(_aliased(store, request, unquote(found[2])), safe=""), path)
        for wanted, pattern, handler in _ROUTES:
            if match := pattern.fullmatch(path):
                if wanted == method:
                    return handler(store, request, *map(unquote, match.groups()))
                known = True
    raise (
        errors.RestError(405, 405, "HTTP 405 Method Not Allowed")
        if known
        else errors.RestError(404, 404, "HTTP 404 Not Found")
    )


def _aliased(store: Store, request: Request, text: str) -> str:
    """The subject that an alias stands for, in the alias's context; any other subject stays."""
    name = request.name(text)
    alias = (store.own_config(name) or {}).get("alias")
    return str(Name.parse(str(alias), name.context)) if name.subject and alias else text


# Schemas.


def _shown(version: Version, request: Request) -> dict[str, Any]:
    """A version with all that belongs to it."""
    shown: dict[str, Any] = {
        "subject": str(version.name),
        "version": version.number,
        "id": version.id,
        "guid": version.guid,
        **_content(version, request),
    }
    if version.deleted:
        shown["deleted"] = True
    return shown


def _content(version: Version, request: Request) -> dict[str, Any]:
    """A schema without its place."""
    shown: dict[str, Any] = {} if version.kind == "AVRO" else {"schemaType": version.kind}
    if version.references:
        shown["references"] = version.references
    return shown | version.extra | {"schema": version.parsed.formatted(request.query.get("format", ""))}


@_route("GET", "/")
def _root(store: Store, request: Request) -> dict[str, Any]:  # noqa: ARG001 - as every handler
    return {}


@_route("GET", "/schemas/types")
def _types(store: Store, request: Request) -> tuple[str, ...]:  # noqa: ARG001 - as every handler
    return TYPES


@_route("GET", "/schemas")
def _schemas(store: Store, request: Request) -> list[Any]:
    prefix = request.query.get("subjectPrefix", ":*:")
    found = []
    for name in store.subjects(prefix, deleted=request.flag("deleted"), only_deleted=False):
        versions = store.versions[name] if request.flag("deleted") else store.live(name)
        found += versions[-1:] if request.flag("latestOnly") else versions
    return request.page([_shown(one, request) for one in found])


def _by_id(store: Store, request: Request, text: str) -> list[Version]:
    if not text.isdecimal():
        raise errors.RestError(404, 404, "HTTP 404 Not Found")
    subject = request.query.get("subject")
    name = request.name(_aliased(store, request, subject)) if subject else Name(request.context, "")
    found = store.by_id(int(text), name)
    if not found:
        raise errors.schema_not_found(int(text))
    return found


@_route("GET", "/schemas/ids/{id}")
def _schema_of_id(store: Store, request: Request, text: str) -> dict[str, Any]:
    found = _by_id(store, request, text)[0]
    shown = {**_content(found, request), "guid": found.guid, "subject": str(found.name), "version": found.number}
    if request.flag("fetchMaxId"):
        shown["maxId"] = max(one.id for one in store.all_versions() if one.name.context == found.name.context)
    return shown


@_route("GET", "/schemas/ids/{id}/schema")
def _text_of_id(store: Store, request: Request, text: str) -> RawText:
    return RawText(_by_id(store, request, text)[0].parsed.formatted(request.query.get("format", "")))


@_route("GET", "/schemas/ids/{id}/subjects")
def _subjects_of_id(store: Store, request: Request, text: str) -> list[str]:
    found = [one for one in _by_id(store, request, text) if request.flag("deleted") or not one.deleted]
    return request.page(sorted({str(one.name) for one in found}))


@_route("GET", "/schemas/ids/{id}/versions")
def _versions_of_id(store: Store, request: Request, text: str) -> list[Any]:
    found = [one for one in _by_id(store, request, text) if request.flag("deleted") or not one.deleted]
    return request.page([{"subject": str(one.name), "version": one.number} for one in found])


def _by_guid(store: Store, guid: str) -> list[Version]:
    found = store.by_guid(guid)
    if not found:
        raise errors.schema_not_found(guid)
    return found


@_route("GET", "/schemas/guids/{guid}")
def _schema_of_guid(store: Store, request: Request, guid: str) -> dict[str, Any]:
    return {**_content(_by_guid(store, guid)[0], request), "guid": guid}


@_route("GET", "/schemas/guids/{guid}/ids")
def _ids_of_guid(store: Store, request: Request, guid: str) -> list[dict[str, Any]]:  # noqa: ARG001 - as every handler
    found = {(one.name.context, one.id) for one in _by_guid(store, guid)}
    return [{"context": context, "id": number} for context, number in sorted(found)]


# Subjects.


@_route("GET", "/contexts")
def _contexts(store: Store, request: Request) -> list[str]:
    return request.page(store.contexts())


@_route("GET", "/subjects")
def _subjects(store: Store, request: Request) -> list[str]:
    prefix = request.query.get("subjectPrefix", ":*:" if request.context == DEFAULT_CONTEXT else "")
    if request.context != DEFAULT_CONTEXT and not prefix.startswith(":"):
        prefix = f":{request.context}:{prefix}"
    found = store.subjects(prefix, deleted=request.flag("deleted"), only_deleted=request.flag("deletedOnly"))
    return request.page([str(name) for name in found])


@_route("POST", "/subjects/{subject}")
def _lookup(store: Store, request: Request, subject: str) -> dict[str, Any]:
    name = request.name(subject)
    deleted = request.flag("deleted")
    if not (store.versions.get(name) if deleted else store.live(name)):
        raise errors.subject_not_found(str(name))
    candidate = store.candidate(name, request.body, normalize=request.flag("normalize"))
    return _shown(store.find(name, candidate, deleted=deleted), request)


@_route("DELETE", "/subjects/{subject}")
def _delete_subject(store: Store, request: Request, subject: str) -> list[int]:
    return store.delete_subject(request.name(subject), permanent=request.flag("permanent"))


@_route("GET", "/subjects/{subject}/metadata")
def _latest_with_metadata(store: Store, request: Request, subject: str) -> dict[str, Any]:
    name = request.name(subject)
    wanted = dict(zip(request.queries.get("key", ()), request.queries.get("value", ()), strict=False))
    versions = store.versions.get(name, []) if request.flag("deleted") else store.live(name)
    if not versions:
        raise errors.subject_not_found(str(name))
    for one in reversed(versions):
        if wanted.items() <= ((one.extra.get("metadata") or {}).get("properties") or {}).items():
            return _shown(one, request)
    raise errors.schema_not_found()


@_route("GET", "/subjects/{subject}/versions")
def _versions(store: Store, request: Request, subject: str) -> list[int]:
    name = request.name(subject)
    found = store.versions.get(name, [])
    if request.flag("deletedOnly"):
        found = [one for one in found if one.deleted]
    elif not request.flag("deleted"):
        found = store.live(name)
    if not found:
        raise errors.subject_not_found(str(name))
    negative = request.flag("deletedAsNegative")
    return request.page([-one.number if negative and one.deleted else one.number for one in found])


@_route("POST", "/subjects/{subject}/versions")
def _register(store: Store, request: Request, subject: str) -> dict[str, Any]:
    made = store.register(request.name(subject), request.body, normalize=request.flag("normalize"))
    return {name: value for name, value in _shown(made, request).items() if name != "subject"}


@_route("GET", "/subjects/{subject}/versions/{version}")
def _version(store: Store, request: Request, subject: str, version: str) -> dict[str, Any]:
    return _shown(store.version(request.name(subject), version, deleted=request.flag("deleted")), request)


@_route("GET", "/subjects/{subject}/versions/{version}/schema")
def _text_of_version(store: Store, request: Request, subject: str, version: str) -> RawText:
    found = store.version(request.name(subject), version, deleted=request.flag("deleted"))
    return RawText(found.parsed.formatted(request.query.get("format", "")))


@_route("GET", "/subjects/{subject}/versions/{version}/referencedby")
def _referenced_by(store: Store, request: Request, subject: str, version: str) -> list[int]:
    found = store.referring(store.version(request.name(subject), version, deleted=True))
    return request.page(sorted({one.id for one in found if request.flag("deleted") or not one.deleted}))


@_route("DELETE", "/subjects/{subject}/versions/{version}")
def _delete_version(store: Store, request: Request, subject: str, version: str) -> int:
    return store.delete_version(request.name(subject), version, permanent=request.flag("permanent"))


# Compatibility.


def _checked(store: Store, request: Request, name: Name, earlier: list[Version]) -> dict[str, Any]:
    candidate = store.candidate(name, request.body, normalize=request.flag("normalize"))
    found = store.problems(name, candidate, earlier)
    return {"is_compatible": not found} | ({"messages": found} if request.flag("verbose") else {})


@_route("POST", "/compatibility/subjects/{subject}/versions/{version}")
def _compatible_with(store: Store, request: Request, subject: str, version: str) -> dict[str, Any]:
    name = request.name(subject)
    if version == "latest" and not store.live(name):
        return _checked(store, request, name, [])
    return _checked(store, request, name, [store.version(name, version)])


@_route("POST", "/compatibility/subjects/{subject}/versions")
def _compatible_with_all(store: Store, request: Request, subject: str) -> dict[str, Any]:
    name = request.name(subject)
    return _checked(store, request, name, store.live(name))


# Configurations.


def _scope(request: Request, subject: str | None) -> Name | None:
    """What a configuration or a mode is of; None for all."""
    if subject is not None:
        return request.name(subject)
    return None if request.context == DEFAULT_CONTEXT else Name(request.context, "")


@_route("GET", "/config")
@_route("GET", "/config/{subject}")
def _config(store: Store, request: Request, subject: str | None = None) -> dict[str, Any]:
    name = _scope(request, subject)
    if name is None or request.flag("defaultToGlobal"):
        return store.config(name)
    found = store.own_config(name)
    if found is None:
        raise errors.config_not_found(str(name))
    return found


@_route("PUT", "/config")
@_route("PUT", "/config/{subject}")
def _set_config(store: Store, request: Request, subject: str | None = None) -> dict[str, Any]:
    given = {name: request.body[name] for name in _FORMATS_OF_CONFIG if name in request.body}
    level = request.body.get("compatibility")
    if level is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise errors.invalid_compatibility()
        given["compatibilityLevel"] = level.upper()
    store.set_config(_scope(request, subject), given)
    return dict(request.body) | ({} if level is None else {"compatibility": level.upper()})


@_route("DELETE", "/config")
@_route("DELETE", "/config/{subject}")
def _delete_config(store: Store, request: Request, subject: str | None = None) -> dict[str, Any]:
    name = _scope(request, subject)
    if name is not None and store.own_config(name) is None:
        raise errors.subject_not_found(str(name))
    return store.delete_config(name)


# Modes.


@_route("GET", "/mode")
@_route("GET", "/mode/{subject}")
def _mode(store: Store, request: Request, subject: str | None = None) -> dict[str, str]:
    name = _scope(request, subject)
    if name is None or request.flag("defaultToGlobal"):
        return {"mode": store.mode(name)}
    found = store.own_mode(name)
    if found is None:
        raise errors.mode_not_found(str(name))
    return {"mode": found}


@_route("PUT", "/mode")
@_route("PUT", "/mode/{subject}")
def _set_mode(store: Store, request: Request, subject: str | None = None) -> dict[str, str]:
    mode = request.body.get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise errors.invalid_mode()
    store.set_mode(_scope(request, subject), mode.upper(), force=request.flag("force"))
    return {"mode": mode.upper()}


@_route("DELETE", "/mode")
@_route("DELETE", "/mode/{subject}")
def _delete_mode(store: Store, request: Request, subject: str | None = None) -> dict[str, str]:
    name = _scope(request, subject)
    found = store.delete_mode(name)
    if found is None and name is not None:
        raise errors.subject_not_found(str(name))
    return {"mode": found or "READWRITE"}


class RawText(str):
    """A schema alone, which is the whole body."""

    __slots__ = ()
