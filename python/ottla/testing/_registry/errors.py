"""The errors of the schema registry, with the codes and texts of Confluent's."""

from __future__ import annotations


class RestError(Exception):
    """A response that reports an error.

    Attributes:
        status: The HTTP status.
        code: Confluent's error code.
        text: The message.
    """

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.code, self.text = status, code, text


class SchemaError(Exception):
    """A schema that its format does not allow."""


def subject_not_found(subject: str) -> RestError:
    """The subject has no version."""
    return RestError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RestError:
    """The subject does not have the version."""
    return RestError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema: object = None) -> RestError:
    """No schema has the id or the GUID; or, without one, the subject does not have the schema."""
    return RestError(404, 40403, "Schema not found" if schema is None else f"Schema {schema} not found")


def subject_soft_deleted(subject: str) -> RestError:
    """The subject was deleted already."""
    return RestError(404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RestError:
    """The subject cannot be deleted permanently yet."""
    return RestError(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RestError:
    """The version was deleted already."""
    text = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return RestError(404, 40406, text)


def version_not_soft_deleted(subject: str, version: int) -> RestError:
    """The version cannot be deleted permanently yet."""
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RestError(404, 40407, text)


def config_not_found(subject: str) -> RestError:
    """The subject has no configuration."""
    return RestError(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_found(subject: str) -> RestError:
    """The subject has no mode."""
    return RestError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> RestError:
    """The schema is incompatible with an earlier version."""
    listed = ", ".join(details)
    text = (
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{listed}]'
    )
    return RestError(409, 409, text)


def invalid_schema(text: str) -> RestError:
    """The schema cannot be read."""
    return RestError(422, 42201, text)


def invalid_version(version: str) -> RestError:
    """The version is neither a number nor `latest`."""
    text = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RestError(422, 42202, text)


def invalid_compatibility() -> RestError:
    """There is no such compatibility level."""
    text = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive"
    )
    return RestError(422, 42203, text)


def invalid_mode() -> RestError:
    """There is no such mode."""
    return RestError(422, 42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.")


def not_permitted(text: str) -> RestError:
    """The mode does not allow the request."""
    return RestError(422, 42205, text)


def reference_exists(subject: str, version: int) -> RestError:
    """Another schema refers to the version."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RestError(422, 42206, f"One or more references exist to the schema {key}.")


def id_does_not_match(id: int) -> RestError:  # noqa: A002
    """The schema has another id."""
    return RestError(422, 42207, f"Schema already registered with id {id} instead of input id")


def invalid_subject(subject: str) -> RestError:
    """The name cannot be that of a subject."""
    return RestError(422, 42208, f"The specified subject '{subject}' is not a valid.")
