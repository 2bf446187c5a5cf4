//! No bytes make a decoder panic, and what decodes is written as it was read.

use bytes::Bytes;
use ottla_protocol::json::{self, Json, NAMES, Visitor};
use ottla_protocol::{Message, Reader, Writer};
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
