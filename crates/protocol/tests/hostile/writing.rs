//! What the wire cannot say is refused when it is written, before a byte of it is.

use bytes::Bytes;
use ottla_protocol::messages::{MetadataResponse, ProduceRequest, produce_request as produce};
use ottla_protocol::{EncodeErrorKind, Message, Str, UnknownTag, Writer, header};

#[test]
fn strings_and_unknown_tags_are_checked_when_written() {
    let encode = |message: &MetadataResponse, version| message.encode(version, &mut Writer::new());
    let mut message = MetadataResponse {
        cluster_id: Some(Str::from("a".repeat(32_767))),
        ..Default::default()
    };
    encode(&message, 9).unwrap();
    message.cluster_id = Some(Str::from("a".repeat(32_768)));
    let error = encode(&message, 9).unwrap_err();
    assert_eq!(
        error.to_string(),
        "MetadataResponse.clusterId: a string of 32768 bytes; at most 32767 are allowed"
    );
    message.cluster_id = None;
    message.unknown_tagged_fields = [5, 3]
        .into_iter()
        .map(|tag| UnknownTag {
            tag,
            value: Bytes::new(),
        })
        .collect();
    assert_eq!(
        encode(&message, 9).unwrap_err().kind(),
        &EncodeErrorKind::TagOrder { tag: 3 }
    );
    assert_eq!(
        encode(&message, 8).unwrap_err().kind(),
        &EncodeErrorKind::TagsNotInVersion { version: 8 }
    );
    let error = encode(&message, 99).unwrap_err();
    assert_eq!(
        error.to_string(),
        "MetadataResponse has no version 99 here, only 0-13"
    );
}

/// franz-go wrote a Produce request of flexible versions one byte short where one batch of it had failed.
#[test]
fn a_request_without_one_of_its_batches_has_the_size_it_says() {
    let partition = |records| produce::PartitionProduceData {
        records,
        ..Default::default()
    };
    let request = ProduceRequest {
        topic_data: vec![produce::TopicProduceData {
            name: "t".into(),
            partition_data: vec![
                partition(Some(Bytes::from_static(b"batch"))),
                partition(None),
            ],
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 3..=12 {
        let frame = header::encode_request(&request, version, 1, Some("c")).unwrap();
        let bytes = frame.into_bytes();
        let length = i32::from_be_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(length as usize, bytes.len() - 4, "version {version}");
        let (_, mut body) = header::decode_request_header(bytes.slice(4..)).unwrap();
        assert_eq!(ProduceRequest::decode(version, &mut body).unwrap(), request);
        body.finish().unwrap();
    }
}

/// librdkafka 2.5.0 crashed on a long client id in flexible versions.
#[test]
fn a_client_id_is_as_long_as_a_string_may_be() {
    let request = ProduceRequest::default();
    for version in [8, 9] {
        let encode = |length| {
            header::encode_request(&request, version, 1, Some(&"c".repeat(length))).map(|frame| {
                let frame = frame.into_bytes().slice(4..);
                header::decode_request_header(frame).unwrap().0.client_id
            })
        };
        assert_eq!(encode(32_767).unwrap().unwrap().len(), 32_767);
        assert_eq!(
            encode(32_768).unwrap_err().to_string(),
            "RequestHeader.clientId: a string of 32768 bytes; at most 32767 are allowed"
        );
    }
}
