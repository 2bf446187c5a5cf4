//! Messages.

use bytes::Bytes;
use ottla_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, FetchRequest, FetchResponse,
    GetTelemetrySubscriptionsResponse, JoinGroupRequest, MetadataRequest, MetadataResponse,
    ResponseHeader, SaslHandshakeResponse, ShareFetchResponse,
};
use ottla_protocol::{DecodeError, DecodeErrorKind, Message, Reader};

fn decode<M: Message>(version: i16, bytes: &[u8]) -> Result<M, DecodeError> {
    let mut input = Reader::new(Bytes::copy_from_slice(bytes));
    let message = M::decode(version, &mut input)?;
    input.finish()?;
    Ok(message)
}

#[track_caller]
fn refused<M: Message>(version: i16, bytes: &[u8], text: &str) -> DecodeErrorKind {
    let error = decode::<M>(version, bytes).unwrap_err();
    assert_eq!(error.to_string(), text);
    error.kind().clone()
}

/// Rule: 2.4.3.
#[test]
fn a_length_below_null() {
    let kind = refused::<MetadataRequest>(
        1,
        &[0, 0, 0, 1, 0xff, 0xfe],
        "MetadataRequest.topics[0].name: the length -2 is negative",
    );
    assert_eq!(kind, DecodeErrorKind::NegativeLength { length: -2 });
    refused::<MetadataRequest>(
        1,
        &[0x80, 0, 0, 0],
        "MetadataRequest.topics: the length -2147483648 is negative",
    );
    // A compact length is written as one more, and still has 31 bits.
    refused::<MetadataRequest>(
        9,
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        "MetadataRequest.topics: the length -2 is negative",
    );
}

/// Rule: 2.4.3.
#[test]
fn null_where_the_version_has_none() {
    let kind = refused::<MetadataRequest>(
        0,
        &[0xff; 4],
        "MetadataRequest.topics: null is not allowed in this version",
    );
    assert_eq!(kind, DecodeErrorKind::NullNotAllowed);
    assert_eq!(
        decode::<MetadataRequest>(1, &[0xff; 4]).unwrap().topics,
        None
    );
}

/// librdkafka 5577: it counted -1 elements, before authentication, in an API that is on by default.
#[test]
fn a_null_compact_list_of_telemetry_subscriptions() {
    let mut bytes = vec![0; 4 + 2 + 16 + 4];
    bytes.push(0);
    refused::<GetTelemetrySubscriptionsResponse>(
        0,
        &bytes,
        "GetTelemetrySubscriptionsResponse.acceptedCompressionTypes: null is not allowed in this version",
    );
}

/// Rule: 2.4.3.
#[test]
fn a_string_above_32767_bytes() {
    let mut bytes = vec![2, 0x81, 0x80, 0x02];
    bytes.resize(40_000, b'a');
    let kind = refused::<MetadataRequest>(
        9,
        &bytes,
        "MetadataRequest.topics[0].name: a string of 32768 bytes; at most 32767 are allowed",
    );
    assert_eq!(kind, DecodeErrorKind::StringTooLong { length: 32_768 });
}

/// Rule: 2.4.3.
#[test]
fn a_count_above_what_the_bytes_can_hold() {
    // A partition takes 18 bytes at least in version 0: an error, two numbers, two lists.
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, b't', 0, 0, 0, 3];
    bytes.extend([0; 40]);
    let kind = refused::<MetadataResponse>(
        0,
        &bytes,
        "MetadataResponse.topics[0].partitions: 3 elements of 18 bytes or more, 40 bytes left",
    );
    let (count, least, left) = (3, 18, 40);
    assert_eq!(kind, DecodeErrorKind::CountTooLarge { count, least, left });
}

/// A request of a few bytes made brokers allocate for 2^31 elements.
///
/// Rule: KAFKA-14063, 2.4.3.
#[test]
fn a_list_of_2_to_the_31_in_a_tiny_request() {
    let bytes = b"\0\x01g\0\0\0\x01\0\0\0\x01\0\0\0\x01t\x7f\xff\xff\xff";
    refused::<JoinGroupRequest>(
        1,
        bytes,
        "JoinGroupRequest.protocols: 2147483647 elements of 6 bytes or more, 0 bytes left",
    );
}

/// kafka-protocol-rs 152, 156, 161 and 200: eight bytes asked for 3.6 GiB, and Rust aborts where it gets none.
/// Rule: 2.4.3.
#[test]
fn eight_bytes_that_ask_for_gigabytes() {
    refused::<FetchResponse>(
        0,
        &[0x03, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        "FetchResponse.responses: 67108863 elements of 6 bytes or more, 4 bytes left",
    );
}

#[test]
fn fewer_bytes_than_a_field_wants() {
    let mut bytes = vec![0; 4];
    bytes.extend([0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1]);
    bytes.extend([0; 4 + 2 + 8]);
    bytes.extend([0, 0, 3, 0x2c]);
    let kind = refused::<FetchResponse>(
        1,
        &[&bytes[..], &[7; 40]].concat(),
        "FetchResponse.responses[0].partitions[0].records: 812 bytes needed, 40 left",
    );
    let (wanted, left) = (812, 40);
    assert_eq!(kind, DecodeErrorKind::UnexpectedEnd { wanted, left });
}

/// Rule: 2.4.4.
#[test]
fn a_varint_of_more_than_32_bits() {
    for bytes in [[0x80, 0x80, 0x80, 0x80, 0x10], [0xff; 5]] {
        let kind = refused::<MetadataRequest>(
            9,
            &bytes,
            "MetadataRequest.topics: a varint of more than 32 bits",
        );
        assert_eq!(kind, DecodeErrorKind::VarintTooLong { bits: 32 });
    }
    // Longer than it needs to be is legal.
    let longer = [0x81, 0x80, 0x80, 0x80, 0x00, 0, 0, 0, 0];
    assert_eq!(
        decode::<MetadataRequest>(9, &longer).unwrap().topics,
        Some(Vec::new())
    );
}

/// Rule: 2.4.5.
#[test]
fn tags_that_do_not_ascend() {
    let header = |tags: &[u8]| [&[0, 0, 0, 9][..], tags].concat();
    refused::<ResponseHeader>(
        1,
        &header(&[2, 7, 0, 3, 0]),
        "ResponseHeader: tag 3 after tag 7: tags must ascend",
    );
    let (tag, previous) = (7, 7);
    assert_eq!(
        refused::<ResponseHeader>(
            1,
            &header(&[2, 7, 0, 7, 0]),
            "ResponseHeader: tag 7 after tag 7: tags must ascend",
        ),
        DecodeErrorKind::TagOrder { tag, previous }
    );
}

/// librdkafka before 2.2.0: skipping a tag went below zero.
/// Rule: 2.4.5.
#[test]
fn a_tag_of_more_bytes_than_there_are() {
    let (tag, size, left) = (7, 127, 2);
    assert_eq!(
        refused::<ResponseHeader>(
            1,
            &[0, 0, 0, 9, 1, 7, 127, 0, 0],
            "ResponseHeader: tag 7: 127 bytes needed, 2 left",
        ),
        DecodeErrorKind::TagTooLong { tag, size, left }
    );
    refused::<ResponseHeader>(
        1,
        &[0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff, 0x0f],
        "ResponseHeader: 4294967295 elements of 2 bytes or more, 0 bytes left",
    );
}

/// A Fetch request of version 12 with these tags.
fn fetch_12(tags: &[u8]) -> Vec<u8> {
    // No topics, none forgotten, no rack.
    let mut bytes = vec![0; 4 * 4 + 1 + 4 + 4];
    bytes.extend([1, 1, 1]);
    bytes.extend_from_slice(tags);
    bytes
}

/// Rule: 2.4.5.
#[test]
fn a_known_tag_is_read_to_the_end_of_its_size_and_no_further() {
    let id = |size: u8| fetch_12(&[1, 0, size, 3, b'i', b'd', b'x']);
    assert_eq!(
        decode::<FetchRequest>(12, &fetch_12(&[1, 0, 3, 3, b'i', b'd']))
            .unwrap()
            .cluster_id
            .as_deref(),
        Some("id")
    );
    let (tag, left) = (0, 1);
    assert_eq!(
        refused::<FetchRequest>(12, &id(4), "FetchRequest: tag 0: 1 bytes left over"),
        DecodeErrorKind::TagLeftOver { tag, left }
    );
    let (wanted, left) = (2, 1);
    assert_eq!(
        refused::<FetchRequest>(
            12,
            &id(2),
            "FetchRequest.clusterId: 2 bytes needed, 1 left in the tagged field",
        ),
        DecodeErrorKind::EndOfTag { wanted, left }
    );
}

/// Rule: 2.4.5.
#[test]
fn a_known_tag_in_a_version_that_lacks_it() {
    let (tag, version) = (1, 12);
    assert_eq!(
        refused::<FetchRequest>(
            12,
            &fetch_12(&[1, 1, 1, 0]),
            "FetchRequest: tag 1 is not in version 12",
        ),
        DecodeErrorKind::TagNotInVersion { tag, version }
    );
}

/// Rule: 2.4.6.
#[test]
fn a_string_that_is_not_utf8() {
    let kind = refused::<MetadataRequest>(
        0,
        b"\0\0\0\x02\0\x01a\0\x03ab\xff",
        "MetadataRequest.topics[1].name: invalid UTF-8 after 2 bytes",
    );
    assert_eq!(kind, DecodeErrorKind::InvalidUtf8 { valid: 2 });
}

/// Rule: 2.4.7.
#[test]
fn bytes_after_a_message() {
    let kind = refused::<ResponseHeader>(0, &[0, 0, 0, 9, 1, 2], "2 bytes left over");
    assert_eq!(kind, DecodeErrorKind::LeftOver { left: 2 });
}

#[test]
fn a_version_that_is_not_known() {
    refused::<MetadataRequest>(99, &[], "MetadataRequest has no version 99 here, only 0-13");
    refused::<MetadataRequest>(-1, &[], "MetadataRequest has no version -1 here, only 0-13");
}

/// librdkafka 4506: a buffer of fixed size for the names of hosts.
#[test]
fn a_host_name_as_long_as_a_string_may_be() {
    let mut bytes = vec![0, 0, 0, 1, 0, 0, 0, 7, 0x7f, 0xff];
    bytes.resize(bytes.len() + 32_767, b'h');
    bytes.extend([0, 0, 0x23, 0x84, 0, 0, 0, 0]);
    let answer = decode::<MetadataResponse>(0, &bytes).unwrap();
    assert_eq!(answer.brokers[0].host.len(), 32_767);
    assert_eq!(answer.brokers[0].port, 9092);
}

/// librdkafka wrote next to its stack where a broker named no mechanism.
#[test]
fn a_handshake_without_mechanisms() {
    let answer = decode::<SaslHandshakeResponse>(1, &[0, 33, 0, 0, 0, 0]).unwrap();
    assert!(answer.mechanisms.is_empty());
}

/// franz-go used in part what did not parse, librdkafka stopped at an assertion: any member of a group writes this.
#[test]
fn metadata_of_a_group_member_that_does_not_parse() {
    refused::<ConsumerProtocolSubscription>(
        0,
        b"\0\0\0\x01\0\x01t\0\0\0\x09",
        "ConsumerProtocolSubscription.userData: 9 bytes needed, 0 left",
    );
    // A peer writes "version 1" and lays it out as version 0 (franz-go 493).
    refused::<ConsumerProtocolSubscription>(
        1,
        b"\0\0\0\x01\0\x01t\xff\xff\xff\xff",
        "ConsumerProtocolSubscription.ownedPartitions: 4 bytes needed, 0 left",
    );
}

/// franz-go used the number of a partition as an index. Here it is what it is; who uses it looks it up.
/// Rule: 2.4.11.
#[test]
fn a_negative_partition_in_an_assignment() {
    let bytes = b"\0\0\0\x01\0\x01t\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff";
    let assignment = decode::<ConsumerProtocolAssignment>(0, bytes).unwrap();
    assert_eq!(assignment.assigned_partitions[0].partitions[..], [-1]);
}

/// librdkafka 5577: a range of 2^31 offsets in a response of 171 bytes made an object for each.
#[test]
fn acquired_offsets_stay_a_range() {
    let mut bytes = vec![0; 4 + 2];
    // No message, a lock of 30 s, one topic of one partition.
    bytes.extend([0, 0, 0, 0x75, 0x30, 2]);
    bytes.extend([1; 16]);
    bytes.push(2);
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Leader, tags of it, no records, one range.
    bytes.extend([0; 8]);
    bytes.extend([0, 1, 2]);
    bytes.extend(0_i64.to_be_bytes());
    bytes.extend((1_i64 << 31).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 0]);
    bytes.extend([1, 0]);
    let answer = decode::<ShareFetchResponse>(1, &bytes).unwrap();
    let acquired = &answer.responses[0].partitions[0].acquired_records;
    assert_eq!((acquired.len(), acquired[0].last_offset), (1, 1 << 31));
}
