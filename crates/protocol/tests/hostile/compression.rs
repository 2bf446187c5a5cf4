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
#[test]
fn a_gzip_bomb() {
    bounded(Compression::Gzip);
}

/// franz-go allowed 64 GiB.
#[test]
fn a_zstd_bomb() {
    bounded(Compression::Zstd);
}

#[test]
fn an_lz4_bomb() {
    bounded(Compression::Lz4);
}

#[test]
fn a_snappy_bomb() {
    bounded(Compression::Snappy);
}

/// CVE-2023-43642 of snappy-java: the length of a chunk without a bound.
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

/// CVE-2026-44302 of Snappier: fifteen bytes that it never got to the end of.
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

/// A raw snappy block says in five bytes that it holds 4 GiB (franz-go).
#[test]
fn a_snappy_block_that_claims_4_gib() {
    let error = decompress(Compression::Snappy, b"\xff\xff\xff\xff\x0f", usize::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "damaged snappy data: a block of 5 bytes claims to hold 4294967295"
    );
}
