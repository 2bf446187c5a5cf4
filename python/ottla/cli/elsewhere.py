"""What other tools call what `ottla` has under another name: hints for people who type that."""

from __future__ import annotations

# By the command that refuses a word: the word, and what to write.
_WORDS = {
    "ottla": {
        "acl": "ottla acls",
        "brokers": "ottla cluster brokers",
        "create": "ottla topics create NAME:PARTITIONS",
        "delete": "ottla topics delete NAME",
        "describe": "ottla topics describe, or ottla groups describe",
        "features": "ottla cluster features",
        "get": "ottla topics, ottla groups or ottla configs get",
        "group": "ottla groups",
        "lag": "ottla groups lag GROUP",
        "list": "ottla topics list",
        "mirror": "ottla copy",
        "node": "ottla cluster brokers",
        "nodes": "ottla cluster brokers",
        "profile": "ottla config profiles",
        "query": "ottla sql",
        "quorum": "ottla cluster quorum",
        "quota": "ottla quotas",
        "reassign": "ottla partitions reassign",
        "reset": "ottla groups reset",
        "tail": "ottla consume TOPIC --tail 10",
        "topic": "ottla topics",
        "user": "ottla users",
    },
    "ottla topics": {
        "count": "ottla topics offsets NAME, which counts records",
        "delete-records": "ottla topics trim",
        "get-offsets": "ottla topics offsets",
        "list-offsets": "ottla topics offsets",
        "set": "ottla topics alter NAME --set KEY=VALUE",
        "trim-prefix": "ottla topics trim",
    },
    "ottla topics create": {"-c": "--topic-config KEY=VALUE"},
    "ottla topics add-partitions": {"--num": "--add N", "--partitions": "--total N"},
    "ottla groups": {
        "commit": "ottla groups reset",
        "offset-delete": "ottla groups delete-offsets",
        "reset-offsets": "ottla groups reset",
        "seek": "ottla groups reset",
    },
    "ottla groups reset": {
        "--by-duration": "--to 1h",
        "--shift-by": "--shift N",
        "--to-datetime": "--to 2026-01-31T12:00",
        "--to-earliest": "--to earliest",
        "--to-latest": "--to latest",
    },
    "ottla configs": {"alter": "ottla configs set", "describe": "ottla configs get"},
    "ottla consume": {
        "-c": "-n N",
        "--count": "-n N",
        "--from-beginning": "--beginning",
        "--from-timestamp": "-o @TIME",
        "--key": "-G k:REGEX",
        "--max-messages": "-n N",
        "--property": "--format json, or -f '%k %v\\n'",
        "--since": "-o @-1h",
    },
    "ottla produce": {"--property": "--key-separator, or -f '%k:%v\\n'", "-K": "--key-separator"},
}


def hint(prog: str, word: str) -> str:
    """What to write instead of a word that a command does not know; empty if no tool calls anything so."""
    found = _WORDS.get(prog, {}).get(word, "")
    return f"; write {found}" if found else ""
