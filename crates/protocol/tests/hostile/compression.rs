//! Compressed data.

use ottla_protocol::compression::{Compression, CompressionError, compress, decompress};

const LIMIT: usize = 1 << 20;

fn bomb(codec: Compression) -> Vec<u8> {
    let mut packed = Vec::new();
    compress(codec, None, &vec![0; 64 << 20], &mut packed).unwrap();
    packed
}

#[track_caller]
fn bounded(codec: Compression) {
    let packed = bomb(codec);
    let expected = CompressionError::TooLarge {
        codec,
        limit: LIMIT,
    };
    assert_eq!(decompress(codec, &packed, LIMIT), Err(expected));
    // The limit can be raised.
    assert_eq!(
        decompress(codec, &packed, 64 << 20).unwrap().len(),
        64 << 20
    );
}

/// kafkajs 1795: gzip makes about 1,032 bytes of one.
/// Rule: 2.4.10.
#[test]
fn a_gzip_bomb() {
    bounded(Compression::Gzip);
}

/// franz-go allowed 64 GiB.
/// Rule: 2.4.10.
#[test]
fn a_zstd_bomb() {
    bounded(Compression::Zstd);
}

/// Rule: 2.4.10.
#[test]
fn an_lz4_bomb() {
    bounded(Compression::Lz4);
}

/// Rule: 2.4.10.
#[test]
fn a_snappy_bomb() {
    bounded(Compression::Snappy);
}

/// snappy-java: the length of a chunk without a bound.
///
/// Rule: CVE-2023-43642, CVE-2023-34455.
#[test]
fn a_xerial_chunk_of_2_gib() {
    let packed = [
        &b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"[..],
        &[0x7f, 0xff, 0xff, 0xff, 1],
    ]
    .concat();
    let error = decompress(Compression::Snappy, &packed, usize::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "damaged snappy data: a block of 2147483647 bytes, 1 left"
    );
}

/// Snappier: fifteen bytes that it never got to the end of.
///
/// Rule: CVE-2026-44302.
#[test]
fn a_xerial_chunk_of_no_bytes() {
    for chunks in [1, 1000] {
        let packed = [
            &b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"[..],
            &[0; 4].repeat(chunks),
        ]
        .concat();
        let result = decompress(Compression::Snappy, &packed, LIMIT);
        assert!(
            matches!(result, Err(CompressionError::Corrupt { .. })),
            "{result:?}"
        );
    }
}

/// A raw snappy block claims in five bytes that it holds 4 GiB (franz-go).
/// Rule: CVE-2023-34453, CVE-2023-34454.
#[test]
fn a_snappy_block_that_claims_4_gib() {
    let error = decompress(Compression::Snappy, b"\xff\xff\xff\xff\x0f", usize::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "damaged snappy data: a block of 5 bytes claims to hold 4294967295"
    );
}

/// A frame of LZ4 with one block, which claims this length.
fn lz4_frame(linked: bool, length: u32, block: &[u8]) -> Vec<u8> {
    // Independent or linked blocks of 64 KiB at most, without checksums but the header's.
    let descriptor = if linked {
        [0x40, 0x40, 0xc0]
    } else {
        [0x60, 0x40, 0x82]
    };
    let parts = [&b"\x04\x22\x4d\x18"[..], &descriptor];
    [parts.concat(), length.to_le_bytes().into(), block.into()].concat()
}

/// lz4 moved memory by a length below zero; lz4-java read and gave out what stood before its buffer.
///
/// Rule: CVE-2021-3520, CVE-2025-12183.
#[test]
fn an_lz4_block_that_reaches_outside() {
    // One literal, then four bytes from 9 bytes back, of which there is one; five literals end a block.
    let before_the_first = b"\x10a\x09\0\x50bcdef".to_vec();
    // More literals than there are, and a match that would fill more than the block may hold.
    let literals = [&[0xf0][..], &[0xff; 40], &[0], b"abc"].concat();
    let endless = [&b"\x1fa\x01\0"[..], &[0xff; 300], &[0], b"\x50bcdef"].concat();
    for linked in [false, true] {
        for block in [&before_the_first, &literals, &endless] {
            let length = u32::try_from(block.len()).unwrap();
            let packed = lz4_frame(linked, length, block);
            let result = decompress(Compression::Lz4, &packed, LIMIT);
            assert!(
                matches!(result, Err(CompressionError::Corrupt { .. })),
                "{block:?}: {result:?}"
            );
        }
        // As many bytes as there can be, and fewer than none where a length has a sign.
        for length in [0x7fff_ffff, 0xffff_ffff, 0x8000_0001] {
            let result = decompress(Compression::Lz4, &lz4_frame(linked, length, b""), LIMIT);
            assert!(
                matches!(result, Err(CompressionError::Corrupt { .. })),
                "{length:#x}: {result:?}"
            );
        }
    }
    // The frames themselves are sound.
    let fine = [&lz4_frame(true, 6, b"\x50bcdef")[..], &[0; 4]].concat();
    assert_eq!(
        decompress(Compression::Lz4, &fine, LIMIT),
        Ok(b"bcdef".to_vec())
    );
}
