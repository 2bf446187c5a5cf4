//! What becomes of acquired records that are not there, or do not decode.

use ottla_protocol::compression::Compression;
use ottla_protocol::records::{BatchBuilder, Entry, ProducerState, assign_offsets, entries};

use super::*;
use crate::produce::producer::{Producer, Row};
use ottla_broker::{Broker, BrokerConfig};

/// Offsets of a partition, and where they end.
struct Offsets(Vec<i64>, i64);

impl Chunk for Offsets {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn split_to(&mut self, _: usize) -> Self {
        unreachable!("nothing here splits a chunk")
    }
    fn slice(&self, start: usize, length: usize) -> Self {
        Offsets(self.0[start..start + length].to_vec(), self.1)
    }
    fn offset(&self, row: usize) -> i64 {
        self.0[row]
    }
    fn next_offset(&self) -> i64 {
        self.1
    }
    fn bytes(&self) -> usize {
        0
    }
}

/// Decodes offsets; batches that begin at some offsets are damaged, or too large.
#[derive(Default)]
struct Reader {
    damaged: Vec<i64>,
    large: Vec<i64>,
    /// Records that it cannot show.
    refused: Vec<i64>,
}

impl Decode for Reader {
    type Chunk = Offsets;

    fn decode(&self, fetched: &Fetched) -> Result<Offsets, Error> {
        let mut offsets = Vec::new();
        for entry in entries(fetched.records.clone()) {
            let Ok(Entry::Batch(batch)) = entry else {
                return Err(Error::new(Kind::Corrupt, "no batch"));
            };
            let base = batch.header.base_offset;
            if self.damaged.contains(&base) {
                return Err(Error::new(Kind::Corrupt, "damaged"));
            }
            if self.large.contains(&base) {
                return Err(Error::new(Kind::TooLarge, "too large"));
            }
            let payload = batch.payload(usize::MAX).unwrap();
            for record in batch.records(&payload).unwrap() {
                let offset = record.unwrap().offset;
                match self.refused.contains(&offset) {
                    true if offset == fetched.fetch_offset => {
                        return Err(fetched.refused("no text").wrap(Kind::Unsupported, "header"));
                    }
                    true if offset > fetched.fetch_offset => return Ok(Offsets(offsets, offset)),
                    _ if offset >= fetched.fetch_offset => offsets.push(offset),
                    _ => {}
                }
            }
        }
        Ok(Offsets(offsets, fetched.next_offset))
    }
}

/// Two records from this offset on.
fn pair(base: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for _ in 0..2 {
        builder
            .append(1, None, Some(b"value"), std::iter::empty())
            .unwrap();
    }
    let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
    assign_offsets(&mut bytes, base, 4).unwrap();
    bytes
}

fn acquired(bytes: Vec<u8>, ranges: &[(i64, i64)]) -> Acquired {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|(first, last)| AcquiredRange {
            first: *first,
            last: *last,
            delivery_count: 1,
        })
        .collect();
    Acquired {
        lock: LockId::default(),
        fetched: Fetched {
            topic: "t".into(),
            partition: 0,
            fetch_offset: ranges[0].first,
            next_offset: 100,
            leader_epoch: -1,
            high_watermark: -1,
            records: bytes.into(),
            aborted: Arc::default(),
        },
        ranges: ranges.into(),
    }
}

/// What is found: offsets of each run, and errors; and what is disposed of.
fn read(reader: &Reader, acquired: &Acquired) -> (Vec<String>, Vec<Disposal>) {
    let (found, disposals) = Decoded::of(reader, acquired, reader.decode(&acquired.fetched));
    let shown = found.iter().map(|it| match it {
        Ready::Records { given, .. } => format!("{:?}", given.chunk.0),
        Ready::Broken(error) => error.message().to_owned(),
    });
    (shown.collect(), disposals)
}

const RELEASED: Option<AcknowledgeType> = Some(AcknowledgeType::Release);
const REJECTED: Option<AcknowledgeType> = Some(AcknowledgeType::Reject);

#[test]
fn only_what_was_acquired_is_given_and_gaps_are_told() {
    let log = [pair(0), pair(4), pair(6)].concat();
    let (found, gone) = read(&Reader::default(), &acquired(log, &[(1, 6), (7, 9)]));
    assert_eq!(found, ["[1]", "[4, 5, 6]", "[7]"]);
    assert_eq!(gone, [(2, 3, None), (8, 9, None)]);
}

#[test]
fn a_damaged_batch_is_rejected_by_itself_and_named_once() {
    let log = [pair(0), pair(2), pair(4)].concat();
    let reader = Reader {
        damaged: vec![2],
        ..Reader::default()
    };
    let (found, gone) = read(&reader, &acquired(log.clone(), &[(0, 5)]));
    assert_eq!(
        (found.len(), &*found[0], &*found[2]),
        (3, "[0, 1]", "[4, 5]")
    );
    assert!(
        found[1].contains("from offset 2 to 3 were rejected"),
        "{found:?}"
    );
    assert_eq!(gone, [(2, 3, REJECTED)]);
    // What others have acquired is not this member's business.
    let (found, gone) = read(&reader, &acquired(log, &[(0, 1), (4, 5)]));
    assert_eq!((found.len(), gone.len()), (2, 0));
}

#[test]
fn a_batch_that_is_too_large_for_this_client_is_released() {
    let reader = Reader {
        large: vec![2],
        ..Reader::default()
    };
    let (found, gone) = read(&reader, &acquired([pair(0), pair(2)].concat(), &[(0, 3)]));
    assert!(found[1].contains("released"), "{found:?}");
    assert_eq!(gone, [(2, 3, RELEASED)]);
}

#[test]
fn what_follows_a_batch_and_is_none_is_released() {
    let log = [pair(0), vec![0xff; 99]].concat();
    let (found, gone) = read(&Reader::default(), &acquired(log, &[(0, 9)]));
    assert_eq!(found.len(), 2);
    assert_eq!(gone, [(2, 9, RELEASED)]);
    let (found, gone) = read(&Reader::default(), &acquired(vec![0xff; 99], &[(0, 9)]));
    assert_eq!((found.len(), gone), (1, vec![(0, 9, REJECTED)]));
}

#[test]
fn a_record_that_cannot_be_shown_is_released_by_itself() {
    let reader = Reader {
        refused: vec![2, 5, 6, 7],
        ..Reader::default()
    };
    let log = [pair(0), pair(2), pair(4), pair(6), pair(8)].concat();
    let (found, gone) = read(&reader, &acquired(log.clone(), &[(0, 9)]));
    let shown: Vec<_> = found.iter().filter(|it| it.starts_with('[')).collect();
    assert_eq!(shown, ["[0, 1]", "[3]", "[4]", "[8, 9]"]);
    assert_eq!(found.len(), shown.len() + 4);
    let released = [2, 5, 6, 7].map(|offset| (offset, offset, RELEASED));
    assert_eq!(gone, released);
    // What others have acquired is not this member's business.
    let (found, gone) = read(&reader, &acquired(log, &[(0, 1), (3, 4)]));
    assert_eq!((found.len(), gone.len()), (3, 0));
}

#[test]
fn a_batch_of_which_much_cannot_be_shown_is_released_in_the_end() {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for _ in 0..100 {
        builder
            .append(1, None, Some(b"value"), std::iter::empty())
            .unwrap();
    }
    let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
    assign_offsets(&mut bytes, 0, 4).unwrap();
    let reader = Reader {
        refused: (0..100).collect(),
        ..Reader::default()
    };
    let (found, gone) = read(&reader, &acquired(bytes, &[(0, 99)]));
    assert_eq!((found.len(), gone.len()), (MOST_ALONE + 1, MOST_ALONE + 1));
    assert_eq!(gone[MOST_ALONE], (MOST_ALONE as i64, 99, RELEASED));
}

/// A reader that decodes only in parallel to the poll, and panics the first time.
#[derive(Default)]
struct Panics {
    reader: Reader,
    did: AtomicBool,
}

impl Decode for Panics {
    type Chunk = Offsets;

    fn decode(&self, fetched: &Fetched) -> Result<Offsets, Error> {
        assert!(self.did.swap(true, Ordering::Relaxed), "the test's panic");
        self.reader.decode(fetched)
    }

    fn decode_within(&self, _: &Fetched, _: usize) -> Option<Result<Offsets, Error>> {
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_whose_decoder_panics_beside_the_poll_come_again_at_once() {
    const SOON: Duration = Duration::from_secs(15);
    let config = BrokerConfig {
        topics: vec![("t".to_owned(), 1)],
        ..Default::default()
    };
    let broker = Broker::start(config).await.unwrap();
    let servers = broker.address().to_string();
    let settings = |role, more: &[(&'static str, &'static str)]| {
        let pairs = [("bootstrap.servers", &*servers)];
        Config::parse(role, pairs.into_iter().chain(more.iter().copied())).unwrap()
    };
    let threads = Threads::current();
    let config = settings(Role::ShareConsumer, &[("group.id", "g")]);
    let consumer = ShareConsumer::new(config, Panics::default(), &threads, None).unwrap();
    consumer.poll_briefly();
    consumer.subscribe(["t".into()].into()).unwrap();
    // The group begins at the end of the log once the member has joined and asked.
    let end = now() + SOON;
    while consumer.assignment().is_empty() {
        assert!(now() < end, "it is not assigned");
        let polled = consumer.poll(Duration::from_millis(200), None).await;
        assert!(polled.unwrap().is_empty());
    }
    let polled = consumer.poll(Duration::from_secs(1), None).await;
    assert!(polled.unwrap().is_empty());
    let config = settings(Role::Producer, &[("compression.type", "lz4")]);
    let producer = Producer::new(config, &threads, None).unwrap();
    let value = vec![b'v'; 1000];
    let row = Row::new(None, Some(&value));
    producer.send("t", &row, Some(SOON)).await.unwrap();
    producer.flush(Some(SOON)).await.unwrap();
    // Locks last 30 s.
    let given = consumer.poll(SOON, None).await.unwrap();
    assert_eq!(given[0].chunk.0, [0]);
    assert_eq!(given[0].delivery_count, 2);
    consumer.close(Some(SOON)).await.unwrap();
    producer.close(Some(SOON)).await.unwrap();
    broker.stop().await.unwrap();
}
