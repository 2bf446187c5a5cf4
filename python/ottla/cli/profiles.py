"""Profiles: properties of clients under a name, from `ottla.toml`, and `OTTLA_*` variables.

A project's file is `ottla.toml` in the current folder or one above it, up to the folder that has `.git`. A user's file
is `ottla/ottla.toml` in the folder for configurations (`XDG_CONFIG_HOME`, `APPDATA`, or `~/.config`). Where both have
a profile, the project's properties count.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla import _ottla
from ottla.cli.parser import near
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE = "ottla.toml"
# Other programs have variables that begin with OTTLA_, too: only one or two wrong letters are a mistake.
NEAR = 0.9
SECRET = re.compile(r"\$\$\{|\$\{(?:(?P<kind>[a-z]+):)?(?P<name>[^}]*)\}")
EXAMPLE = """\
# ottla.toml: in a project's folder, or in ~/.config/ottla. `ottla --profile NAME ...` chooses a profile.
profile = "local"                       # the one that is used without --profile and OTTLA_PROFILE

[profiles.local]
bootstrap.servers = "localhost:9092"

[profiles.production]
bootstrap.servers = "kafka-1:9093,kafka-2:9093"
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "alice"
sasl.password = "${KAFKA_PASSWORD}"     # from the environment; or ${keyring:kafka/alice}, or ${file:/run/secrets/kafka}
"""


class Profile(NamedTuple):
    """Properties of clients.

    Attributes:
        name: Its name; empty if there is no profile.
        properties: Values as they are in the file, by property. References to secrets are not resolved.
        files: The files that have it.
    """

    name: str = ""
    properties: Mapping[str, str] = MappingProxyType({})
    files: tuple[Path, ...] = ()


def files() -> list[Path]:
    """The files that exist; those that count more come first."""
    places = [folder / FILE for folder in _project()]
    found = [place for place in places if place.is_file()][:1]
    user = _user_folder() / "ottla" / FILE
    return [*found, user] if user.is_file() and user not in found else found


def _project() -> Iterator[Path]:
    try:
        here = Path.cwd()
    except OSError:
        return
    for folder in (here, *here.parents):
        yield folder
        if (folder / ".git").exists():
            return


def _user_folder() -> Path:
    if given := os.environ.get("XDG_CONFIG_HOME") or (os.environ.get("APPDATA") if os.name == "nt" else None):
        return Path(given)
    return Path(os.path.expanduser("~")) / ".config"  # noqa: PTH111 `Path.home` raises where there is no home


def read() -> tuple[str | None, dict[str, Profile]]:
    """Read the files.

    Returns:
        The name of the default profile, and all profiles by name.

    Raises:
        ConfigError: A file is no TOML, or has a name that means nothing.
    """
    if not (paths := files()):
        return None, {}
    import tomllib  # commands without a file start faster

    default: str | None = None
    found: dict[str, Profile] = {}
    for path in paths:
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
        for key in content:
            if key not in ("profile", "profiles"):
                raise ConfigError(f"{path}: {key!r} means nothing{near(key, ['profile', 'profiles'])}")
        profiles = content.get("profiles", {})
        chosen = content.get("profile")
        if not isinstance(profiles, dict) or not all(isinstance(each, dict) for each in profiles.values()):
            raise ConfigError(f"{path}: a profile is a table, such as [profiles.local]")
        if not isinstance(chosen, (str, type(None))):
            raise ConfigError(f"{path}: profile is the name of a profile, not {chosen!r}")
        default = default or chosen
        for name, given in profiles.items():
            here = dict(_flat(given))
            for key in here:
                _check(key, f"{path}: profile {name}")
            before = found.get(name, Profile(name))
            found[name] = Profile(name, {**here, **before.properties}, (*before.files, path))
    return default, found


def choose(given: str | None) -> Profile:
    """Get the profile of a command: `--profile`, `OTTLA_PROFILE`, or the default one of the files.

    Raises:
        ConfigError: There is no such profile.
    """
    default, found = read()
    wanted = given or os.environ.get("OTTLA_PROFILE") or default
    if not wanted:
        return Profile()
    if wanted not in found:
        where = ", ".join(map(str, files())) or f"there is no {FILE}; `ottla config example` prints one"
        raise ConfigError(f"there is no profile {wanted!r}{near(wanted, found)} ({where})")
    return found[wanted]


def resolve(properties: Mapping[str, str]) -> dict[str, str]:
    """Put secrets in the place of `${NAME}`, `${env:NAME}`, `${keyring:SERVICE/USER}` and `${file:PATH}`.

    Raises:
        ConfigError: A secret is not there.
    """
    return {
        key: SECRET.sub(lambda found, key=key: _secret(key, found), value)  # type: ignore[misc]
        for key, value in properties.items()
    }


def _secret(key: str, found: re.Match[str]) -> str:
    if found[0] == "$${":
        return "${"
    kind, name = found["kind"] or "env", found["name"]
    if kind == "env":
        if name not in os.environ:
            raise ConfigError(f"{key}: the environment variable {name} is not set")
        return os.environ[name]
    if kind == "file":
        return Path(name).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    if kind == "keyring":
        service, separator, user = name.partition("/")
        if not separator:
            raise ConfigError(f"{key}: write ${{keyring:SERVICE/USER}}, not {found[0]}")
        return _of_keyring(key, service, user)
    raise ConfigError(f"{key}: {found[0]} is not ${{NAME}}, ${{keyring:SERVICE/USER}} or ${{file:PATH}}")


def _of_keyring(key: str, service: str, user: str) -> str:
    try:
        import keyring
    except ModuleNotFoundError:
        raise ConfigError(f"{key}: the keyring needs keyring: pip install 'ottla[cli]'") from None
    try:
        secret: str | None = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise ConfigError(f"{key}: the keyring cannot be read: {error}") from None
    if secret is None:
        raise ConfigError(f"{key}: the keyring has none: run `keyring set {service} {user}`")
    return secret


def of_environment() -> dict[str, str]:
    """Properties of `OTTLA_*` variables: `OTTLA_SASL_PASSWORD` is `sasl.password`.

    Raises:
        ConfigError: A variable has nearly the name of a property.
    """
    names = {variable(row["name"]): row["name"] for row in _ottla.properties()}
    names["OTTLA_BOOTSTRAP"] = "bootstrap.servers"
    found = {}
    for given, value in os.environ.items():
        if given in names:
            found[names[given]] = value
        elif given.startswith("OTTLA_") and given != "OTTLA_PROFILE" and (hint := near(given, names, NEAR)):
            raise ConfigError(f"the environment variable {given} is unknown to ottla{hint}")
    return found


def variable(name: str) -> str:
    """The variable of a property."""
    return "OTTLA_" + name.replace(".", "_").replace("-", "_").upper()


def _flat(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """In TOML `sasl.username = "alice"` is a table in a table."""
    for key, value in given.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield f"{prefix}{key}", str(value).lower()
        elif isinstance(value, list):
            yield f"{prefix}{key}", ",".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)


def _check(key: str, where: str) -> None:
    names = {row["name"] for row in _ottla.properties()}
    if key not in names:
        raise ConfigError(f"{where}: there is no property {key!r}{near(key, names)}; `ottla config` lists all")
