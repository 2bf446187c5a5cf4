//! How requests of invented schemas are refused, and which rows of `refusals.json` are no use.

// What is outside the test functions is still test code.
#![allow(clippy::unwrap_used)]

use ottla_codegen::schema::RefusalRow;
use ottla_codegen::{emit, refusal, resolve, schema};
use serde_json::{Value, json};

/// Requests shelves and their books; version 0 requests books alone.
fn messages() -> Vec<schema::Message> {
    let written = json!([
        {"name": "LendRequest", "type": "request", "apiKey": 0, "listeners": ["broker"], "validVersions": "0-2", "fields": [
            {"name": "Books", "type": "[]string", "versions": "0", "entityType": "bookName"},
            {"name": "Shelves", "type": "[]Shelf", "versions": "1+", "nullableVersions": "2+", "fields": [
                {"name": "Number", "type": "int32", "versions": "1+"},
                {"name": "Books", "type": "[]Book", "versions": "1+", "fields": [
                    {"name": "Title", "type": "string", "versions": "1+", "nullableVersions": "2+", "entityType": "bookName"},
                    {"name": "Days", "type": "int32", "versions": "1+"},
                ]},
            ]},
        ]},
        {"name": "LendResponse", "type": "response", "apiKey": 0, "validVersions": "0-2", "fields": [
            {"name": "ThrottleTimeMs", "type": "int32", "versions": "1+", "ignorable": true},
            {"name": "ErrorCode", "type": "int16", "versions": "2+"},
            {"name": "ErrorMessage", "type": "string", "versions": "2+"},
            {"name": "Books", "type": "[]LentBook", "versions": "0-1", "fields": [
                {"name": "Name", "type": "string", "versions": "0-1", "entityType": "bookName"},
                {"name": "NumberIndex", "type": "int32", "versions": "1"},
                {"name": "ErrorCode", "type": "int16", "versions": "0-1"},
                {"name": "Days", "type": "int32", "versions": "1", "default": -1},
            ]},
            {"name": "Shelves", "type": "[]LentShelf", "versions": "2+", "fields": [
                {"name": "Number", "type": "int32", "versions": "2+"},
                {"name": "ErrorCode", "type": "int16", "versions": "2+"},
            ]},
        ]},
    ]);
    serde_json::from_value(written).unwrap()
}

fn built(rows: Value) -> Result<String, String> {
    let rows: Vec<RefusalRow> = serde_json::from_value(rows).map_err(|e| e.to_string())?;
    let resolved = resolve::resolve(&messages()).map_err(|e| e.to_string())?;
    let plans = refusal::plans(&resolved, &rows).map_err(|e| e.to_string())?;
    Ok(emit::refusals(&plans))
}

#[test]
fn the_elements_that_answer_are_found_by_what_they_name() {
    insta::assert_snapshot!(built(json!([])).unwrap());
}

#[test]
fn a_row_says_what_the_schemas_do_not() {
    let source = built(json!([
        {"at": "LendResponse.Shelves", "versions": "2", "fill": true, "reason": "both"},
        {"at": "LendResponse.Books.Days", "value": 7, "reason": "a week"},
    ]))
    .unwrap();
    assert!(source.contains("response.days = 7;"), "{source}");
    assert!(source.contains("asked1.number.clone()"), "{source}");
}

#[test]
fn rows_that_mean_nothing_are_refused() {
    for (row, reason) in [
        (
            json!({"at": "LendResponse.Pages", "fill": true, "reason": "r"}),
            "no response has this field",
        ),
        (
            json!({"at": "LendResponse.Shelves", "versions": "7", "fill": true, "reason": "r"}),
            "no response has this field",
        ),
        (
            json!({"at": "LendResponse.Books.Days", "value": "week", "reason": "r"}),
            "this value does not fit",
        ),
        (
            json!({"at": "LendResponse.Books", "from": ["Pages"], "reason": "r"}),
            "the request has no such array",
        ),
    ] {
        let error = built(json!([row])).unwrap_err();
        assert!(error.contains(reason), "{row}: {error}");
        assert!(error.contains("refusals.json, LendResponse."), "{error}");
    }
}
