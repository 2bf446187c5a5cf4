//! Small invented schemas, which use every keyword between them: what is built of them, and what is refused.

use ottla_codegen::{emit, resolve, schema};
use serde_json::{Value, json};

fn built(schema: Value) -> Result<String, String> {
    let written: schema::Message = serde_json::from_value(schema).map_err(|e| e.to_string())?;
    let resolved = resolve::message(&written).map_err(|e| e.to_string())?;
    Ok(emit::message(&resolved))
}

fn with_field(field: Value) -> Value {
    json!({"name": "Invented", "type": "data", "validVersions": "0-2", "flexibleVersions": "1+", "fields": [field]})
}

/// The error of a schema whose only field is this one.
fn refusal(field: Value) -> String {
    built(with_field(field)).err().unwrap_or_default()
}

#[test]
fn versions_defaults_and_ignorable_fields() {
    let source = built(json!({
            "name": "PlainRequest", "type": "request", "apiKey": 7, "listeners": ["broker"],
            "validVersions": "0-4", "fields": [
                {"name": "Always", "type": "int32", "versions": "0+"},
                {"name": "First", "type": "bool", "versions": "0", "default": true},
                {"name": "Middle", "type": "int16", "versions": "1-3", "default": -1, "ignorable": true},
                {"name": "Late", "type": "float64", "versions": "2+", "default": 0.5},
                {"name": "type", "type": "uint16", "versions": "0+", "mapKey": true},
                {"name": "Crc", "type": "uint32", "versions": "4+", "ignorable": true},
                {"name": "Label", "type": "string", "versions": "3+", "default": "none", "entityType": "topicName"},
            ]
        }))
        .unwrap();
    insta::assert_snapshot!(source);
}

#[test]
fn nulls_and_flexible_versions() {
    let source = built(json!({
            "name": "NullableResponse", "type": "response", "apiKey": 8,
            "validVersions": "0-3", "flexibleVersions": "2+", "latestVersionUnstable": true, "fields": [
                {"name": "Maybe", "type": "string", "versions": "0+", "nullableVersions": "1+"},
                {"name": "ClientId", "type": "string", "versions": "0+", "nullableVersions": "0+",
                 "default": null, "flexibleVersions": "none"},
                {"name": "Data", "type": "records", "versions": "0+", "nullableVersions": "0+", "zeroCopy": true},
                {"name": "Ids", "type": "[]int64", "versions": "0+", "nullableVersions": "3+"},
                {"name": "Owner", "type": "Owner", "versions": "1+", "nullableVersions": "2+", "fields": [
                    {"name": "Id", "type": "uuid", "versions": "1+"},
                ]},
            ]
        }))
        .unwrap();
    insta::assert_snapshot!(source);
}

#[test]
fn tags_and_shared_structs() {
    let source = built(json!({
            "name": "TaggedData", "type": "data", "validVersions": "0-2", "flexibleVersions": "1+",
            "commonStructs": [
                {"name": "Point", "versions": "0+", "fields": [
                    {"name": "X", "type": "int8", "versions": "0+"},
                    {"name": "Name", "type": "string", "versions": "0+"},
                ]},
            ],
            "fields": [
                {"name": "Points", "type": "[]Point", "versions": "0+"},
                {"name": "Epoch", "type": "int64", "versions": "1+", "tag": 1, "taggedVersions": "1+", "default": -1},
                {"name": "Origin", "type": "Point", "versions": "1+", "tag": 0, "taggedVersions": "1+"},
                {"name": "Target", "type": "Point", "versions": "2+", "nullableVersions": "2+",
                 "tag": 2, "taggedVersions": "2+", "default": null},
                {"name": "Note", "type": "bytes", "versions": "2+", "nullableVersions": "2+",
                 "tag": 3, "taggedVersions": "2+", "ignorable": true},
            ]
        }))
        .unwrap();
    insta::assert_snapshot!(source);
}

#[test]
fn names_are_kafkas_in_snake_case() {
    for (name, snake) in [
        ("MaxWaitMs", "max_wait_ms"),
        ("isKRaftController", "is_k_raft_controller"),
        ("TopicId", "topic_id"),
        ("SubscribedTopicIDs", "subscribed_topic_i_ds"),
        ("V0Name", "v0_name"),
        ("AbcHTTPPort", "abc_http_port"),
    ] {
        assert_eq!(resolve::snake(name), snake);
    }
}

#[test]
fn the_least_size_of_an_element_follows_the_version() {
    let message = serde_json::from_value(json!({
        "name": "Sized", "type": "data", "validVersions": "0-3", "flexibleVersions": "2+", "fields": [
            {"name": "Items", "type": "[]Item", "versions": "0+", "fields": [
                {"name": "Name", "type": "string", "versions": "0+"},
                {"name": "Offsets", "type": "[]int64", "versions": "0+"},
                {"name": "Id", "type": "uuid", "versions": "3+"},
                {"name": "Extra", "type": "int32", "versions": "2+", "tag": 0, "taggedVersions": "2+"},
            ]},
        ]
    }));
    let resolved = resolve::message(&message.unwrap()).unwrap();
    let least: Vec<_> = resolved.structs[1]
        .least
        .iter()
        .map(|(v, n)| (v.to_string(), *n))
        .collect();
    assert_eq!(
        least,
        [
            ("0-1".to_owned(), 6),
            ("2".to_owned(), 3),
            ("3".to_owned(), 19)
        ]
    );
}

#[test]
fn what_means_nothing_is_refused() {
    let field = |more: Value| {
        let mut field = json!({"name": "Field", "type": "string", "versions": "0+"});
        field
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        refusal(field)
    };
    for (more, reason) in [
        (json!({"type": "int33"}), "unknown type \"int33\""),
        (
            json!({"type": "[][]int32"}),
            "no array may hold arrays or records",
        ),
        (json!({"versions": "3-1"}), "upside down"),
        (json!({"version": "0+"}), "unknown field `version`"),
        (
            json!({"type": "int8", "default": 200}),
            "Invented.Field: its default does not fit its type",
        ),
        (
            json!({"type": "int8", "nullableVersions": "0+"}),
            "its type cannot be null",
        ),
        (
            json!({"nullableVersions": "1+", "default": null}),
            "must be nullable in all its versions",
        ),
        (json!({"tag": 0}), "tag and taggedVersions go together"),
        (
            json!({"tag": 0, "taggedVersions": "0+"}),
            "tagged in versions without tags",
        ),
        (
            json!({"versions": "1+", "tag": 1, "taggedVersions": "1+"}),
            "count from 0 without a gap",
        ),
        (json!({"type": "Missing"}), "this struct is not declared"),
        (
            json!({"type": "Invented", "fields": []}),
            "the struct Invented is declared twice",
        ),
    ] {
        let error = field(more.clone());
        assert!(error.contains(reason), "{more}: {error}");
    }
}

#[test]
fn messages_that_mean_nothing_are_refused() {
    let changed = |key: &str, value: Value| {
        let mut schema = with_field(json!({"name": "Field", "type": "int8", "versions": "0+"}));
        schema[key] = value;
        built(schema).expect_err("refused")
    };
    assert!(changed("validVersions", json!("0+")).contains("must be a closed range"));
    assert!(changed("flexibleVersions", json!("1-2")).contains("must be open-ended"));
    assert!(changed("about", json!("prose")).contains("unknown field `about`"));
    let narrow = json!([{"name": "Inner", "versions": "1+", "fields": []}]);
    let mut schema = with_field(json!({"name": "Field", "type": "Inner", "versions": "0+"}));
    schema["commonStructs"] = narrow;
    assert!(
        built(schema)
            .expect_err("refused")
            .contains("used in versions that it is not for")
    );
}
