//! CRC-32C by the library that ottla uses, `crc-fast`, and by `crc32c`, from the shortest inputs to 1 MiB. Record batches have at least 61
//! bytes, of which 40 are in the checksum.
#![allow(clippy::expect_used)] // a bench that cannot go on has no one to tell

use crc_fast::CrcAlgorithm;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

const SIZES: [usize; 12] = [
    8, 16, 32, 40, 64, 128, 256, 512, 1_024, 16_384, 131_072, 1_048_576,
];

fn main() {
    for size in SIZES {
        let bytes = sample(size);
        let fast = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &bytes);
        let fast = u32::try_from(fast).expect("32 bits");
        assert_eq!(fast, crc32c::crc32c(&bytes));
    }
    divan::main();
}

fn sample(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 31 % 251) as u8).collect()
}

#[divan::bench(args = SIZES)]
fn crc_fast_library(bencher: Bencher<'_, '_>, size: usize) {
    let bytes = sample(size);
    bencher
        .counter(BytesCount::new(size))
        .bench_local(|| crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, black_box(&bytes)));
}

#[divan::bench(args = SIZES)]
fn crc32c_library(bencher: Bencher<'_, '_>, size: usize) {
    let bytes = sample(size);
    bencher
        .counter(BytesCount::new(size))
        .bench_local(|| crc32c::crc32c(black_box(&bytes)));
}
