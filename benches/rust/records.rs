//! Record batches: writing them, reading them record by record, and decoding them into columns. Throughput counts the bytes of values.
#![allow(clippy::expect_used)] // a bench that cannot go on has no one to tell

use std::sync::Arc;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use ottla_benches::Sample;
use ottla_columnar::{ColumnarError, Columns, FetchedPartition, Memory};
use ottla_protocol::compression::Compression;
use ottla_protocol::records::batches;

const RECORDS: usize = 1_000;
const BATCHES: usize = 20;
const SIZES: [usize; 2] = [100, 1_000];
const LIMIT: usize = 64 << 20;

fn main() {
    divan::main();
}

fn codec(name: &str) -> Compression {
    name.parse().expect("a codec's name")
}

#[divan::bench(consts = SIZES, args = ["none", "lz4", "zstd"])]
fn write<const SIZE: usize>(bencher: Bencher, name: &str) {
    let sample = Sample::new(RECORDS, SIZE);
    let codec = codec(name);
    bencher
        .counter(BytesCount::new(sample.value_bytes()))
        .counter(ItemsCount::new(RECORDS))
        .bench(|| sample.batch(codec).expect("a batch"));
}

fn fetched<const SIZE: usize>(name: &str) -> (Bytes, usize) {
    let sample = Sample::new(RECORDS, SIZE);
    let fetched = sample.fetched(codec(name), BATCHES).expect("batches");
    (fetched, sample.value_bytes() * BATCHES)
}

#[divan::bench(consts = SIZES, args = ["none", "lz4", "zstd"])]
fn walk<const SIZE: usize>(bencher: Bencher, name: &str) {
    let (fetched, bytes) = fetched::<SIZE>(name);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(RECORDS * BATCHES))
        .bench(|| {
            let mut seen = 0;
            for batch in batches(fetched.clone()) {
                let batch = batch.expect("a batch");
                batch.verify_crc().expect("a good checksum");
                let payload = batch.payload(LIMIT).expect("a payload");
                for record in batch.records(&payload).expect("records") {
                    seen += record.expect("a record").value.map_or(0, <[u8]>::len);
                }
            }
            assert_eq!(seen, bytes);
        });
}

#[divan::bench(consts = SIZES, args = ["none", "lz4", "zstd"])]
fn columns<const SIZE: usize>(bencher: Bencher, name: &str) {
    decoded::<SIZE>(bencher, name, ottla_columnar::decode);
}

#[divan::bench(consts = SIZES, args = ["none", "lz4", "zstd"])]
fn views<const SIZE: usize>(bencher: Bencher, name: &str) {
    decoded::<SIZE>(bencher, name, ottla_columnar::decode_in_place);
}

type Decode = fn(Bytes, &FetchedPartition, &Memory) -> Result<Columns, ColumnarError>;

fn decoded<const SIZE: usize>(bencher: Bencher, name: &str, decode: Decode) {
    let (fetched, bytes) = fetched::<SIZE>(name);
    let source = FetchedPartition {
        topic: Arc::from("topic"),
        partition: 0,
        fetch_offset: 0,
        aborted: Vec::new(),
        read_committed: false,
        check_crcs: true,
        decompress_limit: LIMIT,
    };
    let memory = Memory::new(32 << 20, Vec::with_capacity);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(RECORDS * BATCHES))
        .bench(|| {
            let columns = decode(fetched.clone(), &source, &memory).expect("columns");
            assert_eq!(columns.len(), RECORDS * BATCHES);
            columns
        });
}
