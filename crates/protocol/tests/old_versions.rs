//! The layouts that are only in old jars and the protocol guides of 0.8 to 0.10, written out by
//! hand. Their values in bulk are in `tests/conformance/schemas-old-jars.jsonl.gz`.

// What is outside the test functions is still test code.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use bytes::Bytes;
use ottla_protocol::messages::{ControlledShutdownRequest, OffsetFetchRequest};
use ottla_protocol::{Message, Reader, header, json};
use serde_json::{Value, json};

/// The bytes that the pieces name: numbers big-endian, a text with its length of two bytes, `=` before a text of four.
fn bytes(pieces: &str) -> Bytes {
    let mut out = Vec::new();
    for piece in pieces.split_whitespace() {
        let (kind, value) = piece.split_once(':').unwrap();
        match kind {
            "i8" => out.extend(value.parse::<i8>().unwrap().to_be_bytes()),
            "i16" => out.extend(value.parse::<i16>().unwrap().to_be_bytes()),
            "i32" => out.extend(value.parse::<i32>().unwrap().to_be_bytes()),
            "i64" => out.extend(value.parse::<i64>().unwrap().to_be_bytes()),
            "text" => {
                out.extend(i16::try_from(value.len()).unwrap().to_be_bytes());
                out.extend(value.as_bytes());
            }
            "bytes" => {
                out.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
                out.extend(value.as_bytes());
            }
            _ => unreachable!("{kind}"),
        }
    }
    out.into()
}

/// The message is these bytes, and these bytes are the message.
#[track_caller]
fn is(name: &str, version: i16, value: &Value, pieces: &str) {
    let expected = bytes(pieces);
    let written = json::encode(name, version, value).unwrap().into_bytes();
    assert_eq!(written, expected, "{name} {version}");
    let mut input = Reader::new(expected);
    assert_eq!(json::decode(name, version, &mut input).unwrap(), *value);
    input.finish().unwrap();
}

#[test]
fn controlled_shutdown_0_has_a_header_without_a_client_id() {
    let request = ControlledShutdownRequest {
        broker_id: 5,
        ..Default::default()
    };
    let frame = header::encode_request(&request, 0, 9, Some("me")).unwrap();
    let frame = frame.into_bytes();
    assert_eq!(frame, bytes("i32:12 i16:7 i16:0 i32:9 i32:5"));
    let (head, mut body) = header::decode_request_header(frame.slice(4..)).unwrap();
    assert_eq!((head.correlation_id, head.client_id), (9, None));
    assert_eq!(
        ControlledShutdownRequest::decode(0, &mut body).unwrap(),
        request
    );
    // From version 1 on it is like any other.
    let frame = header::encode_request(&request, 1, 9, Some("me")).unwrap();
    assert_eq!(
        frame.into_bytes(),
        bytes("i32:16 i16:7 i16:1 i32:9 text:me i32:5")
    );
}

#[test]
fn offset_commit_0_and_offset_fetch_0_are_those_of_zookeeper() {
    let partition =
        json!({"partitionIndex": 3, "committedOffset": 1000, "committedMetadata": "note"});
    let commit =
        json!({"groupId": "g", "topics": [{"name": "t", "partitions": [partition.clone()]}]});
    is(
        "OffsetCommitRequest",
        0,
        &commit,
        "text:g i32:1 text:t i32:1 i32:3 i64:1000 text:note",
    );
    // Version 1 is the first of the offsets topic: with a generation, a member, and a time at each partition.
    let mut partition = partition;
    partition["commitTimestamp"] = json!(-1);
    let commit = json!({"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "",
        "topics": [{"name": "t", "partitions": [partition]}]});
    is(
        "OffsetCommitRequest",
        1,
        &commit,
        "text:g i32:-1 text: i32:1 text:t i32:1 i32:3 i64:1000 i64:-1 text:note",
    );
    is(
        "OffsetCommitResponse",
        0,
        &json!({"topics": [{"name": "t", "partitions": [{"partitionIndex": 3, "errorCode": 0}]}]}),
        "i32:1 text:t i32:1 i32:3 i16:0",
    );
    // Versions 0 and 1 differ in where the broker looks, not in their bytes.
    for version in [0, 1] {
        let fetch = json!({"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [3]}]});
        is(
            "OffsetFetchRequest",
            version,
            &fetch,
            "text:g i32:1 text:t i32:1 i32:3",
        );
        let partition =
            json!({"partitionIndex": 3, "committedOffset": -1, "metadata": "", "errorCode": 3});
        is(
            "OffsetFetchResponse",
            version,
            &json!({"topics": [{"name": "t", "partitions": [partition]}]}),
            "i32:1 text:t i32:1 i32:3 i64:-1 text: i16:3",
        );
    }
    // All topics can be asked for from version 2 on only.
    let all = OffsetFetchRequest {
        topics: None,
        ..Default::default()
    };
    assert!(all.size(1).is_err());
    assert!(all.size(2).is_ok());
}

#[test]
fn join_group_0_as_the_client_of_0_8_2_declares_it() {
    let request = json!({"groupId": "g", "sessionTimeout": 30000, "topics": ["t", "u"], "consumerId": "c",
        "partitionAssignmentStrategy": "range"});
    is(
        "JoinGroup082Request",
        0,
        &request,
        "text:g i32:30000 i32:2 text:t text:u text:c text:range",
    );
    let response = json!({"errorCode": 0, "groupGenerationId": 1, "consumerId": "c",
        "assignedPartitions": [{"topic": "t", "partitions": [0, 1]}]});
    is(
        "JoinGroup082Response",
        0,
        &response,
        "i16:0 i32:1 text:c i32:1 text:t i32:2 i32:0 i32:1",
    );
    // What 0.9 made of version 0 is another message.
    let request = json!({"groupId": "g", "sessionTimeoutMs": 30000, "memberId": "c", "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": "AAE="}]});
    is(
        "JoinGroupRequest",
        0,
        &request,
        "text:g i32:30000 text:c text:consumer i32:1 text:range i32:2 i8:0 i8:1",
    );
}

#[test]
fn sasl_tokens_of_0_9_and_0_10_stand_bare_in_their_frames() {
    // A first token of GSSAPI: an application tag, its length, the mechanism's id (RFC 2743, 3.1).
    let first = [
        0x60, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01, 0x00,
    ];
    let frame = header::encode_sasl_token(&first).unwrap().into_bytes();
    assert_eq!(&frame[..4], [0, 0, 0, 15]);
    let inside = frame.slice(4..);
    assert_eq!(inside, first[..]);
    assert!(header::is_gssapi_token(&inside));
    // The last round may have nothing to say.
    let empty = header::encode_sasl_token(&[]).unwrap().into_bytes();
    assert_eq!(empty, bytes("i32:0"));
    // No request begins so, whatever its API.
    let request = header::encode_request(&OffsetFetchRequest::default(), 1, 0, None).unwrap();
    assert!(!header::is_gssapi_token(&request.into_bytes().slice(4..)));
    assert!(!header::is_gssapi_token(&Bytes::new()));
}

#[test]
fn produce_0_to_2_carry_message_sets() {
    let partition = json!({"index": 0, "records": "c2V0"});
    let request = json!({"acks": 2, "timeoutMs": 1500,
        "topicData": [{"name": "t", "partitionData": [partition]}]});
    let answers = [
        (json!({}), "i32:1 text:t i32:1 i32:0 i16:0 i64:7"),
        (
            json!({"throttleTimeMs": 4}),
            "i32:1 text:t i32:1 i32:0 i16:0 i64:7 i32:4",
        ),
        (
            json!({"throttleTimeMs": 4, "logAppendTimeMs": -1}),
            "i32:1 text:t i32:1 i32:0 i16:0 i64:7 i64:-1 i32:4",
        ),
    ];
    for (version, (more, pieces)) in answers.iter().enumerate() {
        let version = version as i16;
        is(
            "ProduceRequest",
            version,
            &request,
            "i16:2 i32:1500 i32:1 text:t i32:1 i32:0 bytes:set",
        );
        let mut partition = json!({"index": 0, "errorCode": 0, "baseOffset": 7});
        if version == 2 {
            partition["logAppendTimeMs"] = more["logAppendTimeMs"].clone();
        }
        let mut response = json!({"responses": [{"name": "t", "partitionResponses": [partition]}]});
        if version > 0 {
            response["throttleTimeMs"] = more["throttleTimeMs"].clone();
        }
        is("ProduceResponse", version, &response, pieces);
    }
}

#[test]
fn fetch_0_to_3_give_message_sets() {
    for version in 0..4 {
        let partition = json!({"partition": 0, "fetchOffset": 5, "partitionMaxBytes": 100});
        let mut request = json!({"replicaId": -1, "maxWaitMs": 500, "minBytes": 1,
            "topics": [{"topic": "t", "partitions": [partition]}]});
        let mut response = json!({"responses": [{"topic": "t", "partitions": [
            {"partitionIndex": 0, "errorCode": 0, "highWatermark": 9, "records": "c2V0"}]}]});
        let (mut limit, mut throttled) = ("", "");
        if version == 3 {
            request["maxBytes"] = json!(4096);
            limit = "i32:4096";
        }
        if version > 0 {
            response["throttleTimeMs"] = json!(8);
            throttled = "i32:8";
        }
        is(
            "FetchRequest",
            version,
            &request,
            &format!("i32:-1 i32:500 i32:1 {limit} i32:1 text:t i32:1 i32:0 i64:5 i32:100"),
        );
        is(
            "FetchResponse",
            version,
            &response,
            &format!("{throttled} i32:1 text:t i32:1 i32:0 i16:0 i64:9 bytes:set"),
        );
    }
}

#[test]
fn leader_and_isr_0_stop_replica_0_and_update_metadata_0_are_there() {
    let state = json!({"topicName": "t", "partitionIndex": 0, "controllerEpoch": 1, "leader": 2, "leaderEpoch": 3,
        "isr": [2], "partitionEpoch": 4, "replicas": [2, 5]});
    let states = "i32:1 text:t i32:0 i32:1 i32:2 i32:3 i32:1 i32:2 i32:4 i32:2 i32:2 i32:5";
    is(
        "LeaderAndIsrRequest",
        0,
        &json!({"controllerId": 1, "controllerEpoch": 1, "ungroupedPartitionStates": [state.clone()],
            "liveLeaders": [{"brokerId": 2, "hostName": "h", "port": 9092}]}),
        &format!("i32:1 i32:1 {states} i32:1 i32:2 text:h i32:9092"),
    );
    let mut state = state;
    state["zkVersion"] = state
        .as_object_mut()
        .unwrap()
        .shift_remove("partitionEpoch")
        .unwrap();
    is(
        "UpdateMetadataRequest",
        0,
        &json!({"controllerId": 1, "controllerEpoch": 1, "ungroupedPartitionStates": [state],
            "liveBrokers": [{"id": 2, "v0Host": "h", "v0Port": 9092}]}),
        &format!("i32:1 i32:1 {states} i32:1 i32:2 text:h i32:9092"),
    );
    is(
        "StopReplicaRequest",
        0,
        &json!({"controllerId": 1, "controllerEpoch": 1, "deletePartitions": true,
            "ungroupedPartitions": [{"topicName": "t", "partitionIndex": 0}]}),
        "i32:1 i32:1 i8:1 i32:1 text:t i32:0",
    );
    // The responses are of one form.
    for (name, list) in [
        ("LeaderAndIsrResponse", "partitionErrors"),
        ("StopReplicaResponse", "partitionErrors"),
    ] {
        let error = json!({"topicName": "t", "partitionIndex": 0, "errorCode": 9});
        is(
            name,
            0,
            &json!({"errorCode": 0, list: [error]}),
            "i16:0 i32:1 text:t i32:0 i16:9",
        );
    }
    is(
        "UpdateMetadataResponse",
        0,
        &json!({"errorCode": 11}),
        "i16:11",
    );
}
