use proptest::prelude::*;

use super::*;

const LIMIT: usize = 1 << 20;
const CODECS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn compressed(codec: Compression, input: &[u8]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    compress(codec, None, input, &mut out).unwrap();
    assert!(
        out.starts_with(b"before"),
        "{codec}: what was in the buffer stays"
    );
    out.split_off(6)
}

/// Bytes that no codec makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn names_and_ids_go_both_ways() {
    for codec in Compression::ALL {
        assert_eq!(Compression::from_id(codec.id()), Some(codec));
        assert_eq!(codec.name().parse(), Ok(codec));
    }
    assert_eq!(Compression::from_id(5), None);
    assert_eq!(Compression::from_id(-1), None);
    let error = "brotli".parse::<Compression>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown compression \"brotli\"; known: none, gzip, snappy, lz4, zstd"
    );
}

#[test]
fn sizes_around_the_blocks_of_the_framings() {
    for codec in CODECS {
        for length in [
            0,
            1,
            32 << 10,
            (32 << 10) + 1,
            64 << 10,
            (64 << 10) + 1,
            300_000,
        ] {
            for input in [vec![b'x'; length], noise(length)] {
                let packed = compressed(codec, &input);
                assert_eq!(
                    decompress(codec, &packed, length).unwrap(),
                    input,
                    "{codec}, {length} bytes"
                );
            }
        }
    }
}

#[test]
fn one_byte_over_the_limit_is_refused() {
    for codec in CODECS {
        for length in [1, 40_000, 70_000, 300_000] {
            let packed = compressed(codec, &vec![b'x'; length]);
            let expected = CompressionError::TooLarge {
                codec,
                limit: length - 1,
            };
            assert_eq!(
                decompress(codec, &packed, length - 1),
                Err(expected),
                "{length} bytes"
            );
        }
    }
}

/// Rule: 2.4.10.
#[test]
fn a_bomb_takes_no_more_memory_than_the_limit() {
    for codec in CODECS {
        let packed = compressed(codec, &vec![0; 64 << 20]);
        let mut out = Vec::new();
        let error = decompress_into(codec, &packed, 100_000, &mut out).unwrap_err();
        assert_eq!(
            error,
            CompressionError::TooLarge {
                codec,
                limit: 100_000
            }
        );
        assert!(
            out.capacity() < 1 << 20,
            "{codec}: {} bytes reserved",
            out.capacity()
        );
    }
}

#[test]
fn room_is_not_made_by_a_claim_alone() {
    let gzip = {
        let mut packed = compressed(Compression::Gzip, b"small");
        let size = packed.len() - 4;
        packed[size..].copy_from_slice(&(1_u32 << 30).to_le_bytes());
        packed
    };
    // A frame whose header claims 1 GiB, and which has one block of a byte.
    let zstd = b"\x28\xb5\x2f\xfd\x80\0\0\0\0\x40\x09\0\0x".to_vec();
    for (codec, packed) in [(Compression::Gzip, gzip), (Compression::Zstd, zstd)] {
        let mut out = Vec::new();
        let error = decompress_into(codec, &packed, 2 << 30, &mut out).unwrap_err();
        assert!(matches!(error, CompressionError::Corrupt { .. }), "{error}");
        assert!(out.capacity() < 1 << 20, "{codec}: {}", out.capacity());
    }
}

/// Rule: CVE-2024-36124.
#[test]
fn cut_input_is_refused_or_gives_a_prefix() {
    let input = [vec![b'a'; 70_000], noise(70_000)].concat();
    for codec in CODECS {
        let packed = compressed(codec, &input);
        for cut in (0..packed.len())
            .step_by(97)
            .chain(packed.len() - 20..packed.len())
        {
            match decompress(codec, &packed[..cut], LIMIT) {
                // The framing of snappy has no end mark: a cut between blocks cannot be seen.
                Ok(out) => assert!(
                    cut == 0 || (codec == Compression::Snappy && input.starts_with(&out)),
                    "{codec} cut at {cut}"
                ),
                Err(error) => assert!(
                    matches!(error, CompressionError::Corrupt { .. }),
                    "{codec} cut at {cut}: {error}"
                ),
            }
        }
    }
}

#[test]
fn streams_in_a_row_are_one() {
    for codec in CODECS {
        let packed = [compressed(codec, b"first "), compressed(codec, b"second")].concat();
        assert_eq!(
            decompress(codec, &packed, LIMIT).unwrap(),
            b"first second",
            "{codec}"
        );
    }
}

/// As Java's `GZIPInputStream` does; a checksum of the header, which is not there, would cover them.
#[test]
fn reserved_flags_of_gzip_are_passed_over() {
    let mut packed = compressed(Compression::Gzip, b"flags");
    for (flags, is_read) in [
        (0b1110_0000, true),
        (0b0010_0000, true),
        (0b0010_0010, false),
    ] {
        packed[3] = flags;
        let read = decompress(Compression::Gzip, &packed, LIMIT);
        assert_eq!(
            read.is_ok_and(|read| read == b"flags"),
            is_read,
            "{flags:#b}"
        );
    }
    for length in 0..4 {
        assert!(decompress(Compression::Gzip, &packed[..length], LIMIT).is_err());
    }
}

/// The size at the end is that of one member: a reader that looks only at it would lose half.
#[test]
fn a_gzip_member_twice_is_read_twice() {
    let packed = compressed(Compression::Gzip, b"again ").repeat(2);
    assert_eq!(
        decompress(Compression::Gzip, &packed, LIMIT).unwrap(),
        b"again again "
    );
}

#[test]
fn a_buffer_used_again_holds_only_what_is_new() {
    for codec in CODECS {
        let mut out = Vec::new();
        for input in [
            noise(100_000),
            vec![b'x'; 70_000],
            b"ab".repeat(500),
            noise(10),
            Vec::new(),
            [vec![b'y'; 70_000], noise(70_000)].concat(),
        ] {
            decompress_into(codec, &compressed(codec, &input), LIMIT, &mut out).unwrap();
            assert!(out == input, "{codec}, {} bytes", input.len());
        }
        assert!(decompress_into(codec, b"damaged", LIMIT, &mut out).is_err());
        decompress_into(codec, &compressed(codec, b"whole"), LIMIT, &mut out).unwrap();
        assert_eq!(out, b"whole", "{codec}");
    }
}

#[test]
fn a_kept_context_writes_what_a_fresh_one_does() {
    let input = [noise(1000), vec![b'x'; 100_000]].concat();
    let packed = |level| {
        let mut out = Vec::new();
        compress(Compression::Zstd, level, &input, &mut out).unwrap();
        out
    };
    let fresh = |level| std::thread::scope(|scope| scope.spawn(|| packed(level)).join().unwrap());
    for level in [None, Some(19), Some(-5), None, Some(22), None] {
        assert_eq!(packed(level), fresh(level), "{level:?}");
    }
}

#[test]
fn raw_snappy_is_read_too() {
    let raw = snap::raw::Encoder::new()
        .compress_vec(b"without a framing")
        .unwrap();
    assert_eq!(
        decompress(Compression::Snappy, &raw, LIMIT).unwrap(),
        b"without a framing"
    );
}

#[test]
fn a_snappy_block_cannot_claim_what_it_cannot_hold() {
    // 4 GiB - 1 claimed by five bytes.
    let error = decompress(
        Compression::Snappy,
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        usize::MAX,
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("claims to hold 4294967295"),
        "{error}"
    );
}

#[test]
fn lz4_frames_of_the_library_are_read_in_every_form() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let input: Vec<u8> = (0..200_000_u32)
        .flat_map(|i| (i / 50).to_le_bytes())
        .collect();
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        for size in [
            BlockSize::Max64KB,
            BlockSize::Max256KB,
            BlockSize::Max1MB,
            BlockSize::Max4MB,
        ] {
            for checks in [false, true] {
                let info = FrameInfo::new()
                    .block_mode(mode)
                    .block_size(size)
                    .block_checksums(checks)
                    .content_checksum(checks)
                    .content_size(checks.then_some(input.len() as u64));
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                std::io::Write::write_all(&mut encoder, &input).unwrap();
                let packed = encoder.finish().unwrap();
                assert_eq!(
                    decompress(Compression::Lz4, &packed, LIMIT).unwrap(),
                    input,
                    "{mode:?} {size:?} {checks}"
                );
                if checks {
                    let mut damaged = packed;
                    *damaged.last_mut().unwrap() ^= 1;
                    let error = decompress(Compression::Lz4, &damaged, LIMIT).unwrap_err();
                    assert!(
                        error.to_string().contains("checksum of the content"),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn our_lz4_frames_are_what_the_library_reads() {
    let input = [noise(100_000), vec![7; 100_000]].concat();
    let packed = compressed(Compression::Lz4, &input);
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut lz4_flex::frame::FrameDecoder::new(&*packed), &mut out)
        .unwrap();
    assert_eq!(out, input);
}

#[test]
fn lz4_skips_frames_without_data() {
    let mut packed = [
        &0x184D_2A5F_u32.to_le_bytes()[..],
        &3_u32.to_le_bytes(),
        b"xyz",
    ]
    .concat();
    packed.extend(compressed(Compression::Lz4, b"data"));
    assert_eq!(
        decompress(Compression::Lz4, &packed, LIMIT).unwrap(),
        b"data"
    );
}

#[test]
fn levels_are_honoured_or_refused() {
    let input: Vec<u8> = (0..50_000_u32)
        .flat_map(|i| (i % 1000).to_string().into_bytes())
        .collect();
    let size = |codec, level| {
        let mut out = Vec::new();
        compress(codec, Some(level), &input, &mut out).map(|()| {
            assert_eq!(
                decompress(codec, &out, LIMIT).unwrap(),
                input,
                "{codec} at {level}"
            );
            out.len()
        })
    };
    for (codec, low, high) in [
        (Compression::Gzip, 1, 9),
        (Compression::Lz4, 9, 12),
        (Compression::Zstd, -50, 19),
    ] {
        assert!(
            size(codec, low).unwrap() > size(codec, high).unwrap(),
            "{codec}"
        );
    }
    for (codec, level) in [
        (Compression::Gzip, -1),
        (Compression::Lz4, 9),
        (Compression::Lz4, 17),
        (Compression::Zstd, -131_072),
        (Compression::Zstd, 0),
    ] {
        size(codec, level).unwrap();
    }
    let wrong = [
        (Compression::None, 1),
        (Compression::Gzip, 0),
        (Compression::Gzip, 10),
        (Compression::Snappy, 1),
        (Compression::Lz4, 0),
        (Compression::Lz4, 18),
        (Compression::Zstd, 23),
        (Compression::Zstd, -131_073),
    ];
    for (codec, level) in wrong {
        let error = size(codec, level).unwrap_err();
        assert!(matches!(error, CompressionError::Level { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn round_trip(input in prop::collection::vec(0_u8..4, 0..5000)) {
        for codec in CODECS {
            prop_assert_eq!(&decompress(codec, &compressed(codec, &input), LIMIT).unwrap(), &input);
        }
    }

    #[test]
    fn any_bytes_end_within_the_limit(codec in 1_i16..=4, input in prop::collection::vec(any::<u8>(), 0..300), limit in 0_usize..2000) {
        if let Ok(out) = decompress(Compression::from_id(codec).unwrap(), &input, limit) {
            prop_assert!(out.len() <= limit);
        }
    }

    /// Rule: CVE-2024-36124, CVE-2021-3520, CVE-2025-12183.
    #[test]
    fn damaged_bytes_end_within_the_limit(
        input in prop::collection::vec(0_u8..4, 1..2000),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for codec in CODECS {
            let mut packed = compressed(codec, &input);
            for (place, value) in &damage {
                let place = place.index(packed.len());
                packed[place] = *value;
            }
            if let Ok(out) = decompress(codec, &packed, 4000) {
                prop_assert!(out.len() <= 4000);
            }
        }
    }
}

#[test]
fn lz4_of_magic_0_has_the_old_checksum_and_is_read_with_either() {
    let input = b"a value".repeat(20);
    let standard = compressed(Compression::Lz4, &input);
    let mut old = Vec::new();
    compress_magic_0(Compression::Lz4, None, &input, &mut old).unwrap();
    // The checksums that Kafka's Java client writes for these two bytes of descriptor.
    assert_eq!(standard[4..7], [0x60, 0x40, 0x82]);
    assert_eq!(old[4..7], [0x60, 0x40, 0x1a]);
    assert_eq!(standard[7..], old[7..]);

    let mut out = Vec::new();
    for packed in [&standard, &old] {
        decompress_magic_0_into(Compression::Lz4, packed, LIMIT, &mut out).unwrap();
        assert_eq!(out, input);
    }
    assert_eq!(
        decompress(Compression::Lz4, &standard, LIMIT).unwrap(),
        input
    );
    assert!(decompress(Compression::Lz4, &old, LIMIT).is_err());
    old[6] ^= 1;
    assert!(decompress_magic_0_into(Compression::Lz4, &old, LIMIT, &mut out).is_err());
}
