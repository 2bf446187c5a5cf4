#!/usr/bin/env python3
"""Write the facts of Kafka's message schemas, as its released jars hold them, into this folder.

    import_schemas.py                                    Maven gets the jars of both releases into target/schema-jars
    import_schemas.py --older LIBS --newer LIBS          the jars are there already; LIBS are folders of *.jar
    import_schemas.py ... --out DIR                      write elsewhere, to compare

Two releases make one set: the newer one is taken, and what it dropped since the older one is put back: versions at the
lower end, the fields of those versions at their old place, whole messages. For every version that either release knows,
the merged schema must then say what that release says. Where it does not, nothing is written and the message, the field
and both values are named; the few known differences stand in the tables below, each with its reason.

Prose and comments are left behind. The same jars give the same files, byte for byte: keys and fields keep one order.
Needs a JDK (11 or newer) for the error table, and Maven where no folders are given. The standard library is enough.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

HERE = Path(__file__).resolve().parent
# The folder of schemas that no jar has as JSON, which nothing here touches.
BY_HAND = "by-hand"
OLDER, NEWER = "3.9.1", "4.4.0"
# 4.4.0's kafka-tools-api was not published; it holds no schema.
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>schemas</groupId><artifactId>jars</artifactId><version>{version}</version>
<dependencyManagement><dependencies>{pinned}</dependencies></dependencyManagement>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""
PINNED = {
    "4.4.0": "<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId>"
    "<version>4.3.1</version></dependency>",
}

# Messages of the older release that live on under another name, with the same bytes.
RENAMED_MESSAGES = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
# Fields that were renamed and nothing else: the newer name is kept.
RENAMED_FIELDS = {
    ("ListConfigResourcesResponse", "ClientMetricsResources"): "ConfigResources",
    ("ListConfigResourcesResponse", "ClientMetricsResources.Name"): "ResourceName",
    ("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch",
    ("VoteRequest", "Topics.Partitions.CandidateEpoch"): "ReplicaEpoch",
    ("VoteRequest", "Topics.Partitions.CandidateId"): "ReplicaId",
    ("VoteRequest", "Topics.Partitions.CandidateDirectoryId"): "ReplicaDirectoryId",
}
# Fields that came into a version already published, while it was early access: the newer layout is the one in use.
ADDED_LATE = {
    ("ReadShareGroupStateSummaryResponse", "Results.Partitions.LeaderEpoch"),
    ("ShareGroupMetadataValue", "MetadataHash"),
}

MESSAGE_KEYS = ("name", "type", "apiKey", "listeners", "validVersions", "flexibleVersions", "latestVersionUnstable")
FIELD_KEYS = (
    "name",
    "type",
    "versions",
    "nullableVersions",
    "tag",
    "taggedVersions",
    "flexibleVersions",
    "default",
    "ignorable",
    "mapKey",
    "entityType",
    "zeroCopy",
)
LINE = 120
ENDLESS = 32767


class SchemaError(Exception):
    """A jar, or a pair of releases, that does not give one set of schemas."""


# ------------------------------------------------------------------------------------------------------------ versions


@dataclass(frozen=True)
class Versions:
    """A range of versions, both ends in it; empty where low is above high."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """From Kafka's notation: "3", "0-3", "2+", "none"."""
        if not text or text == "none":
            return cls(0, -1)
        match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
        if match is None:
            raise SchemaError(f"not a range of versions: {text!r}")
        low, endless, high = match.groups()
        return cls(int(low), ENDLESS if endless else int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == ENDLESS:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


# ----------------------------------------------------------------------------------------------------- reading the jars


def without_comments(text: str) -> str:
    """The JSON without its // comments, which JSON does not know."""
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda m: m[1] or "", text)


def default_of(field: Json) -> Any:
    """The default as the JSON value it stands for, whatever way it was written."""
    written, kind = field["default"], field["type"]
    text = str(written)
    if text == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "float64":
        return float(text)
    if kind in {"string", "uuid", "bytes", "records"} or kind.startswith("[]"):
        return text
    return int(text, 0)


def normal_field(field: Json) -> Json:
    """One field with the facts only, in the order of FIELD_KEYS."""
    facts = dict(field)
    facts["versions"] = facts.get("versions") or facts["taggedVersions"]
    # Kafka's reader takes a bare null for "no default"; only the text "null" makes null the default.
    if facts.pop("default", None) is not None:
        facts["default"] = default_of(field)
        # What the type has for a default anyway is not said.
        if facts["default"] is not None and not facts["default"]:
            del facts["default"]
    if "tag" in facts:
        facts["tag"] = int(facts["tag"])
    for key in ("versions", "nullableVersions", "taggedVersions", "flexibleVersions"):
        if key in facts:
            facts[key] = str(Versions.parse(facts[key]))
    if facts.get("nullableVersions") == "none":
        del facts["nullableVersions"]
    result = {key: facts[key] for key in FIELD_KEYS if key in facts and facts[key] is not False}
    if facts.get("fields"):
        result["fields"] = [normal_field(f) for f in facts["fields"]]
    return result


def normal_message(message: Json) -> Json:
    """One message with the facts only, in the order of MESSAGE_KEYS."""
    facts = dict(message)
    for key in ("validVersions", "flexibleVersions"):
        facts[key] = str(Versions.parse(facts.get(key)))
    result = {key: facts[key] for key in MESSAGE_KEYS if key in facts and facts[key] is not False}
    result["fields"] = [normal_field(f) for f in facts.get("fields") or []]
    if facts.get("commonStructs"):
        result["commonStructs"] = [
            {
                "name": s["name"],
                "versions": str(Versions.parse(s["versions"])),
                "fields": list(map(normal_field, s["fields"])),
            }
            for s in facts["commonStructs"]
        ]
    return result


def read_release(libs: Path) -> dict[str, Json]:
    """Every message schema in the jars of a folder, by name; those with no valid version are left out."""
    found: dict[str, Json] = {}
    for path in sorted(libs.glob("kafka*.jar")):
        with zipfile.ZipFile(path) as jar:
            for entry in sorted(jar.namelist()):
                if not re.search(r"(message|metadata)/[^/]+\.json$", entry):
                    continue
                # raw_decode, as Kafka's own reader stops at the end of the object too.
                message, _ = json.JSONDecoder().raw_decode(without_comments(jar.read(entry).decode()).lstrip())
                message = normal_message(message)
                if message["validVersions"] == "none":
                    continue
                if found.setdefault(message["name"], message) != message:
                    raise SchemaError(f"{message['name']} is in two jars of {libs} and differs")
    if not found:
        raise SchemaError(f"no schemas in {libs}/kafka*.jar")
    return found


def read_errors(libs: Path) -> list[Json]:
    """Code, name and retriable of every error, as the release's client jar has them."""
    done = subprocess.run(
        ["java", "-cp", f"{libs}/*", str(HERE / "ErrorTable.java")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise SchemaError(f"the error table could not be read: {done.stderr.strip()}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return [{"code": int(code), "name": name, "retriable": retriable == "true"} for code, name, retriable in rows]


def fetch(version: str, into: Path) -> Path:
    """The folder of the release's jars, which Maven fills once."""
    libs = into / version
    if not libs.is_dir():
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into) as work:
            pom = Path(work, "pom.xml")
            pom.write_text(POM.format(version=version, pinned=PINNED.get(version, "")))
            goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={work}/libs"]
            print(f"getting the jars of {version} ...", file=sys.stderr)
            subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], check=True, timeout=900)
            Path(work, "libs").rename(libs)
    return libs


# ------------------------------------------------------------------------------------------------------------- merging


def merge(older: dict[str, Json], newer: dict[str, Json]) -> dict[str, Json]:
    """The newer release's schemas, with what it dropped since the older one put back.

    Raises:
        SchemaError: The two do not agree on a version; each difference is a line that names the message, the field and
            both values.
    """
    merged: dict[str, Json] = dict(newer)
    differences: list[str] = []
    for name, before in older.items():
        after = newer.get(RENAMED_MESSAGES.get(name, name))
        if after is None:
            merged[name] = before
            continue
        message = merge_message(before, after)
        merged[message["name"]] = message
        differences += disagreements(before, message)
    if differences:
        raise SchemaError("the releases disagree:\n  " + "\n  ".join(differences))
    return merged


def merge_message(older: Json, newer: Json) -> Json:
    """The newer schema, with the versions and fields that only the older one has."""
    merged = dict(newer)
    ours, theirs = Versions.parse(older["validVersions"]), Versions.parse(newer["validVersions"])
    # The keys of internal topics were `data` with their type number as the version before 4.0; that is not a range.
    if older["type"] == newer["type"]:
        merged["validVersions"] = str(Versions(min(ours.low, theirs.low), theirs.high))
    merged["fields"] = put_back(newer["name"], "", older["fields"], newer["fields"])
    common = {s["name"]: s for s in older.get("commonStructs", [])}
    if "commonStructs" in newer:
        merged["commonStructs"] = [
            {**s, "fields": put_back(newer["name"], f"{s['name']}.", common[s["name"]]["fields"], s["fields"])}
            if s["name"] in common
            else s
            for s in newer["commonStructs"]
        ]
    return merged


def in_order(keys: set[str]) -> list[str]:
    """Keys of a field as they are written."""
    return [key for key in (*FIELD_KEYS, "fields") if key in keys]


def put_back(message: str, path: str, older: list[Json], newer: list[Json]) -> list[Json]:
    """The newer fields, and among them, each at its old place, those of the older ones that are gone."""
    merged = [dict(f) for f in newer]
    place = 0
    for field in older:
        name = RENAMED_FIELDS.get((message, path + field["name"]), field["name"])
        at = next((i for i, f in enumerate(merged) if f["name"] == name), None)
        if at is None:
            merged.insert(place, field)
            place += 1
            continue
        # Said of versions that lack the field; where the newer release has none such, only the older one says it.
        if field.get("ignorable") and not merged[at].get("ignorable"):
            merged[at] = {key: ({**merged[at], "ignorable": True})[key] for key in in_order({*merged[at], "ignorable"})}
        if "fields" in field and "fields" in merged[at]:
            merged[at]["fields"] = put_back(message, f"{path}{field['name']}.", field["fields"], merged[at]["fields"])
        place = at + 1
    return merged


# A field at one version, as its path and what decides its bytes and its default.
Layout = dict[str, Json]
ABSENT: Json = {"here": False}


def layout(message: Json, version: int, renamed: dict[tuple[str, str], str]) -> Layout:
    """What a schema says about each field of a version, in the order of the wire, names translated by `renamed`."""
    common = {s["name"]: s["fields"] for s in message.get("commonStructs", [])}
    found: Layout = {}

    def walk(fields: list[Json], path: str, shown: str) -> None:
        for field in fields:
            here = path + field["name"]
            name = f"{shown}{renamed.get((message['name'], here), field['name'])}"
            if version not in Versions.parse(field["versions"]):
                found[name] = {"here": False, "ignorable": field.get("ignorable", False)}
                continue
            kind = field["type"]
            struct = kind.removeprefix("[]")
            inner = field.get("fields") or common.get(struct)
            tagged = version in Versions.parse(field.get("taggedVersions"))
            found[name] = {
                "here": True,
                # A struct is what its fields are; its name is nothing on the wire.
                "type": kind.replace(struct, "struct") if inner else kind,
                "tag": field["tag"] if tagged else None,
                "nullable": version in Versions.parse(field.get("nullableVersions")),
                "flexible": str(field.get("flexibleVersions")),
                "default": field.get("default", "unsaid"),
            }
            if inner:
                walk(inner, f"{here}.", f"{name}.")

    walk(message["fields"], "", "")
    return found


def values(facts: Json, keys: list[str]) -> str:
    """Some of the facts about a field, to be read."""
    return ", ".join(f"{key} {facts[key]}" for key in keys if key in facts)


def disagreements(release: Json, merged: Json) -> list[str]:
    """Where the merged schema says something else about a version than a release that knows the version."""
    name, valid = merged["name"], Versions.parse(release["validVersions"])
    if release["type"] != merged["type"]:
        if not merged["type"].startswith("coordinator-"):
            return [f"{name}: type {release['type']} became {merged['type']}"]
        if merged["type"] == "coordinator-key":
            return []
    translated = {**release, "name": name}
    lines = []
    for version in range(valid.low, valid.high + 1):
        flexible = [version in Versions.parse(m["flexibleVersions"]) for m in (release, merged)]
        if flexible[0] != flexible[1]:
            lines.append(f"{name} {version}: flexible {flexible[0]} became {flexible[1]}")
        before, after = layout(translated, version, RENAMED_FIELDS), layout(merged, version, {})
        for path in [*before, *(p for p in after if p not in before)]:
            new = after.get(path, ABSENT)
            old = before.get(path, ABSENT)
            # Fields may come in later versions, and as tags in any; the older release does not know them.
            if path not in before and (not new["here"] or new["tag"] is not None or (name, path) in ADDED_LATE):
                continue
            changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            if changed:
                said = [
                    "absent" if "here" in changed and not side["here"] else values(side, changed) for side in (old, new)
                ]
                lines.append(f"{name} {version}: {path}: {said[0]} became {said[1]}")
        orders = [[path for path in side if before.get(path, ABSENT)["here"]] for side in (before, after)]
        if orders[0] != orders[1]:
            lines.append(f"{name} {version}: order of fields: {orders[0]} became {orders[1]}")
    return lines


# ------------------------------------------------------------------------------------------------------------- writing


def text_of(value: Any, indent: str = "") -> str:
    """JSON text: an object or array on one line where it fits and holds no fields, else a line for each entry."""
    flat = json.dumps(value, ensure_ascii=False)
    nested = isinstance(value, list) or (isinstance(value, dict) and ("fields" in value or "commonStructs" in value))
    if not value or not nested or (isinstance(value, list) and isinstance(value[0], str)):
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + text_of(v, inner) for v in value) + f"\n{indent}]"
    lists = [k for k in value if k in {"fields", "commonStructs"}]
    head = ", ".join(f"{json.dumps(k)}: {text_of(v)}" for k, v in value.items() if k not in lists)
    return "{" + ", ".join([head, *(f"{json.dumps(k)}: {text_of(value[k], indent)}" for k in lists)]) + "}"


def write(messages: dict[str, Json], errors: list[Json], out: Path) -> None:
    """One file a message, in a folder of its type; files of messages that are no more are removed."""
    wanted = {out / "errors.json": "[\n" + ",\n".join("  " + json.dumps(e) for e in errors) + "\n]\n"}
    for message in messages.values():
        wanted[out / message["type"] / f"{message['name']}.json"] = text_of(message) + "\n"
    for path in out.glob("*/*.json"):
        if path not in wanted and path.parent.name != BY_HAND:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(argv: list[str]) -> int:
    """Import, merge, write; 1 where the releases do not make one set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--older", type=Path, metavar="LIBS", help=f"folder of the jars of {OLDER}")
    parser.add_argument("--newer", type=Path, metavar="LIBS", help=f"folder of the jars of {NEWER}")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="where to write (default: this folder)")
    options = parser.parse_args(argv)
    cache = HERE.parent / "target" / "schema-jars"
    older, newer = options.older or fetch(OLDER, cache), options.newer or fetch(NEWER, cache)
    try:
        messages = merge(read_release(older), read_release(newer))
        write(messages, read_errors(newer), options.out)
    except SchemaError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(messages)} messages written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
