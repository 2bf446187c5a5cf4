//! The events of batches while they are on their way, and which callers have to look again.

use super::*;
use crate::change::Change;
use crate::observe::{Level, Observed};

fn told(script: &mut Sender) -> Vec<Observed> {
    std::iter::from_fn(|| script.engine.observer().poll()).collect()
}

#[test]
fn a_retry_is_told_with_partition_attempts_and_pause() {
    let mut script = sender(&[("linger.ms", "0")]);
    send(&mut script, 1, "v");
    let asked = one(script.run());
    told(&mut script);
    reply(&mut script, &asked, ErrorCode::NOT_ENOUGH_REPLICAS, -1);
    let events = told(&mut script);
    let [
        Observed::Retried {
            cause,
            attempts: 1,
            pause,
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (cause.code(), cause.topic(), cause.partition(), cause.api()),
        (
            Some(ErrorCode::NOT_ENOUGH_REPLICAS),
            Some("t"),
            Some(1),
            Some("Produce")
        )
    );
    assert!(cause.broker().is_some() && !pause.is_zero());
    let again = script.pass(*pause);
    assert_eq!(values(&again), [["v"]], "it was sent when that was told");
}

#[test]
fn batches_are_told_only_to_those_who_want_every_one() {
    let mut script = established(&[("linger.ms", "5")]);
    let sent = |script: &mut Sender| {
        for value in ["a", "b"] {
            send(script, 0, value);
        }
        let asked = one(script.pass(Duration::from_millis(5)));
        reply(script, &asked, ErrorCode::NONE, 0);
        told(script)
    };
    told(&mut script);
    assert!(sent(&mut script).is_empty());
    script.engine.observer().listen(Level::Debug);
    let events = sent(&mut script);
    assert!(
        matches!(
            &events[..],
            [Observed::BatchSent { topic, partition: 0, records: 2, attempt: 1, bytes }, Observed::Answered { .. }]
                if &**topic == "t" && *bytes > 60
        ),
        "{events:?}"
    );
}

#[test]
fn records_that_were_given_up_are_told_with_what_is_known_of_them() {
    let mut script = sender(&[("linger.ms", "0")]);
    send(&mut script, 0, "refused");
    let asked = one(script.run());
    told(&mut script);
    reply(&mut script, &asked, ErrorCode::INVALID_RECORD, -1);
    send(&mut script, 1, "sent");
    one(script.run());
    script.engine.close(script.now, &closed_error());
    let failed: Vec<_> = told(&mut script)
        .into_iter()
        .filter_map(|event| match event {
            Observed::BatchFailed { records, cause } => {
                Some((records, cause.partition(), cause.written()))
            }
            // Sequence numbers begin again after the refused batch.
            Observed::ProducerIdentified { epoch: 1, .. } => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        failed,
        [
            (1, Some(0), Some(Written::No)),
            (1, Some(1), Some(Written::Unknown))
        ]
    );
}

#[test]
fn the_identity_and_its_next_epoch_are_told() {
    let mut script = established(&[("batch.size", "100")]);
    let identities = |script: &mut Sender| -> Vec<_> {
        let events = told(script).into_iter();
        let known = events.filter_map(|event| match event {
            Observed::ProducerIdentified { id, epoch } => Some((id, epoch)),
            _ => None,
        });
        known.collect()
    };
    assert_eq!(identities(&mut script), [(1, 0)]);
    for value in ["a", "b"] {
        send(&mut script, 0, &value.repeat(60));
    }
    script.engine.flush(script.now);
    let sent = script.run();
    reply(&mut script, &sent[0], ErrorCode::INVALID_RECORD, -1);
    reply(
        &mut script,
        &sent[1],
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        -1,
    );
    assert_eq!(identities(&mut script), [(1, 1)]);
}

#[test]
fn a_failed_question_for_an_identity_is_told() {
    let mut script = sender(&[]);
    script.producer_id_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
    send(&mut script, 0, "a");
    script.run();
    let events = told(&mut script);
    assert!(
        events.iter().any(|event| matches!(
            event,
            Observed::Retried { cause, attempts: 1, .. } if cause.api() == Some("InitProducerId")
        )),
        "{events:?}"
    );
}

#[test]
fn room_and_fates_are_noted_once_each_time() {
    let mut script = sender(&[("delivery.timeout.ms", "30000")]);
    let noted = |script: &mut Sender| {
        let changes: Vec<_> = std::iter::from_fn(|| script.engine.poll_change()).collect();
        (
            changes.contains(&Change::Room),
            changes.contains(&Change::Fate),
        )
    };
    send(&mut script, 0, "a");
    let asked = one(script.run());
    assert_eq!(noted(&mut script), (false, false));
    reply(&mut script, &asked, ErrorCode::NONE, 0);
    assert_eq!(noted(&mut script), (true, true));
    assert_eq!(noted(&mut script), (false, false));
    send(&mut script, 0, "b");
    let asked = one(script.run());
    script.pass(Duration::from_secs(30));
    assert_eq!(
        noted(&mut script),
        (false, true),
        "the request still owns the bytes"
    );
    reply(&mut script, &asked, ErrorCode::NONE, 1);
    assert_eq!(noted(&mut script), (true, false));
}
