//! No bytes make a decoder panic or allocate beyond what they hold, and what decodes is written as it was read.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use ottla_protocol::json::{self, Json, NAMES, Visitor};
use ottla_protocol::messages::{FetchResponse, MetadataResponse};
use ottla_protocol::{EncodeErrorKind, Message, Reader, Str, UnknownTag, Writer};
use proptest::prelude::*;

struct RoundTrip(i16, Bytes);

impl Visitor for RoundTrip {
    type Output = Result<(), TestCaseError>;

    fn visit<M: Message + Json>(self) -> Self::Output {
        let span = M::VERSIONS.max - M::VERSIONS.min + 1;
        let version = M::VERSIONS.min + self.0.rem_euclid(span);
        let Ok(message) = M::decode(version, &mut Reader::new(self.1)) else {
            return Ok(());
        };
        let mut out = Writer::new();
        message
            .encode(version, &mut out)
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        let written = out.finish().into_bytes();
        prop_assert_eq!(message.size(version).ok(), Some(written.len()));
        let again = M::decode(version, &mut Reader::new(written.clone()));
        let again = again.map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut out = Writer::new();
        again
            .encode(version, &mut out)
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        // Bytes, since a NaN is not equal to itself.
        prop_assert_eq!(out.finish().into_bytes(), written);
        Ok(())
    }
}

/// Bytes as they come, or made of what has broken others: counts, lengths, tags.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let bad: &[&[u8]] = &[
        &[0x00],
        &[0x01],
        &[0x02],
        &[0x7f],
        &[0x80, 0x01],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0x80, 0x80, 0x80, 0x80, 0x10],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff],
        &[0x00, 0x00, 0x00, 0x01],
        &[0x00, 0x01, b'a'],
    ];
    let bad: Vec<Vec<u8>> = bad.iter().map(|b| b.to_vec()).collect();
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(prop::sample::select(bad), 0..60).prop_map(|parts| parts.concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_bytes_are_refused_or_come_back(
        name in prop::sample::select(NAMES),
        version in any::<i16>(),
        bytes in hostile(),
    ) {
        json::visit(name, RoundTrip(version, bytes.into())).unwrap()?;
    }
}

#[test]
fn every_message_at_every_version_stands_up_to_counts() {
    for name in NAMES {
        let versions = json::versions(name).unwrap();
        for version in versions.min..=versions.max {
            for byte in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                json::visit(name, RoundTrip(version, vec![byte; 300].into()))
                    .unwrap()
                    .unwrap();
            }
        }
    }
}

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting what a thread asks for.
struct Counting;

#[allow(unsafe_code)]
// SAFETY: every call goes on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|sum| sum.set(sum.get() + layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_small_frame_cannot_ask_for_much_memory() {
    // Null topics, and counts of 2^31 - 1 where the first array stands.
    for frame in [
        &[0x7f; 64][..],
        &[0xff; 64],
        &[0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0],
    ] {
        for version in 0..=13 {
            let frame = Bytes::copy_from_slice(frame);
            let before = ALLOCATED.get();
            let _ = MetadataResponse::decode(version, &mut Reader::new(frame.clone()));
            let _ = FetchResponse::decode(version, &mut Reader::new(frame));
            assert!(
                ALLOCATED.get() - before < 64 * 1024,
                "{} bytes",
                ALLOCATED.get() - before
            );
        }
    }
}

#[test]
fn many_unknown_tags_take_time_and_memory_in_proportion() {
    const TAGS: u32 = 200_000;
    let mut frame = Writer::new();
    frame.raw(&[0; 4]);
    frame.uvarint(TAGS);
    for tag in 0..TAGS {
        frame.uvarint(tag);
        frame.uvarint(0);
    }
    let frame = frame.finish().into_bytes();
    let before = ALLOCATED.get();
    let mut input = Reader::new(frame.clone());
    let header = ottla_protocol::messages::ResponseHeader::decode(1, &mut input).unwrap();
    assert_eq!(header.unknown_tagged_fields.len(), TAGS as usize);
    assert!(ALLOCATED.get() - before < 64 * frame.len());
}

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
        "MetadataResponse.cluster_id: a string of 32768 bytes, 32767 at most"
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
