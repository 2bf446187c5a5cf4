//! An offset of a topic that was deleted does not join a transaction, whatever the coordinator speaks.

use super::*;

const OLD: Uuid = Uuid([7; 16]);

/// A producer with an open transaction, whose brokers have this highest version of TxnOffsetCommit.
fn begun_at(level: i16, most: i16) -> Sender {
    let mut response = told(level, 1, 5);
    for row in &mut response.api_keys {
        if row.api_key == ApiKey::TxnOffsetCommit.as_i16() {
            row.max_version = most;
        }
    }
    let mut script = fresh_at(Versions::new(&response), &[]);
    init(&mut script);
    begin(&mut script);
    script.metadata_asked.clear();
    script
}

fn offsets_of(topic_id: Uuid) -> Verb {
    let Verb::SendOffsets { group, mut offsets } = offsets() else {
        panic!()
    };
    offsets[0].topic_id = topic_id;
    Verb::SendOffsets { group, offsets }
}

/// Starts to send offsets of this topic, up to their own request, which may never be.
fn sending(script: &mut Sender, level: i16, topic_id: Uuid) -> (VerbId, Option<Asked>) {
    let id = start(script, &offsets_of(topic_id));
    if level == 1 {
        let asked = next(script);
        assert_eq!(name(&asked).0, "add offsets");
        ok(script, &asked);
    }
    let mut asked = all(script);
    assert!(asked.len() < 2, "{asked:?}");
    (id, asked.pop())
}

/// The error names the topic, and the transaction ends by an abort.
fn fails(script: &mut Sender, id: VerbId) {
    script.run();
    let error = end(script, id).unwrap_err();
    assert_eq!(error.kind(), Kind::Abortable, "{error}");
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_ID));
    assert_eq!(error.topic(), Some("t"));
    assert_eq!(error.partition(), Some(1));
    assert!(
        error
            .to_string()
            .contains("deleted after the records were read")
    );
    assert!(!error.is_retriable());
    let commit = start(script, &Verb::Commit);
    script.run();
    assert_eq!(end(script, commit).unwrap_err().kind(), Kind::Abortable);
    let abort = start(script, &Verb::Abort);
    let asked = next(script);
    assert_eq!(name(&asked).0, "abort");
    ok(script, &asked);
    script.run();
    end(script, abort).unwrap();
}

#[test]
fn where_the_coordinator_takes_ids_it_decides() {
    let mut script = begun_at(2, 6);
    let (id, asked) = sending(&mut script, 2, OLD);
    let asked = asked.unwrap();
    let Request::TxnOffsetCommit(request) = &asked.request else {
        panic!("{asked:?}")
    };
    assert_eq!((asked.version, request.topics[0].topic_id), (6, OLD));
    assert!(script.metadata_asked.is_empty());
    let row = TxnOffsetCommitResponsePartition {
        partition_index: 1,
        error_code: ErrorCode::UNKNOWN_TOPIC_ID.0,
        ..Default::default()
    };
    let topic = TxnOffsetCommitResponseTopic {
        topic_id: OLD,
        partitions: vec![row],
        ..Default::default()
    };
    let response = TxnOffsetCommitResponse {
        topics: vec![topic],
        ..Default::default()
    };
    script.answer(&asked, Response::TxnOffsetCommit(response));
    fails(&mut script, id);
}

#[test]
fn where_it_takes_names_the_id_is_compared_before() {
    for (level, most) in [(1, 4), (1, 6), (2, 5)] {
        let mut script = begun_at(level, most);
        script.topic_id = Some(8);
        let (id, asked) = sending(&mut script, level, OLD);
        assert!(asked.is_none(), "{asked:?}");
        assert_eq!(script.metadata_asked, [(vec!["t".to_owned()], false)]);
        fails(&mut script, id);

        script.topic_id = Some(7);
        begin(&mut script);
        let (id, asked) = sending(&mut script, level, OLD);
        let asked = asked.unwrap();
        assert_eq!(asked.version, most.min(if level == 1 { 4 } else { 5 }));
        ok(&mut script, &asked);
        script.run();
        end(&mut script, id).unwrap();
    }
}

#[test]
fn a_topic_that_is_not_there_any_more_is_not_waited_for() {
    for (level, most) in [(1, 4), (2, 5)] {
        let mut script = begun_at(level, most);
        script.topics.clear();
        let (id, asked) = sending(&mut script, level, OLD);
        assert!(asked.is_none(), "{asked:?}");
        fails(&mut script, id);
    }
}

#[test]
fn brokers_without_topic_ids_are_believed() {
    for (level, most) in [(1, 4), (2, 5)] {
        let mut script = begun_at(level, most);
        script.topic_id = Some(0);
        let (_, asked) = sending(&mut script, level, OLD);
        assert_eq!(name(&asked.unwrap()).0, "offsets");
    }
}
