//! How requests are refused, against Kafka's own `AbstractRequest.getErrorResponse`:
//! `tests/conformance/README.md` describes the file. `cargo test -p ottla-protocol --test refusals
//! -- --nocapture` prints the counts.
//!
//! `OTTLA_CORPUS=DIR` reads the corpora of another folder, which `tests/conformance/test_fresh.py` makes.

// What is outside the test functions is still test code.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla_protocol::messages::{DescribeLogDirsRequest, ProduceRequest};
use ottla_protocol::refusal::{self, Refusal, RefusalError, Refuse};
use ottla_protocol::{ApiKey, ErrorCode, Reader, Versions, header, json};
use serde_json::Value;

const ALL: Versions = Versions {
    min: 0,
    max: i16::MAX,
};

/// Where a response of ours is not Kafka's, and meant to be so.
struct Different {
    why: &'static str,
    apis: &'static [ApiKey],
    versions: Versions,
    /// Takes the difference out of both responses, ours first.
    even: fn(&mut Value, &mut Value),
}

/// Every difference there is. One that no line shows fails the test, as does any that is not here.
const DIFFERENT: &[Different] = &[
    Different {
        why: "the throttle time, which Kafka leaves out",
        apis: &[
            ApiKey::AlterUserScramCredentials,
            ApiKey::DescribeCluster,
            ApiKey::DescribeProducers,
            ApiKey::FindCoordinator,
            ApiKey::IncrementalAlterConfigs,
            ApiKey::OffsetForLeaderEpoch,
        ],
        versions: ALL,
        even: |ours, theirs| {
            if theirs["throttleTimeMs"] == 0 {
                ours["throttleTimeMs"] = 0.into();
            }
        },
    },
    Different {
        why: "the message given, which Kafka leaves out",
        apis: &[
            ApiKey::ConsumerGroupDescribe,
            ApiKey::ConsumerGroupHeartbeat,
            ApiKey::DeleteGroups,
            ApiKey::DeleteShareGroupState,
            ApiKey::DeleteTopics,
            ApiKey::DescribeGroups,
            ApiKey::DescribeProducers,
            ApiKey::InitializeShareGroupState,
            ApiKey::ShareAcknowledge,
            ApiKey::ShareFetch,
            ApiKey::ShareGroupDescribe,
            ApiKey::ShareGroupHeartbeat,
            ApiKey::StreamsGroupDescribe,
            ApiKey::StreamsGroupHeartbeat,
        ],
        versions: ALL,
        even: |ours, theirs| {
            pairs("errorMessage", ours, theirs, &mut |ours, theirs| {
                if theirs.is_null() {
                    *ours = Value::Null;
                }
            });
        },
    },
    Different {
        why: "the message given or none, where Kafka says its own text of the code",
        apis: &[
            ApiKey::AddRaftVoter,
            ApiKey::AlterClientQuotas,
            ApiKey::AlterShareGroupOffsets,
            ApiKey::ControllerRegistration,
            ApiKey::DeleteShareGroupOffsets,
            ApiKey::DescribeConfigs,
            ApiKey::DescribeQuorum,
            ApiKey::DescribeShareGroupOffsets,
            ApiKey::FindCoordinator,
            ApiKey::ReadShareGroupState,
            ApiKey::ReadShareGroupStateSummary,
            ApiKey::RemoveRaftVoter,
            ApiKey::WriteShareGroupState,
        ],
        versions: ALL,
        even: |ours, theirs| {
            pairs("errorMessage", ours, theirs, &mut |ours, theirs| {
                if theirs.as_str().is_some_and(|text| text.ends_with('.')) {
                    *ours = theirs.clone();
                }
            });
        },
    },
    Different {
        why: "the topics as they were asked about and every marker, where Kafka collects partitions in a hash map or set, \
              of the last marker that names a producer",
        apis: &[
            ApiKey::AlterUserScramCredentials,
            ApiKey::OffsetFetch,
            ApiKey::Produce,
            ApiKey::StopReplica,
            ApiKey::WriteTxnMarkers,
        ],
        versions: ALL,
        even: |ours, theirs| {
            keep_last_markers(ours);
            gather(ours);
            gather(theirs);
        },
    },
    Different {
        why: "empty records, where Kafka 3.9 writes null, which clients before 0.10.2 do not take",
        apis: &[ApiKey::Fetch],
        versions: Versions { min: 0, max: 3 },
        even: |ours, theirs| {
            pairs("records", ours, theirs, &mut |ours, theirs| {
                if *ours == "" {
                    *theirs = Value::from("");
                }
            });
        },
    },
    Different {
        why: "no name for a topic asked for by its id, as a broker's answer has it, where Kafka says an empty one",
        apis: &[ApiKey::Metadata],
        versions: Versions { min: 12, max: 13 },
        even: |ours, theirs| {
            pairs("name", ours, theirs, &mut |ours, theirs| {
                if ours.is_null() && *theirs == "" {
                    *theirs = Value::Null;
                }
            });
        },
    },
    Different {
        why: "the user's name, which Kafka leaves out",
        apis: &[ApiKey::DescribeUserScramCredentials],
        versions: ALL,
        even: |ours, theirs| {
            pairs("user", ours, theirs, &mut |ours, theirs| {
                if *theirs == "" {
                    *ours = Value::from("");
                }
            });
        },
    },
];

/// Calls `even` with every two fields of this name that stand at the same place.
fn pairs(
    name: &str,
    ours: &mut Value,
    theirs: &mut Value,
    even: &mut dyn FnMut(&mut Value, &mut Value),
) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, ours) in ours {
                match theirs.get_mut(key) {
                    Some(theirs) if key == name => even(ours, theirs),
                    Some(theirs) => pairs(name, ours, theirs, even),
                    None => {}
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            for (ours, theirs) in ours.iter_mut().zip(theirs) {
                pairs(name, ours, theirs, even);
            }
        }
        _ => {}
    }
}

/// Of markers that name the same producer, keeps the last.
fn keep_last_markers(answer: &mut Value) {
    if let Some(markers) = answer.get_mut("markers").and_then(Value::as_array_mut) {
        let by_producer: BTreeMap<String, Value> = markers
            .drain(..)
            .map(|marker| (marker["producerId"].to_string(), marker))
            .collect();
        markers.extend(by_producer.into_values());
    }
}

/// Puts every list in order, with elements that name the same as one: their own lists are joined. Topics without partitions are
/// left out.
fn gather(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(gather),
        Value::Array(elements) => {
            let mut named: BTreeMap<String, Value> = BTreeMap::new();
            let no_partitions = |element: &Value| {
                let of = |key| element.get(key).and_then(Value::as_array);
                of("partitions")
                    .or(of("partitionResponses"))
                    .is_some_and(Vec::is_empty)
            };
            elements.retain(|element| !no_partitions(element));
            for element in elements.drain(..) {
                let mut name = element.clone();
                if let Value::Object(fields) = &mut name {
                    fields.retain(|_, field| !field.is_array());
                }
                match named.get_mut(&name.to_string()) {
                    Some(known) => {
                        for (key, field) in known.as_object_mut().unwrap() {
                            if let Value::Array(list) = field {
                                list.extend(element[key].as_array().unwrap().iter().cloned());
                            }
                        }
                    }
                    None => {
                        named.insert(name.to_string(), element);
                    }
                }
            }
            elements.extend(named.into_values());
            elements.iter_mut().for_each(gather);
        }
        _ => {}
    }
}

fn folder() -> PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    std::env::var_os("OTTLA_CORPUS").map_or(kept, PathBuf::from)
}

fn lines(file: &str) -> impl Iterator<Item = Value> {
    let file = std::fs::File::open(folder().join(file)).unwrap();
    BufReader::new(flate2::read::GzDecoder::new(file))
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn unhex(text: &Value) -> Bytes {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.as_str()
        .unwrap()
        .as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn refuse(api: ApiKey, version: i16, request: &Bytes, refusal: &Refusal) -> Bytes {
    refusal::error_response(api, version, request.clone(), refusal)
        .unwrap_or_else(|error| panic!("{api} {version}: {error}"))
        .into_bytes()
}

fn response(api: ApiKey, version: i16, bytes: &Bytes) -> Value {
    let name = format!("{}Response", api.name());
    let mut input = Reader::new(bytes.clone());
    let value = json::decode(&name, version, &mut input).unwrap();
    input.finish().unwrap();
    value
}

/// The responses are the same but for differences that are listed: which ones.
fn differences(
    api: ApiKey,
    version: i16,
    ours: &Bytes,
    theirs: &Bytes,
) -> Result<Vec<usize>, String> {
    if ours == theirs {
        return Ok(Vec::new());
    }
    let (mut ours, mut theirs) = (response(api, version, ours), response(api, version, theirs));
    let mut found = Vec::new();
    for (i, different) in DIFFERENT.iter().enumerate() {
        if different.apis.contains(&api) && different.versions.contains(version) {
            let before = (ours.clone(), theirs.clone());
            (different.even)(&mut ours, &mut theirs);
            if before != (ours.clone(), theirs.clone()) {
                found.push(i);
            }
        }
    }
    if ours == theirs {
        Ok(found)
    } else {
        Err(format!("{api} {version}: {ours}, Kafka {theirs}"))
    }
}

#[test]
fn requests_are_refused_as_kafka_refuses_them() {
    let (mut equal, mut unparsed, mut none, mut throws) = (0, 0, 0, 0);
    let mut different = vec![0; DIFFERENT.len()];
    let mut shown: BTreeSet<(usize, ApiKey)> = BTreeSet::new();
    let (mut pairs, mut wrong) = (BTreeSet::new(), Vec::new());
    let mut count = 0;
    for line in lines("refusals.jsonl.gz") {
        let api = ApiKey::from_i16(line["api"].as_i64().unwrap() as i16).unwrap();
        let version = line["v"].as_i64().unwrap() as i16;
        let request = unhex(&line["request"]);
        if line.get("unparsed").is_some() {
            // Numbers that Kafka does not know, or nulls that its request class does not expect:
            // the bytes are still a request, and get a response.
            let refusal = Refusal::from(ErrorCode::INVALID_REQUEST);
            response(api, version, &refuse(api, version, &request, &refusal));
            unparsed += 1;
            continue;
        }
        for answer in line["answers"].as_array().unwrap() {
            count += 1;
            let refusal = Refusal {
                code: ErrorCode(answer["code"].as_i64().unwrap() as i16),
                message: answer["message"].as_str().map(Into::into),
                throttle_time_ms: answer["throttle"].as_i64().unwrap() as i32,
            };
            let ours = refuse(api, version, &request, &refusal);
            if answer.get("none").is_some() {
                // Acks 0: nobody waits for a response. We make one, and its caller looks at acks.
                assert_eq!(api, ApiKey::Produce);
                none += 1;
            } else if answer.get("throws").is_some() {
                // Kafka fails on null records, and on a missing list of users; we respond with what
                // there is.
                assert!(
                    [ApiKey::Produce, ApiKey::DescribeUserScramCredentials].contains(&api),
                    "{api}"
                );
                response(api, version, &ours);
                throws += 1;
            } else {
                pairs.insert((api, version));
                match differences(api, version, &ours, &unhex(&answer["hex"])) {
                    Ok(found) if found.is_empty() => equal += 1,
                    Ok(found) => {
                        for i in found {
                            different[i] += 1;
                            shown.insert((i, api));
                        }
                    }
                    Err(why) => wrong.push(why),
                }
            }
        }
    }
    println!("{} pairs of API and version, {count} refusals", pairs.len());
    println!("{equal:>7} equal byte for byte");
    for (different, count) in DIFFERENT.iter().zip(&different) {
        println!("{count:>7} with {}", different.why);
    }
    println!("{none:>7} that Kafka does not answer (acks 0)");
    println!("{throws:>7} at which Kafka throws");
    println!("{unparsed:>7} requests that Kafka does not parse");
    let kinds: BTreeMap<&str, &String> = wrong
        .iter()
        .rev()
        .map(|why: &String| (why.split(':').next().unwrap(), why))
        .collect();
    let examples: Vec<String> = kinds.values().map(|why| why.to_string()).collect();
    assert!(
        wrong.is_empty(),
        "{} answers differ:\n{}",
        wrong.len(),
        examples.join("\n")
    );
    // Another seed may not come upon each of them.
    let kept = std::env::var_os("OTTLA_CORPUS").is_none();
    for (i, different) in DIFFERENT.iter().enumerate() {
        for api in different.apis {
            assert!(
                !kept || shown.contains(&(i, *api)),
                "{api} has it not any more: {}",
                different.why
            );
        }
    }
    assert_eq!(pairs.len(), 368, "every API at every version");
}

/// APIs and versions whose response has no place for an error, whatever was asked.
const NO_PLACE: &[(ApiKey, Versions)] = &[(ApiKey::DescribeLogDirs, Versions { min: 0, max: 2 })];

/// Is the code in the response?
fn says(value: &Value, code: i16) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, field)| {
            (key.to_lowercase().ends_with("errorcode") && *field == code) || says(field, code)
        }),
        Value::Array(elements) => elements.iter().any(|element| says(element, code)),
        _ => false,
    }
}

/// Does the request ask about something, at every list that it has at its top?
fn asks(request: &Value) -> bool {
    request.as_object().unwrap().values().all(|field| {
        field
            .as_array()
            .is_none_or(|list| !list.is_empty() && list.iter().filter(|e| e.is_object()).all(asks))
    }) && request
        .as_object()
        .unwrap()
        .values()
        .all(|field| !field.is_null())
}

#[test]
fn every_request_is_answered_with_the_code_in_it() {
    let refusal = Refusal {
        code: ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
        message: Some("no".into()),
        throttle_time_ms: 9,
    };
    let (mut said, mut nothing_asked, mut no_place) = (0, 0, 0);
    let (mut pairs, mut proven) = (BTreeSet::new(), BTreeSet::new());
    for line in ["schemas-4.4.0.jsonl.gz", "schemas-3.9.1-only.jsonl.gz"]
        .into_iter()
        .flat_map(lines)
    {
        let kind = line["kind"].as_str().unwrap();
        if line["type"] != "request" || kind.starts_with("enc-") || kind == "mut" {
            continue;
        }
        let api = ApiKey::from_i16(line["api"].as_i64().unwrap() as i16).unwrap();
        let version = line["v"].as_i64().unwrap() as i16;
        pairs.insert((api, version));
        let answer = response(
            api,
            version,
            &refuse(api, version, &unhex(&line["hex"]), &refusal),
        );
        if says(&answer, refusal.code.0) {
            said += 1;
            proven.insert((api, version));
        } else if NO_PLACE
            .iter()
            .any(|(key, versions)| *key == api && versions.contains(version))
        {
            no_place += 1;
        } else {
            assert!(
                !asks(&line["json"]),
                "{api} {version} asks {}, and gets {answer}",
                line["json"]
            );
            nothing_asked += 1;
        }
    }
    println!(
        "{} pairs of API and version, {said} answers with the code",
        pairs.len()
    );
    println!("{nothing_asked:>7} where nothing was asked about");
    println!("{no_place:>7} where the version has no place for an error");
    assert_eq!(pairs.len(), 368);
    assert_eq!(
        proven.len(),
        368 - 3,
        "all but those that have no place for it"
    );
}

#[test]
fn a_frame_is_refused_by_what_it_says() {
    let refusal = Refusal::from(ErrorCode::REQUEST_TIMED_OUT);
    let frame = header::encode_request(&ProduceRequest::default(), 9, 77, Some("me")).unwrap();
    let answer = refusal::error_frame(frame.into_bytes().slice(4..), &refusal)
        .unwrap()
        .into_bytes();
    assert_eq!(answer[..4], (answer.len() as i32 - 4).to_be_bytes());
    let (id, _) =
        header::decode_response::<ottla_protocol::messages::ProduceResponse>(9, answer.slice(4..))
            .unwrap();
    assert_eq!(id, 77);

    let unknown = Bytes::from_static(&[0, 95, 0, 0, 0, 0, 0, 1, 255, 255]);
    assert_eq!(
        refusal::error_frame(unknown, &refusal),
        Err(RefusalError::UnknownApi(95))
    );
    let too_new = Bytes::from_static(&[0, 0, 0, 99, 0, 0, 0, 1, 255, 255, 0]);
    assert!(matches!(
        refusal::error_frame(too_new, &refusal),
        Err(RefusalError::Decode(_))
    ));
}

#[test]
fn a_message_that_is_too_long_is_an_error() {
    let refusal = Refusal {
        code: ErrorCode::INVALID_REQUEST,
        message: Some("x".repeat(40_000).into()),
        throttle_time_ms: 0,
    };
    let nothing = DescribeLogDirsRequest::default().error_response(0, &refusal);
    assert!(
        nothing.results.is_empty(),
        "it has no place for the message"
    );
    let cluster = refusal::error_response(
        ApiKey::DescribeCluster,
        0,
        Bytes::from_static(&[0, 0]),
        &refusal,
    );
    assert!(
        matches!(cluster, Err(RefusalError::Encode(_))),
        "{cluster:?}"
    );
}
