"""The settings of a file of `ottla ingest`, checked before anything starts.

Each error names the file, the table and the key. Nothing here connects to brokers or needs Spark.
"""

import codecs
import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias

from ottla.errors import ConfigError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared.formats import CORRUPT, OF_KEYS, PERMISSIVE

FormatName: TypeAlias = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[FormatName, ...] = ("parquet", "delta", "iceberg")

AVAILABLE_NOW, ONCE = "available-now", "once"
ROWS = 1_000_000

# Tables whose keys are not ottla's: options of format("ottla"), Spark properties without `spark.`,
# options of the table's format.
OPEN = ("source", "spark", "table.options")

# What of a table belongs to ingest, by table; the empty name is the file itself.
KNOWN: dict[str, tuple[str, ...]] = {
    "": ("name",),
    "table": ("format", "path", "name", "select", "where", "partition-by"),
    "files": ("rows", "size"),
    "dead-letters": ("topic", "folder"),
    "run": ("trigger", "checkpoint"),
}

# Options that the table of dead letters sets, so the source must not set them.
OF_LETTERS = ("mode", "deadLetterTopic")
# Columns with the place of a dead letter.
PLACE = ("topic", "partition", "offset", "timestamp")

VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)\{|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<bad>\{))")
UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# What a text must have to be hidden where it is shown: anything shorter is part of other words.
SECRET = 3
# A property that no client has.
NO_NAME = "ottla.no.property"


class SettingsError(ConfigError):
    """A file of `ottla ingest` has an invalid setting; the text names file, table and key."""


@dataclass(frozen=True)
class Table:
    """Where rows go.

    Attributes:
        format: How they are kept there.
        path: The folder; None if the table has a name.
        name: Its name in a catalog.
        select: Columns in Spark's SQL; empty for those of the source.
        where: A condition in Spark's SQL that rows must meet.
        partition_by: Columns that are folders.
        options: Of the format.
    """

    format: FormatName
    path: str | None
    name: str | None
    select: tuple[str, ...] = ()
    where: str | None = None
    partition_by: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.format} {self.name or self.path}"


@dataclass(frozen=True)
class Settings:
    """The settings of a file.

    Attributes:
        file: Its name, for errors.
        name: Of the query.
        source: Options of `format("ottla")`. A repr leaves them out, since some are secret.
        table: Where rows go.
        rows: Most rows of a file.
        size: About the most bytes of a file; None leaves it to `rows`.
        letters: The folder of dead letters; None without one.
        topic: The topic of dead letters, which tasks fill; None without one.
        added: Columns that `source` has only for the dead letters.
        corrupt: The column with the bytes of values that do not decode.
        trigger: `available-now`, `once`, or a Spark interval between micro-batches.
        checkpoint: The folder of the Spark checkpoint.
        spark: Properties of the session, by their whole names.
        hidden: Values from the environment, with the variables' names; they are never shown.
    """

    file: str
    name: str
    source: Mapping[str, str] = field(repr=False)
    table: Table
    rows: int
    size: int | None
    letters: str | None
    topic: str | None
    added: tuple[str, ...]
    corrupt: str
    trigger: str
    checkpoint: str
    spark: Mapping[str, str] = field(repr=False)
    hidden: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def shown(self, text: str) -> str:
        """A text without what came from the environment."""
        return _shown(text, self.hidden)


def read_settings(path: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Read a file and check all of it.

    Args:
        path: The file.
        environment: What `${NAME}` stands for; the process's environment if not given.

    Raises:
        SettingsError: It is not TOML, or has an invalid setting.
        OSError: It cannot be read.
    """
    return parse(Path(path).read_bytes(), os.fspath(path), os.environ if environment is None else environment)


def parse(content: bytes, file: str, environment: Mapping[str, str]) -> Settings:
    """Check the content of a file.

    Args:
        content: TOML.
        file: Its name, for errors.
        environment: What `${NAME}` stands for.

    Raises:
        SettingsError: It is not TOML, or has an invalid setting.
    """
    try:
        # Editors on Windows write a byte order mark in front.
        given = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SettingsError(f"{file} is UTF-16, and TOML is UTF-8: save it as UTF-8") from None
        raise SettingsError(f"{file}: byte {error.start} is not UTF-8, which TOML is written in") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: this is not TOML: {error}") from None
    reading = _Reading(file, environment)
    try:
        return reading.settings(reading.resolved(given))
    except SettingsError as error:
        raise SettingsError(_shown(str(error), tuple(reading.hidden))) from None


def _shown(text: str, hidden: tuple[tuple[str, str], ...]) -> str:
    forms = {(form, name) for value, name in hidden for form in _forms(value) if len(form) >= SECRET}
    # The longest first: one may hold another.
    for form, name in sorted(forms, key=lambda pair: (-len(pair[0]), pair)):
        text = text.replace(form, f"${{{name}}}")
    return text


def _forms(value: str) -> tuple[str, ...]:
    """A value as errors may show it: without spaces around it, or as Python writes texts."""
    plain = (value, value.strip())
    return (*plain, *(repr(one)[1:-1] for one in plain))


class _Place(NamedTuple):
    """A key of a table."""

    table: str
    key: str

    def __str__(self) -> str:
        return f"[{self.table}] {self.key}" if self.table else self.key


class _Source(NamedTuple):
    """What is read.

    Attributes:
        options: Of `format("ottla")`.
        letters: The folder of dead letters; None without one.
        topic: The topic of dead letters; None without one.
        added: Columns that only the dead letters need.
        corrupt: The column with the bytes of values that do not decode.
    """

    options: dict[str, str]
    letters: str | None
    topic: str | None
    added: tuple[str, ...]
    corrupt: str


class _Reading:
    """Reads one file."""

    def __init__(self, file: str, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment
        self.hidden: list[tuple[str, str]] = []

    def settings(self, given: dict[str, Any]) -> Settings:
        self._refuse_unknown(given)
        table = self._table(given)
        source = self._source(given)
        run = self._keys(given, "run")
        checkpoint = self._text(run, "run", "checkpoint")
        if checkpoint is None:
            raise self._error(
                "run", "checkpoint", "is missing: a folder of this job alone, where Spark keeps its place"
            )
        for place, folder in (("run", "checkpoint"), ("dead-letters", "folder")):
            path = checkpoint if place == "run" else source.letters
            if path and table.format == "parquet" and table.path and _holds(table.path, path):
                raise self._error(
                    place, folder, f"{path} is in the table's folder, whose readers would read it as data"
                )
        files = self._keys(given, "files")
        return Settings(
            file=self._file,
            name=self._name(given),
            source=source.options,
            table=table,
            rows=self._rows(files),
            size=self._size(files, table.format),
            letters=source.letters,
            topic=source.topic,
            added=source.added,
            corrupt=source.corrupt,
            trigger=self._trigger(run),
            checkpoint=checkpoint,
            spark={f"spark.{key}": value for key, value in self._open(given, "spark").items()},
            hidden=tuple(self.hidden),
        )

    def resolved(self, given: dict[str, Any], *above: str) -> dict[str, Any]:
        """The same with the environment's values in their places."""
        made: dict[str, Any] = {}
        for key, value in given.items():
            path = (*above, key)
            if isinstance(value, dict):
                made[key] = self.resolved(value, *path)
            elif isinstance(value, list):
                made[key] = [self._resolve(one, path) for one in value]
            else:
                made[key] = self._resolve(value, path)
        return made

    def _resolve(self, value: Any, path: tuple[str, ...]) -> Any:
        if not isinstance(value, str):
            return value
        depth = 2 if ".".join(path[:2]) in OPEN else min(1, len(path) - 1)
        table, key = ".".join(path[:depth]), ".".join(path[depth:])

        def stands_for(found: re.Match[str]) -> str:
            if found["escaped"]:
                return "${"
            if found["bad"]:
                what = 'has "${" without the name of a variable and "}" behind it; "$${" stands for "${" itself'
                raise self._error(table, key, what)
            name = found["name"]
            held = self._environment.get(name)
            if held is None:
                raise self._error(table, key, f"wants variable {name}, which the environment does not have")
            if len(held) >= SECRET:
                self.hidden.append((held, name))
            return held

        return VARIABLE.sub(stands_for, value)

    def _error(self, table: str, key: str, what: str) -> SettingsError:
        return SettingsError(f"{self._file}: {_Place(table, key)} {what}")

    def _refuse_unknown(self, given: dict[str, Any]) -> None:
        tables = [name for name in KNOWN if name] + [name for name in OPEN if "." not in name]
        for name, value in given.items():
            if name in tables:
                if not isinstance(value, dict):
                    raise SettingsError(f"{self._file}: {name} is a table: write [{name}], and its keys below")
            elif name not in KNOWN[""]:
                kind = "table" if isinstance(value, dict) else "key"
                known = tables if kind == "table" else KNOWN[""]
                shown = f"[{name}]" if kind == "table" else name
                raise SettingsError(f"{self._file}: {shown} is not known; {_nearest(name, known)}")
        for table, keys in KNOWN.items():
            for key in self._keys(given, table) if table else ():
                if key not in keys and f"{table}.{key}" not in OPEN:
                    raise self._error(table, key, f"is not known; {_nearest(key, keys)}")

    def _keys(self, given: dict[str, Any], table: str) -> dict[str, Any]:
        found: dict[str, Any] = given.get(table, {})
        return found

    def _name(self, given: dict[str, Any]) -> str:
        name = self._text(given, "", "name")
        if name is None:
            raise SettingsError(f"{self._file}: name is missing: how Spark and the log call this job")
        return name

    def _text(self, keys: Mapping[str, Any], table: str, key: str) -> str | None:
        value = keys.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._error(table, key, f"is a text in quotes, not {value!r}")
        if not value.strip():
            raise self._error(table, key, "is empty: give it a value, or leave it out")
        return value.strip()

    def _texts(self, keys: Mapping[str, Any], table: str, key: str) -> tuple[str, ...]:
        value = keys.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise self._error(table, key, f'is a list of texts, such as ["topic", "offset"], not {value!r}')
        return tuple(one.strip() for one in value)

    def _open(self, given: dict[str, Any], table: str) -> dict[str, str]:
        """A table of somebody else's keys; `a.b = 1` and `"a.b" = 1` are the same."""
        found: Any = given
        for part in table.split("."):
            found = found.get(part, {})
            if not isinstance(found, dict):
                raise SettingsError(f"{self._file}: {table} is a table: write [{table}], and its keys below")
        made: dict[str, str] = {}
        for key, value in self._flat(found, table, ""):
            if key in made:
                raise self._error(table, key, f'is given twice: {key} and "{key}" are the same, so leave one of them')
            made[key] = value
        return made

    def _flat(self, keys: dict[str, Any], table: str, before: str) -> list[tuple[str, str]]:
        made = []
        for key, value in keys.items():
            name = before + key
            if isinstance(value, dict):
                made += self._flat(value, table, f"{name}.")
            elif isinstance(value, bool):
                made.append((name, str(value).lower()))
            elif isinstance(value, str | int | float):
                made.append((name, str(value)))
            elif isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                made.append((name, ",".join(value)))
            else:
                raise self._error(table, name, f"is a text, a number, true, false, or a list of texts, not {value!r}")
        return made

    def _table(self, given: dict[str, Any]) -> Table:
        keys = self._keys(given, "table")
        if not keys:
            raise SettingsError(f'{self._file}: [table] is missing: where rows go, such as path = "/data/orders"')
        chosen = self._text(keys, "table", "format") or "parquet"
        format_ = next((name for name in FORMATS if name == chosen), None)
        if format_ is None:
            raise self._error("table", "format", f"cannot be {chosen!r}; {_nearest(chosen, FORMATS)}")
        path, name = self._text(keys, "table", "path"), self._text(keys, "table", "name")
        if path and name:
            raise self._error("table", "path", "and name exclude each other: leave one of them")
        if format_ == "parquet" and path is None:
            raise self._error("table", "path", "is missing: the folder of the Parquet files")
        if format_ == "iceberg" and name is None:
            raise self._error(
                "table", "name", 'is missing: a catalog finds tables of Iceberg, such as "lake.db.orders"'
            )
        if not (path or name):
            raise self._error("table", "path", 'is missing: the folder of the table, or name, such as "db.orders"')
        return Table(
            format=format_,
            path=path,
            name=name,
            select=self._texts(keys, "table", "select"),
            where=self._text(keys, "table", "where"),
            partition_by=self._texts(keys, "table", "partition-by"),
            options=tuple(sorted(self._open(given, "table.options").items())),
        )

    def _source(self, given: dict[str, Any]) -> _Source:
        options = self._open(given, "source")
        if not options:
            raise SettingsError(
                f'{self._file}: [source] is missing: the options of format("ottla"), such as '
                '"kafka.bootstrap.servers" and subscribe'
            )
        if not any(name.lower().startswith("starting") for name in options):
            # A stream's own default is the end, so that the first run would take nothing.
            options["startingOffsets"] = "earliest"
        key, target = self._letters(given, options)
        typed = self._parsed(options).typed
        sides = [side.side for side in typed.sides if side.name != "raw"] if typed else []
        if key and not sides:
            raise self._error("dead-letters", key, "has no meaning while [source] decodes nothing")
        if key:
            # The rows of bad records are counted, and then left out: without them nobody would know how many there are.
            options |= {"mode": PERMISSIVE, **({"deadLetterTopic": target} if key == "topic" else {})}
            self._parsed(options)
        corrupt = typed.corrupt if typed else CORRUPT
        added: tuple[str, ...] = ()
        if key and typed and typed.columns is not None:
            needed = (*(PLACE if key == "folder" else ()), *(corrupt + OF_KEYS * (side == "key") for side in sides))
            added = tuple(name for name in needed if name not in typed.columns)
            wanted = ",".join((*typed.columns, *added))
            options = {name: wanted if name.lower() == "columns" else value for name, value in options.items()}
            self._parsed(options)
        letters, topic = (target if key == kind else None for kind in ("folder", "topic"))
        return _Source(options, letters, topic, added, corrupt)

    def _letters(self, given: dict[str, Any], options: Mapping[str, str]) -> tuple[str, str]:
        """The key of the place of dead letters, and its value; empty texts without one."""
        letters = self._keys(given, "dead-letters")
        found = [(key, text) for key in ("topic", "folder") if (text := self._text(letters, "dead-letters", key))]
        if not found:
            return "", ""
        if len(found) > 1:
            raise self._error("dead-letters", "topic", "and folder exclude each other: leave one of them")
        refused = [name.lower() for name in OF_LETTERS]
        for name in options:
            if name.lower() in refused:
                raise self._error("source", name, "is set by [dead-letters]: leave one of them out")
        return found[0]

    def _parsed(self, options: dict[str, str]) -> ReadOptions:
        try:
            parsed = ReadOptions.parse(options)
            parsed.check_stream()
            _check_properties(parsed)
        except ValueError as error:
            raise SettingsError(f"{self._file}: [source] {error}") from None
        return parsed

    def _rows(self, files: Mapping[str, Any]) -> int:
        rows = files.get("rows", ROWS)
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise self._error("files", "rows", f"is a whole number above 0, not {rows!r}")
        return rows

    def _size(self, files: Mapping[str, Any], format_: FormatName) -> int | None:
        text = self._text(files, "files", "size")
        if text is None:
            return None
        if format_ != "parquet":
            raise self._error(
                "files", "size", f"is for parquet: a table of {format_} has properties of its own for that"
            )
        found = re.fullmatch(r"([0-9]+)\s*([a-z]+)", text.lower(), re.ASCII)
        unit = UNITS.get(found[2]) if found else None
        if found is None or unit is None or int(found[1]) == 0:
            raise self._error("files", "size", f'is a size such as "128MB" or "1GiB", not {text!r}')
        return int(found[1]) * unit

    def _trigger(self, run: Mapping[str, Any]) -> str:
        text = self._text(run, "run", "trigger") or AVAILABLE_NOW
        if text in (AVAILABLE_NOW, ONCE):
            return text
        found = re.fullmatch(r"([0-9]+)\s*(ms|s|m|h)", text, re.ASCII)
        if found is None:
            what = f'is "{AVAILABLE_NOW}", "{ONCE}", or a time between micro-batches such as "30s", not {text!r}'
            raise self._error("run", "trigger", what)
        units = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}
        return f"{found[1]} {units[found[2]]}"


def _nearest(name: str, known: tuple[str, ...] | list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"{f'did you mean {near[0]}? Known' if near else 'known'} are {', '.join(known)}"


def _holds(folder: str, path: str) -> bool:
    """Whether readers of a folder would see a path."""
    try:
        inner = PurePosixPath(path).relative_to(folder)
    except ValueError:
        return False
    # They pass over names that begin so.
    return not any(part.startswith(("_", ".")) for part in inner.parts)


def _check_properties(options: ReadOptions) -> None:
    """Refuse properties that no consumer takes. Files and secrets may be there for the tasks, and not here."""
    secure = ("security.", "ssl.", "sasl.", "https.")
    shown = tuple((name, value) for name, value in options.properties if not name.startswith(secure))
    # A consumer looks at all names before it looks at a value: if it refuses the last one, the others are right.
    if len(shown) < len(options.properties):
        _check(options, (*options.properties, (NO_NAME, "")), unless=NO_NAME)
    _check(options, shown)


def _check(options: ReadOptions, properties: tuple[tuple[str, str], ...], unless: str | None = None) -> None:
    from ottla.spark.read.client_pool import close_idle, consumer

    try:
        with consumer(replace(options, properties=properties)):
            pass
        close_idle(options)
    except ConfigError as error:
        if unless is None or not str(error).startswith(f"option kafka.{unless}:"):
            raise ValueError(str(error)) from None
