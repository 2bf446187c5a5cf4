"""What faults of others taught, and what is refused or bounded because of it: each rule is named by a test that shows it.

A test names its rules in a line of its doc comment or docstring that begins with the word `Rule` and a colon. RULES says
what each asks for: published faults by their numbers, then 2.4.1 to 2.4.17, what a client must refuse or bound.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

RULES = {
    "CVE-2023-25194": "no code is loaded because a setting names it",
    "CVE-2025-27818": "nor by another login module",
    "CVE-2025-27819": "nor by a broker",
    "CVE-2025-27817": "tokens come by https, from no file, and no redirect is followed",
    "CVE-2024-31141": "no reference to files or the environment in a value is resolved",
    "CVE-2024-56128": "both sides of SCRAM compare nonces",
    "CVE-2026-35554": "a batch owns its buffer until its request has ended, whatever became of its record",
    "CVE-2017-12610": "nobody acts for somebody else",
    "CVE-2018-1288": "nobody but a broker fetches as a replica",
    "CVE-2021-38153": "secrets are compared in constant time",
    "CVE-2022-34917": "before authentication frames are small",
    "KAFKA-14063": "a count without its bytes allocates nothing",
    "KAFKA-4090": "a TLS alert is no length",
    "KIP-498": "nor is any other protocol",
    "CVE-2023-43642": "a xerial chunk has the bytes that it claims",
    "CVE-2023-34453": "a snappy block holds what it claims, or less is allocated",
    "CVE-2023-34454": "also when a size overflows",
    "CVE-2023-34455": "also in the length of a chunk",
    "CVE-2024-36124": "damaged snappy is an error, read within its bounds",
    "CVE-2026-44302": "each step of a decoder consumes input",
    "CVE-2021-3520": "no length of LZ4 is below zero",
    "CVE-2025-12183": "no match of LZ4 reaches before the first byte",
    "CVE-2016-9840": "gzip without zlib's C code",
    "CVE-2016-9841": "gzip without zlib's C code",
    "CVE-2016-9842": "gzip without zlib's C code",
    "CVE-2016-9843": "gzip without zlib's C code",
    "CVE-2026-27171": "gzip without zlib's C code",
    "2.4.1": "a frame has a limit, a small one at first, and what is not Kafka is called what it is",
    "2.4.2": "an answer belongs to the oldest request in flight, or ends the connection",
    "2.4.3": "lengths, nulls and counts are what the bytes allow, before anything is allocated",
    "2.4.4": "a varint has 32 or 64 bits, read in any length and written in the least",
    "2.4.5": "tags ascend, and each is read from its own bytes to their end",
    "2.4.6": "text is UTF-8, or an error that names its field",
    "2.4.7": "bytes after a message are an error in tests, passed over and counted at run time",
    "2.4.8": "a batch is what its header says",
    "2.4.9": "a message set is what its wrapper says",
    "2.4.10": "decompression has a limit, an error says where, and a seek goes on behind it",
    "2.4.11": "ids are looked up, and of two the first counts",
    "2.4.12": "of a control batch the first record counts, unknown types are passed over",
    "2.4.13": "nothing nests without an end",
    "2.4.14": "SASL gives no secret away, believes no server without proof, and is not talked down",
    "2.4.15": "TLS is checked, with the host's name, from version 1.2 on",
    "2.4.16": "secrets are not shown",
    "2.4.17": "numbers are checked when they are configured",
}
NAME = re.compile(r"CVE-\d+-\d+|KAFKA-\d+|KIP-\d+|2\.4\.\d+")
# A doc comment with a rule, its attributes (among them that of a test), and the function that they belong to.
RUST_TEST = re.compile(r"((?:^[ \t]*///[^\n]*\n)+)((?:^[ \t]*#\[[^\n]*\n)+)[ \t]*(?:async )?fn (\w+)", re.MULTILINE)
PYTHON_TEST = re.compile(r'^def (test_\w+)\([^\n]*:\n    """(.*?)"""', re.MULTILINE | re.DOTALL)


def documented_tests() -> Iterator[tuple[str, str]]:
    """Each test with a doc comment, and that."""
    for path in (ROOT / "crates").rglob("*.rs"):
        for comment, attributes, name in RUST_TEST.findall(path.read_text()):
            if re.search(r"#\[(?:tokio::)?test\b", attributes):
                yield name, comment
    for path in (ROOT / "tests").rglob("test_*.py"):
        yield from PYTHON_TEST.findall(path.read_text())


def named() -> dict[str, list[str]]:
    """The tests of each rule."""
    found: dict[str, list[str]] = {}
    for test, comment in documented_tests():
        for line in re.findall(r"\bRule: ([^\n]*)", comment):
            for rule in NAME.findall(line):
                found.setdefault(rule, []).append(test)
    return found


def test_every_rule_is_named_by_a_test() -> None:
    found = named()
    assert [rule for rule in RULES if rule not in found] == []
    assert sorted(set(found) - set(RULES)) == [], "a rule that a test names stands in the table"


def test_a_rule_is_found_only_at_a_test() -> None:
    """A rule that only code or another comment names has no test."""
    helper = "/// Rule: 2.4.1.\nfn no_test() {}\n"
    test = "/// Words.\n///\n/// Rule: 2.4.1.\n#[tokio::test]\nasync fn a_test() {}\n"
    assert RUST_TEST.findall(helper) == []
    assert [name for _, _, name in RUST_TEST.findall(test)] == ["a_test"]


def test_secrets_are_compared_in_constant_time() -> None:
    """A duration cannot be tested, so this reads what compares: only `subtle` and `ring` do.

    Rule: CVE-2021-38153, 2.4.14.
    """
    broker = ROOT / "crates" / "broker" / "src" / "security"
    compares = (broker / "secret.rs").read_text().split("#[cfg(test)]")[0]
    assert "use subtle::ConstantTimeEq;" in compares
    assert re.search(r"fn is\(&self, claimed: &\[u8\]\) -> bool \{\s*self\.0\.ct_eq\(claimed\)\.into\(\)", compares)
    assert "PartialEq" not in compares, "`==` of secrets would take as long as they are equal"
    # Where a password, a proof, a token's HMAC and a signature are checked, these are what checks.
    checks = {
        broker / "users.rs": "password.is(claimed)",
        broker / "sasl" / "scram.rs": "stored_key.is(",
        broker / "sasl" / "iam.rs": ".is(self.signature.as_bytes())",
        broker / "sasl" / "jws.rs": "hmac::verify(",
        broker / "tokens.rs": "token.hmac.is(hmac)",
        ROOT / "crates" / "engine" / "src" / "sasl" / "scram.rs": "hmac::verify(",
    }
    for path, check in checks.items():
        assert check in path.read_text(), path.name


def packages() -> dict[str, tuple[str, str]]:
    """Version and further lines, by name."""
    entry = re.compile(r'^\[\[package\]\]\nname = "(.*)"\nversion = "(.*)"\n((?:.+\n)*)', re.MULTILINE)
    return {name: (version, rest) for name, version, rest in entry.findall((ROOT / "Cargo.lock").read_text())}


def test_no_c_library_is_bundled_that_rust_can_do_without() -> None:
    """TLS, HTTP and zlib are Rust's, so that their C libraries' faults are not ours to follow.

    Rule: CVE-2016-9840, CVE-2016-9841, CVE-2016-9842, CVE-2016-9843, CVE-2026-27171.
    """
    locked = packages()
    assert {"rustls", "zlib-rs"} <= locked.keys()
    assert '"zlib-rs"' in locked["flate2"][1]
    bundled = {name for name in locked if name.endswith("-sys")} - {
        # Declarations of what a system has.
        "core-foundation-sys",
        "js-sys",
        "linux-raw-sys",
        "security-framework-sys",
        "windows-sys",
        # Only the fuzz targets have it.
        "libfuzzer-sys",
    }
    # Each is fed frames of a bounded size, and is fuzzed inside them (`tests/fuzz`).
    assert bundled == {"libdeflate-sys", "lz4-sys", "zstd-sys"}
    mended = locked["lz4-sys"][0].partition("+lz4-")[2]
    assert tuple(map(int, mended.split("."))) >= (1, 9, 4), "CVE-2021-3520"


def depth(fields: list[dict[str, Any]], structs: dict[str, list[dict[str, Any]]], above: tuple[str, ...] = ()) -> int:
    """How many structs stand in each other."""
    deepest = len(above)
    for field in fields:
        kind = field["type"].removeprefix("[]")
        inside = field.get("fields") or structs.get(kind)
        if inside:
            assert kind not in above, f"{kind} holds itself: {' > '.join(above)}"
            deepest = max(deepest, depth(inside, structs, (*above, kind)))
    return deepest


def test_no_message_nests_without_an_end() -> None:
    """Rule: 2.4.13."""
    deepest = {}
    for path in (ROOT / "schemas").rglob("*.json"):
        if path.parent.name in {"request", "response"}:
            message = json.loads(path.read_text())
            structs = {each["name"]: each["fields"] for each in message.get("commonStructs", [])}
            deepest[message["name"]] = 1 + depth(message["fields"], structs)
    assert len(deepest) > 150
    assert max(deepest.values()) <= 6, deepest
