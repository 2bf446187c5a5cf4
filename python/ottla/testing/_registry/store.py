"""The schemas, configurations and modes of a registry, in memory."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.testing._registry import errors
from ottla.testing._registry.names import ALL_CONTEXTS, DEFAULT_CONTEXT, Name
from ottla.testing._registry.parsed import ParsedSchema, parse

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_DIFFERENT_TYPE = "Incompatible because of different schema type"


@dataclass
class Version:
    """A version of a subject.

    Attributes:
        name: The subject.
        number: The version, from 1 up.
        id: The schema's id in its context.
        kind: `AVRO`, `JSON` or `PROTOBUF`.
        parsed: The schema.
        references: The schemas that it names, each a `name`, `subject` and `version`.
        extra: Its metadata and rules.
        deleted: Whether it is soft deleted.
    """

    name: Name
    number: int
    id: int
    kind: str
    parsed: ParsedSchema
    references: list[dict[str, Any]]
    extra: dict[str, Any]
    deleted: bool = False

    @property
    def guid(self) -> str:
        """The schema's GUID, which is the same in all contexts."""
        digest = hashlib.md5(self.parsed.text.encode(), usedforsecurity=False)
        for one in self.references:
            digest.update(
                f"{one['name']}{one['subject']}".encode() + int(one["version"]).to_bytes(4, "big", signed=True)
            )
        if self.extra:
            digest.update(repr(sorted(self.extra.items())).encode())
        return str(uuid.UUID(bytes=digest.digest()))


class Candidate(NamedTuple):
    """A schema that a request holds.

    Attributes:
        kind: `AVRO`, `JSON` or `PROTOBUF`.
        parsed: The schema.
        references: The schemas that it names.
        extra: Its metadata and rules.
    """

    kind: str
    parsed: ParsedSchema
    references: list[dict[str, Any]]
    extra: dict[str, Any]

    def is_same(self, version: Version) -> bool:
        """Whether a version is this schema."""
        return (
            version.kind == self.kind
            and version.parsed.identity == self.parsed.identity
            and version.references == self.references
            and version.extra == self.extra
        )


@dataclass
class Store:
    """The state of a registry. The caller holds the lock.

    Attributes:
        lock: One request at a time.
        versions: The versions of each subject in order, soft deleted ones included.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    versions: dict[Name, list[Version]] = field(default_factory=dict)
    _configs: dict[Name | None, dict[str, Any]] = field(default_factory=dict)
    _modes: dict[Name | None, str] = field(default_factory=dict)
    _last_ids: dict[str, int] = field(default_factory=dict)

    # Schemas.

    def candidate(self, name: Name, request: Mapping[str, Any], *, normalize: bool) -> Candidate:
        """Read the schema of a request.

        Raises:
            RestError: It is invalid.
        """
        kind, text = request.get("schemaType") or "AVRO", request.get("schema")
        if not isinstance(text, str) or not text:
            raise errors.invalid_schema("Empty schema")
        references = [
            {"name": one.get("name"), "subject": one.get("subject"), "version": one.get("version")}
            for one in request.get("references") or ()
        ]
        extra = {part: request[part] for part in ("metadata", "ruleSet") if request.get(part)}
        try:
            parsed = parse(kind, text, self._texts(name.context, references))
            if normalize or self.config(name).get("normalize"):
                parsed = parse(kind, parsed.normalized(), self._texts(name.context, references))
                references.sort(key=lambda one: str(one["name"]))
        except errors.SchemaError as error:
            shown = f"{{subject={name},version=null,id=null,schemaType={kind},references={references},schema={text}}}"
            raise errors.invalid_schema(
                f"Invalid schema {shown} with refs {references} of type {kind}, details: {error}"
            ) from error
        return Candidate(kind, parsed, references, extra)

    def _texts(self, context: str, references: list[dict[str, Any]]) -> dict[str, str]:
        """The texts of references and of theirs, those that others name first."""
        found: dict[str, str] = {}
        for one in references:
            where = Name.parse(str(one["subject"]), context)
            version = self._version(where, one["version"])
            if version is None:
                raise errors.SchemaError(
                    f'No schema reference found for subject "{one["subject"]}" and version {one["version"]}'
                )
            found |= self._texts(where.context, version.references)
            found.setdefault(str(one["name"]), version.parsed.formatted("serialized"))
        return found

    def _version(self, name: Name, number: object) -> Version | None:
        """A version by its number, soft deleted ones too; -1 is the latest that is not deleted."""
        if number == -1:
            return next((one for one in reversed(self.versions.get(name, [])) if not one.deleted), None)
        return next((one for one in self.versions.get(name, []) if one.number == number), None)

    def live(self, name: Name) -> list[Version]:
        """The versions of a subject that are not deleted."""
        return [one for one in self.versions.get(name, []) if not one.deleted]

    def version(self, name: Name, text: str, *, deleted: bool = False) -> Version:
        """A version of a subject, by its number or as `latest`.

        Raises:
            RestError: It does not exist.
        """
        number = number_of(text)
        if not self.versions.get(name) or not (deleted or self.live(name)):
            raise errors.subject_not_found(str(name))
        found = self._version(name, number)
        if found is None and deleted and number == -1:
            found = self.versions[name][-1]
        if found is None or (found.deleted and not deleted):
            raise errors.version_not_found(number)
        return found

    def find(self, name: Name, candidate: Candidate, *, deleted: bool = False) -> Version:
        """The version of a subject that is a schema.

        Raises:
            RestError: It does not exist.
        """
        if not (self.versions.get(name) if deleted else self.live(name)):
            raise errors.subject_not_found(str(name))
        for one in reversed(self.versions[name]):
            if (deleted or not one.deleted) and candidate.is_same(one):
                return one
        raise errors.schema_not_found()

    def register(self, name: Name, request: Mapping[str, Any], *, normalize: bool) -> Version:
        """Add a schema to a subject, unless it is a version of it.

        Raises:
            RestError: It is invalid or incompatible, or the mode does not allow it.
        """
        if not name.subject:
            raise errors.invalid_subject(str(name))
        wanted_id, wanted_number = request.get("id") or -1, request.get("version") or 0
        candidate = self.candidate(name, request, normalize=normalize)
        same = next((one for one in reversed(self.live(name)) if candidate.is_same(one)), None)
        if same is not None and wanted_id in {-1, same.id}:
            return same
        self._check_writable(name, importing=wanted_id >= 0)
        if same is not None:
            raise errors.id_does_not_match(same.id)
        is_import = self.mode(name) == "IMPORT"
        if not is_import and (details := self.problems(name, candidate, self.live(name))):
            raise errors.incompatible(str(name), details)
        known = self.versions.setdefault(name, [])
        made = Version(
            name=name,
            number=wanted_number
            if is_import and wanted_number > 0
            else max((one.number for one in known), default=0) + 1,
            id=self._id_of(name.context, candidate, wanted_id),
            kind=candidate.kind,
            parsed=candidate.parsed,
            references=candidate.references,
            extra=candidate.extra,
        )
        self.versions[name] = sorted(
            [*(one for one in known if one.number != made.number), made], key=lambda v: v.number
        )
        return made

    def _id_of(self, context: str, candidate: Candidate, wanted: int) -> int:
        """The id of a schema in a context: one id however many subjects have it."""
        for one in self.all_versions():
            if one.name.context != context:
                continue
            if wanted < 0 and candidate.is_same(one):
                return one.id
            if one.id == wanted and not candidate.is_same(one):
                raise errors.not_permitted(
                    f"Overwrite new schema with id {wanted} in context {context} is not permitted."
                )
        made = wanted if wanted >= 0 else self._last_ids.get(context, 0) + 1
        self._last_ids[context] = max(made, self._last_ids.get(context, 0))
        return made

    def all_versions(self) -> Iterator[Version]:
        """Every version, soft deleted ones too."""
        for versions in self.versions.values():
            yield from versions

    def by_id(self, id: int, name: Name | None) -> list[Version]:  # noqa: A002
        """The versions with an id, in the context that the subject selects.

        A subject without a context is looked for in the default context, then in the other ones.
        """
        name = name or Name(DEFAULT_CONTEXT, "")
        found = [one for one in self.all_versions() if one.id == id]
        here = [one for one in found if one.name.context == name.context]
        if not name.subject:
            return here
        if of_subject := [one for one in here if one.name.subject == name.subject]:
            return of_subject
        if name.context != DEFAULT_CONTEXT:
            return []
        return [one for one in found if one.name.subject == name.subject] or here

    def by_guid(self, guid: str) -> list[Version]:
        """The versions with a GUID."""
        return [one for one in self.all_versions() if one.guid == guid]

    def referring(self, version: Version) -> list[Version]:
        """The versions that refer to a version."""
        return [
            one
            for one in self.all_versions()
            for reference in one.references
            if Name.parse(str(reference["subject"]), one.name.context) == version.name
            and reference["version"] == version.number
        ]

    def subjects(self, prefix: str, *, deleted: bool, only_deleted: bool) -> list[Name]:
        """The subjects whose names begin with a prefix; `:*:` is that of all contexts."""
        everywhere = prefix.startswith(ALL_CONTEXTS)
        wanted = Name.parse(prefix.removeprefix(ALL_CONTEXTS))
        found = []
        for name, versions in self.versions.items():
            if not versions or not name.subject.startswith(wanted.subject):
                continue
            is_deleted = all(one.deleted for one in versions)
            if (everywhere or name.context == wanted.context) and (
                is_deleted if only_deleted else deleted or not is_deleted
            ):
                found.append(name)
        return sorted(found, key=str)

    def contexts(self) -> list[str]:
        """The contexts that have subjects, and the default one."""
        return sorted({DEFAULT_CONTEXT, *(name.context for name, versions in self.versions.items() if versions)})

    # Compatibility.

    def problems(self, name: Name, candidate: Candidate, earlier: list[Version]) -> list[str]:
        """Why a schema is incompatible with earlier versions, by the level of the subject; empty if it is not."""
        config = self.config(name)
        level = config["compatibilityLevel"]
        if group := config.get("compatibilityGroup"):
            wanted = _property(candidate.extra, group)
            earlier = [one for one in earlier if _property(one.extra, group) == wanted]
        if level == "NONE":
            return []
        lenient = str(config.get("compatibilityPolicy", "")).upper() == "LENIENT"
        for one in reversed(earlier if level.endswith("_TRANSITIVE") else earlier[-1:]):
            found = _differences(level, candidate, one, lenient=lenient)
            if found:
                shown = [
                    f"{{oldSchemaVersion: {one.number}}}",
                    f"{{oldSchema: '{one.parsed.text}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
                return [*found, *shown]
        return []

    # Deletes.

    def delete_subject(self, name: Name, *, permanent: bool) -> list[int]:
        """Delete all versions of a subject.

        Returns:
            Their numbers.

        Raises:
            RestError: There is no such subject, it is in use, or it was (or was not) soft deleted.
        """
        versions = self.versions.get(name)
        if not versions:
            raise errors.subject_not_found(str(name))
        self._check_writable(name, deleting=True)
        live = self.live(name)
        if permanent and live:
            raise errors.subject_not_soft_deleted(str(name))
        if not permanent and not live:
            raise errors.subject_soft_deleted(str(name))
        for one in versions if permanent else live:
            if any(permanent or not other.deleted for other in self.referring(one)):
                raise errors.reference_exists(str(name), one.number)
        if permanent:
            del self.versions[name]
            self._configs.pop(name, None)
            self._modes.pop(name, None)
            return [one.number for one in versions]
        for one in live:
            one.deleted = True
        return [one.number for one in live]

    def delete_version(self, name: Name, text: str, *, permanent: bool) -> int:
        """Delete a version of a subject, and return its number.

        Raises:
            RestError: There is no such version, it is in use, or it was (or was not) soft deleted.
        """
        one = self.version(name, text, deleted=True)
        self._check_writable(name, deleting=True)
        if permanent and not one.deleted:
            raise errors.version_not_soft_deleted(str(name), one.number)
        if not permanent and one.deleted:
            raise errors.version_soft_deleted(str(name), one.number)
        if any(permanent or not other.deleted for other in self.referring(one)):
            raise errors.reference_exists(str(name), one.number)
        if permanent:
            self.versions[name].remove(one)
        one.deleted = True
        if not self.live(name):
            self._configs.pop(name, None)
        return one.number

    # Configurations and modes: of a subject, of a context (a name without a subject) or global (None).

    def config(self, name: Name | None) -> dict[str, Any]:
        """The configuration that holds for a subject: its own over its context's over the global one."""
        found = {"compatibilityLevel": "BACKWARD", **self._configs.get(None, {})}
        if name is not None:
            found |= self._configs.get(Name(name.context, ""), {}) | self._configs.get(name, {})
        return found

    def own_config(self, name: Name | None) -> dict[str, Any] | None:
        """The configuration of a subject, or the global one; None if it has none."""
        return self._configs.get(name)

    def set_config(self, name: Name | None, config: dict[str, Any]) -> None:
        """Set values of a configuration."""
        self._configs[name] = {**self._configs.get(name, {}), **config}

    def delete_config(self, name: Name | None) -> dict[str, Any]:
        """Remove a configuration, and return it."""
        return self._configs.pop(name, None) or {"compatibilityLevel": "BACKWARD"}

    def mode(self, name: Name | None) -> str:
        """The mode that holds for a subject."""
        top = self._modes.get(None, "READWRITE")
        # The mode of all subjects that no subject's mode lifts.
        if name is None or top == "READONLY_OVERRIDE":
            return top
        return self._modes.get(name) or self._modes.get(Name(name.context, "")) or top

    def own_mode(self, name: Name | None) -> str | None:
        """The mode of a subject, or the global one; None if it has none."""
        return self._modes.get(name)

    def set_mode(self, name: Name | None, mode: str, *, force: bool) -> None:
        """Set a mode.

        Raises:
            RestError: There are subjects, which an import would overwrite.
        """
        if mode == "IMPORT" and not force and self.mode(name) != "IMPORT":
            covered = [
                other
                for other in self.versions
                if self.live(other) and (name is None or other == name or name == Name(other.context, ""))
            ]
            if covered:
                raise errors.not_permitted("Cannot import since found existing subjects")
        self._modes[name] = mode

    def delete_mode(self, name: Name | None) -> str | None:
        """Remove a mode, and return it."""
        return self._modes.pop(name, None)

    def _check_writable(self, name: Name, *, importing: bool = False, deleting: bool = False) -> None:
        mode, where = self.mode(name), f"Subject {name.subject} in context {name.context}"
        if mode.startswith("READONLY"):
            raise errors.not_permitted(f"{where} is in read-only mode")
        if deleting:
            return
        if importing and mode != "IMPORT":
            raise errors.not_permitted(f"{where} is not in import mode")
        if not importing and mode != "READWRITE":
            raise errors.not_permitted(f"{where} is not in read-write mode")


def number_of(text: str) -> int:
    """The number of a version; -1 for the latest.

    Raises:
        RestError: The text is neither a number from 1 up nor `latest`.
    """
    if text in {"latest", "-1"}:
        return -1
    if not text.isdecimal() or not 1 <= int(text) < 2**31:
        raise errors.invalid_version(text)
    return int(text)


def _property(extra: Mapping[str, Any], name: str) -> object:
    return ((extra.get("metadata") or {}).get("properties") or {}).get(name)


def _differences(level: str, candidate: Candidate, earlier: Version, *, lenient: bool) -> list[str]:
    """Why a schema and an earlier version are incompatible; of the two directions, each that the level checks."""
    if candidate.kind != earlier.kind:
        return [_DIFFERENT_TYPE]
    found = []
    if level.startswith(("BACKWARD", "FULL")):
        texts = candidate.parsed.problems(earlier.parsed, lenient=lenient)
        found += [text.replace("%s", "new", 1).replace("%s", "old", 1) for text in texts]
    if level.startswith(("FORWARD", "FULL")):
        texts = earlier.parsed.problems(candidate.parsed, lenient=lenient)
        found += [text.replace("%s", "old", 1).replace("%s", "new", 1) for text in texts]
    return found
