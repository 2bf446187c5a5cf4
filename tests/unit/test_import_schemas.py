"""The importer of message schemas: what it puts back of the older release, and that releases which disagree are refused."""

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCHEMAS = Path(__file__).parents[2] / "schemas"


@pytest.fixture(scope="module")
def importer():
    spec = importlib.util.spec_from_file_location("import_schemas", SCHEMAS / "import_schemas.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["import_schemas"] = module
    spec.loader.exec_module(module)
    return module


def field(name, kind="int32", versions="0+", **more):
    return {"name": name, "type": kind, "versions": versions, **more}


def message(*fields, name="ThingRequest", valid="0-3", **more):
    return {
        "name": name,
        "type": "request",
        "apiKey": 9,
        "validVersions": valid,
        "flexibleVersions": "2+",
        "fields": list(fields),
        **more,
    }


def merged(importer, older, newer):
    return importer.merge({older["name"]: older}, {newer["name"]: newer})[newer["name"]]


OLDER = message(field("First"), field("Gone", versions="0-1", default=1), field("Last"))
NEWER = message(field("First"), field("Last"), field("New", versions="4+"), valid="2-4")


def test_what_the_newer_release_dropped_is_put_back_at_its_place(importer):
    result = merged(importer, OLDER, NEWER)
    assert result["validVersions"] == "0-4"
    assert [f["name"] for f in result["fields"]] == ["First", "Gone", "Last", "New"]
    assert result["fields"][1] == OLDER["fields"][1]


def test_messages_of_the_older_release_alone_are_kept(importer):
    assert merged(importer, OLDER, {**NEWER, "name": "OtherRequest"})["validVersions"] == "2-4"
    assert importer.merge({"ThingRequest": OLDER}, {})["ThingRequest"] == OLDER


def test_ignorable_is_taken_from_the_release_that_lacks_the_field(importer):
    older = message(field("Late", versions="1+", ignorable=True), valid="0-2")
    newer = message(field("Late", versions="1+"), valid="1-3")
    assert merged(importer, older, newer)["fields"][0]["ignorable"] is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "int64"}, ["type int32 became type int64"]),
        ({"default": -1}, ["default unsaid became default -1"]),
        ({"type": "string", "nullableVersions": "3+"}, ["type int32", "nullable True"]),
        ({"versions": "3+"}, ["ThingRequest 2: First: here True", "became absent"]),
        ({"tag": 0, "taggedVersions": "2+"}, ["tag None became tag 0"]),
    ],
)
def test_releases_that_disagree_are_refused_with_field_and_both_values(importer, change, said):
    newer = copy.deepcopy(NEWER)
    newer["fields"][0].update(change)
    with pytest.raises(importer.SchemaError) as refused:
        merged(importer, OLDER, newer)
    text = str(refused.value)
    assert "ThingRequest" in text
    assert "First" in text
    for part in said:
        assert part in text


def test_a_field_that_came_into_a_published_version_is_refused_unless_tagged(importer):
    newer = copy.deepcopy(NEWER)
    newer["fields"].append(field("Late"))
    with pytest.raises(importer.SchemaError, match="ThingRequest 0: Late: absent became here True, type int32"):
        merged(importer, OLDER, newer)
    newer["fields"][-1].update(versions="2+", tag=0, taggedVersions="2+")
    assert merged(importer, OLDER, newer)["fields"][-1]["name"] == "Late"


def test_another_word_on_dropping_a_value_is_refused(importer):
    newer = copy.deepcopy(NEWER)
    newer["fields"].insert(1, field("Gone", versions="0-1", default=1, ignorable=True))
    with pytest.raises(importer.SchemaError, match="ThingRequest 2: Gone: ignorable False became ignorable True"):
        merged(importer, OLDER, newer)


def test_fields_in_another_order_are_refused(importer):
    newer = copy.deepcopy(NEWER)
    newer["fields"][:2] = reversed(newer["fields"][:2])
    with pytest.raises(importer.SchemaError, match="order of fields"):
        merged(importer, OLDER, newer)


def test_versions_that_become_flexible_are_refused(importer):
    with pytest.raises(importer.SchemaError, match="ThingRequest 1: flexible False became True"):
        merged(importer, OLDER, {**NEWER, "flexibleVersions": "1+"})


def test_facts_are_normal_and_prose_is_left_behind(importer):
    text = (
        '{ // a comment\n "name": "ThingRequest", "type": "request", "apiKey": 9, "validVersions": "0-3", "fields": [\n'
    )
    text += ' {"name": "A", "type": "int32", "versions": "0+", "default": "0x10", "about": "See http://x // y."},\n'
    text += ' {"name": "B", "type": "string", "nullableVersions": "1+", "taggedVersions": "1+", "tag": "0", "default": "null"},\n'
    text += ' {"name": "C", "type": "bool", "versions": "0-0", "default": "false", "ignorable": false}]} trailing'
    found, _ = json.JSONDecoder().raw_decode(importer.without_comments(text))
    assert importer.normal_message(found) == {
        "name": "ThingRequest",
        "type": "request",
        "apiKey": 9,
        "validVersions": "0-3",
        "flexibleVersions": "none",
        "fields": [
            {"name": "A", "type": "int32", "versions": "0+", "default": 16},
            {
                "name": "B",
                "type": "string",
                "versions": "1+",
                "nullableVersions": "1+",
                "tag": 0,
                "taggedVersions": "1+",
                "default": None,
            },
            {"name": "C", "type": "bool", "versions": "0"},
        ],
    }


def test_a_bare_null_is_no_default(importer):
    assert "default" not in importer.normal_field(field("A", "string", nullableVersions="0+", default=None))


def test_text_is_stable_and_reads_back(importer):
    nested = message(field("Items", "[]Item", fields=[field("Id"), field("Name", "string")]), listeners=["broker"])
    text = importer.text_of(nested)
    assert json.loads(text) == nested
    assert max(map(len, text.splitlines())) < 200
    for path in SCHEMAS.glob("*/*.json"):
        assert importer.text_of(json.loads(path.read_text())) + "\n" == path.read_text(), path.name


def test_help_teaches(importer):
    done = subprocess.run(
        [sys.executable, str(SCHEMAS / "import_schemas.py"), "--help"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0
    assert "--older LIBS" in done.stdout


def test_a_folder_without_schemas_is_named(importer, tmp_path):
    with pytest.raises(importer.SchemaError, match=r"no schemas in .*kafka\*\.jar"):
        importer.read_release(tmp_path)


def test_what_was_written_by_hand_is_kept_and_what_is_no_more_is_removed(importer, tmp_path):
    for folder in (importer.BY_HAND, "request"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "OldRequest.json").write_text("{}\n")
    importer.write({"ThingRequest": NEWER}, [], tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*.json"))
    assert left == ["by-hand/OldRequest.json", "request/ThingRequest.json"]
