//! Fetch sessions over the protocol, and what a waiting fetch reads.

use ottla_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};

use super::*;

/// The content of a response: its code, and of each partition its number, code, high watermark and
/// bytes of records.
type Said = (i16, Vec<(i32, i16, i64, usize)>);

/// A consumer that names partitions of "t" by name or by id.
struct Reader<'a> {
    bench: &'a Bench,
    version: i16,
    session: i32,
}

impl Reader<'_> {
    fn request(&self, epoch: i32, wanted: &[(i32, i64)]) -> FetchRequest {
        let by_id = self.version >= 13;
        let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
            partition: *partition,
            fetch_offset: *fetch_offset,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topic = FetchTopic {
            topic: if by_id { Str::new() } else { "t".into() },
            topic_id: if by_id {
                self.bench.topic_id()
            } else {
                Uuid::ZERO
            },
            partitions: wanted.iter().map(partition).collect(),
            ..Default::default()
        };
        FetchRequest {
            max_bytes: 1 << 20,
            session_id: self.session,
            session_epoch: epoch,
            topics: if wanted.is_empty() {
                Vec::new()
            } else {
                vec![topic]
            },
            ..Default::default()
        }
    }

    fn ask(&mut self, request: &FetchRequest) -> Said {
        let answer = self.bench.ask(request, self.version);
        self.session = answer.session_id;
        said(&answer)
    }

    fn fetch(&mut self, epoch: i32, wanted: &[(i32, i64)]) -> Said {
        self.ask(&self.request(epoch, wanted))
    }

    fn forget(&mut self, epoch: i32, partition: i32) -> Said {
        let mut request = self.request(epoch, &[]);
        let by_id = self.version >= 13;
        request.forgotten_topics_data = vec![ForgottenTopic {
            topic: if by_id { Str::new() } else { "t".into() },
            topic_id: if by_id {
                self.bench.topic_id()
            } else {
                Uuid::ZERO
            },
            partitions: vec![partition].into(),
            ..Default::default()
        }];
        self.ask(&request)
    }
}

fn said(answer: &FetchResponse) -> Said {
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let row = |data: &fetch_response::PartitionData| {
        let bytes = data.records.as_ref().map_or(0, Bytes::len);
        (
            data.partition_index,
            data.error_code,
            data.high_watermark,
            bytes,
        )
    };
    (answer.error_code, partitions.map(row).collect())
}

fn reader(bench: &Bench, version: i16) -> Reader<'_> {
    Reader {
        bench,
        version,
        session: 0,
    }
}

#[test]
fn a_session_answers_only_what_changed() {
    for version in 7..=18 {
        let bench = Bench::new(&[]);
        let mut reader = reader(&bench, version);
        let size = batch(1, ProducerState::NONE).len();
        let produce = |partition| bench.produce(9, &[(partition, batch(1, ProducerState::NONE))]);
        assert_eq!(
            reader.fetch(0, &[(0, 0), (1, 0)]),
            (0, vec![(0, 0, 0, 0), (1, 0, 0, 0)]),
            "{version}"
        );
        let session = reader.session;
        assert!(session > 0);
        assert_eq!(reader.fetch(1, &[]), (0, vec![]));
        produce(1);
        assert_eq!(reader.fetch(2, &[]), (0, vec![(1, 0, 1, size)]));
        assert_eq!(
            reader.fetch(3, &[]),
            (0, vec![(1, 0, 1, size)]),
            "it did not move on"
        );
        assert_eq!(reader.fetch(4, &[(1, 1)]), (0, vec![]));
        assert_eq!(
            reader.fetch(5, &[(7, 0)]),
            (0, vec![(7, 3, -1, 0)]),
            "a new one"
        );
        assert_eq!(
            reader.fetch(6, &[]),
            (0, vec![(7, 3, -1, 0)]),
            "errors come each time"
        );
        assert_eq!(reader.forget(7, 7), (0, vec![]));
        assert_eq!(reader.session, session);
        produce(0);
        produce(1);
        assert_eq!(
            reader.fetch(8, &[]),
            (0, vec![(0, 0, 1, size), (1, 0, 2, size)])
        );
        assert_eq!(reader.fetch(8, &[]), (71, vec![]), "that epoch was");
        assert_eq!(reader.session, 0);
        reader.session = session;
        assert_eq!(reader.fetch(9, &[(0, 1), (1, 2)]), (0, vec![]));
        assert_eq!(
            reader.fetch(0, &[(0, 0)]),
            (0, vec![(0, 0, 1, size)]),
            "anew"
        );
        let second = reader.session;
        assert_ne!(second, session);
        reader.session = session;
        assert_eq!(
            reader.fetch(10, &[]),
            (70, vec![]),
            "the full request ended it"
        );
        reader.session = second;
        assert_eq!(reader.fetch(-1, &[(0, 1)]), (0, vec![(0, 0, 1, 0)]));
        assert_eq!(reader.session, 0);
        reader.session = second;
        assert_eq!(
            reader.fetch(1, &[]),
            (70, vec![]),
            "the last request ended it"
        );
    }
}

#[test]
fn a_session_without_partitions_ends() {
    let bench = Bench::new(&[]);
    let mut reader = reader(&bench, 12);
    reader.fetch(0, &[(0, 0)]);
    let session = reader.session;
    assert_eq!(reader.forget(1, 0), (0, vec![]));
    assert_eq!(reader.session, 0);
    reader.session = session;
    assert_eq!(reader.fetch(2, &[]), (70, vec![]));
}

#[test]
fn a_session_goes_by_ids_or_by_names() {
    let bench = Bench::new(&[]);
    for (version, other) in [(12, 13), (17, 12)] {
        let mut first = reader(&bench, version);
        first.fetch(0, &[(0, 0)]);
        first.version = other;
        assert_eq!(first.fetch(1, &[]), (106, vec![]));
    }
}

#[test]
fn a_session_by_ids_says_what_became_of_a_topic() {
    let bench = Bench::new(&[]);
    let mut reader = reader(&bench, 13);
    reader.fetch(0, &[(0, 0)]);
    bench.core.delete_topic("t", bench.now).unwrap();
    let next = FetchRequest {
        session_id: reader.session,
        session_epoch: 1,
        ..Default::default()
    };
    assert_eq!(reader.ask(&next), (0, vec![(0, 3, -1, 0)]));
    let layout = crate::cluster::image::Layout::of(1);
    let values = crate::config::Values::default();
    bench
        .core
        .create_topic("t", &layout, values, false)
        .unwrap();
    let next = FetchRequest {
        session_epoch: 2,
        ..next
    };
    assert_eq!(reader.ask(&next), (0, vec![(0, 103, -1, 0)]));
}

#[test]
fn partitions_that_got_records_come_last_the_next_time() {
    let bench = Bench::new(&[]);
    let mut reader = reader(&bench, 12);
    let size = batch(1, ProducerState::NONE).len();
    for partition in [0, 1] {
        bench.produce(9, &[(partition, batch(1, ProducerState::NONE))]);
    }
    reader.fetch(0, &[]);
    let mut request = reader.request(1, &[(0, 0), (1, 0)]);
    request.max_bytes = 1;
    let first = |said: Said| said.1.into_iter().find(|row| row.3 == size).unwrap().0;
    assert_eq!(first(reader.ask(&request)), 0);
    request.session_epoch = 2;
    request.topics.clear();
    assert_eq!(first(reader.ask(&request)), 1);
    request.session_epoch = 3;
    assert_eq!(first(reader.ask(&request)), 0);
}

#[test]
fn an_answer_that_is_withheld_tells_the_session_nothing() {
    let bench = Bench::new(&[]);
    let mut reader = reader(&bench, 12);
    let withheld = |request: &FetchRequest| {
        let Outcome::Answer(answered) = bench.outcome(request, 12, Ask::Answer) else {
            panic!("it waits")
        };
        let throttle = Throttle {
            time: Duration::from_millis(5),
            withholds: true,
        };
        let frame = (answered.encode)(throttle).unwrap().into_bytes();
        let (_, answer) = header::decode_response::<FetchResponse>(12, frame.slice(4..)).unwrap();
        assert_eq!(answer.throttle_time_ms, 5);
        (answer.session_id, said(&answer))
    };
    let full = reader.request(0, &[(0, 0), (1, 0)]);
    assert_eq!(withheld(&full), (0, (0, vec![])), "it begins none");
    reader.ask(&full);
    let session = reader.session;
    bench.produce(9, &[(0, batch(1, ProducerState::NONE))]);
    // Its records were read by somebody else: only the high watermark is news.
    let moved = reader.request(1, &[(0, 1)]);
    assert_eq!(withheld(&moved), (session, (0, vec![])));
    assert_eq!(reader.fetch(2, &[]), (0, vec![(0, 0, 1, 0)]));
}

#[test]
fn a_session_whose_epoch_went_on_meanwhile_is_told_so() {
    let bench = Bench::new(&[]);
    let mut reader = reader(&bench, 12);
    reader.fetch(0, &[(0, 0)]);
    let mut waiting = reader.request(1, &[]);
    (waiting.max_wait_ms, waiting.min_bytes) = (500, 1);
    let Outcome::Wait(wait) = bench.outcome(&waiting, 12, Ask::Answer) else {
        panic!("it does not wait")
    };
    assert_eq!(reader.fetch(2, &[]), (0, vec![]));
    let Outcome::Answer(answered) = (wait.resume)(bench.now) else {
        panic!("it waits again")
    };
    let late = answer::<FetchRequest>(12, answered);
    assert_eq!(
        (late.session_id, said(&late)),
        (reader.session, (71, vec![]))
    );
}

#[test]
fn without_room_there_is_no_session() {
    let bench = Bench::new(&[("max.incremental.fetch.session.cache.slots", "1")]);
    let (mut first, mut second) = (reader(&bench, 12), reader(&bench, 12));
    first.fetch(0, &[(0, 0)]);
    assert_eq!(second.fetch(0, &[(0, 0), (1, 0)]).1.len(), 2);
    assert_eq!(second.session, 0);
    assert_eq!(first.fetch(1, &[]), (0, vec![]));
}

#[test]
fn a_waiting_fetch_reads_only_what_grew() {
    let bench = Bench::new(&[]);
    let records = batch(1, ProducerState::NONE);
    bench.produce(9, &[(1, records.clone())]);
    let mut request = reader(&bench, 12).request(-1, &[(0, 0), (1, 0)]);
    (request.max_wait_ms, request.min_bytes) = (500, 2 * records.len() as i32);
    let Outcome::Wait(wait) = bench.outcome(&request, 12, Ask::Answer) else {
        panic!("it does not wait")
    };
    bench.produce(9, &[(0, records.clone())]);
    assert!(wait.awaited.bell().is_rung());
    // Nobody reads partition 1 again, else the fetch would wait for its lock.
    let topic = bench.core.topic("t").unwrap();
    let locked = topic.partition(1).unwrap().lock();
    let Outcome::Answer(answered) = (wait.resume)(bench.now) else {
        panic!("it waits again")
    };
    drop(locked);
    let rows = said(&answer::<FetchRequest>(12, answered)).1;
    let size = records.len();
    assert_eq!(rows, [(0, 0, 1, size), (1, 0, 1, size)]);
}
