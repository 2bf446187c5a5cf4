//! Subscriptions and pushes, against a scripted cluster.

use std::time::Duration;

use ottla_protocol::compression::{self, Compression};
use ottla_protocol::messages::{
    GetTelemetrySubscriptionsResponse, PushTelemetryRequest, PushTelemetryResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, Str, Uuid};

use crate::admin::Admin;
use crate::api::{Request, Response};
use crate::call::ListTopics;
use crate::config::Role;
use crate::engine::{Engine, closed_error};
use crate::error::Kind;
use crate::script::{Asked, Script, config};

mod registered;

type Client = Script<Admin>;

const ID: Uuid = Uuid([7; 16]);
const SECOND: Duration = Duration::from_secs(1);

/// The subscription of a broker: a push every ten seconds.
fn wanted() -> GetTelemetrySubscriptionsResponse {
    GetTelemetrySubscriptionsResponse {
        client_instance_id: ID,
        subscription_id: 5,
        push_interval_ms: 10_000,
        telemetry_max_bytes: 1 << 20,
        requested_metrics: vec![Str::default()],
        ..Default::default()
    }
}

/// A client, and its request for the metrics that its brokers want.
fn asked(pairs: &[(&'static str, &'static str)]) -> (Client, Asked) {
    let mut script = Script::new(Engine::admin(config(Role::Admin, pairs), 7));
    script.telemetry = true;
    script.engine.set_time_of_day(script.now, 1_000_000_000);
    let deadline = script.now + 1000 * SECOND;
    script.engine.ask(script.now, ListTopics, deadline);
    let asked = one(script.run());
    assert!(matches!(
        asked.request,
        Request::GetTelemetrySubscriptions(_)
    ));
    (script, asked)
}

fn one(mut asked: Vec<Asked>) -> Asked {
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

fn answer(script: &mut Client, asked: &Asked, answer: GetTelemetrySubscriptionsResponse) {
    script.answer(asked, Response::GetTelemetrySubscriptions(answer));
}

fn answer_push(script: &mut Client, asked: &Asked, code: ErrorCode) {
    let answer = PushTelemetryResponse {
        error_code: code.0,
        ..Default::default()
    };
    script.answer(asked, Response::PushTelemetry(answer));
}

/// A client whose first push was sent, and the push.
fn pushed(subscription: GetTelemetrySubscriptionsResponse) -> (Client, Asked) {
    let (mut script, question) = asked(&[]);
    answer(&mut script, &question, subscription);
    let push = one(script.pass(15 * SECOND));
    (script, push)
}

fn push(asked: &Asked) -> &PushTelemetryRequest {
    match &asked.request {
        Request::PushTelemetry(push) => push,
        other => panic!("not a push: {other:?}"),
    }
}

fn is_question(asked: &Asked) -> bool {
    matches!(asked.request, Request::GetTelemetrySubscriptions(_))
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
fn a_first_push_comes_within_half_to_one_and_a_half_intervals_and_then_one_each() {
    let (mut script, question) = asked(&[]);
    let Request::GetTelemetrySubscriptions(request) = &question.request else {
        panic!("not a question")
    };
    assert_eq!(request.client_instance_id, Uuid::ZERO);
    answer(&mut script, &question, wanted());
    assert!(script.pass(5 * SECOND - SECOND / 100).is_empty());
    let first = one(script.pass(10 * SECOND));
    let sent = push(&first);
    assert_eq!(
        (
            sent.client_instance_id,
            sent.subscription_id,
            sent.terminating
        ),
        (ID, 5, false)
    );
    assert!(has(
        &sent.metrics,
        "org.apache.kafka.admin.client.connection.count"
    ));
    assert!(has(
        &sent.metrics,
        "org.apache.kafka.admin.client.node.request.latency.avg"
    ));
    assert!(!has(&sent.metrics, "client-id") && !has(&sent.metrics, "client_id"));
    answer_push(&mut script, &first, ErrorCode::NONE);
    assert!(script.pass(10 * SECOND - SECOND / 100).is_empty());
    let second = one(script.pass(SECOND));
    assert!(!push(&second).terminating);
    assert_eq!(first.link, second.link, "one broker, while it is there");
}

#[test]
fn clients_that_start_together_do_not_push_together() {
    let mut firsts: Vec<_> = (1..=20)
        .map(|seed| {
            let mut script = Script::new(Engine::admin(config(Role::Admin, &[]), seed * 7919));
            script.telemetry = true;
            let deadline = script.now + 1000 * SECOND;
            script.engine.ask(script.now, ListTopics, deadline);
            let question = one(script.run());
            answer(&mut script, &question, wanted());
            let begun = script.now;
            while script.pass(SECOND / 10).is_empty() {}
            script.now - begun
        })
        .collect();
    firsts.sort_unstable();
    firsts.dedup();
    assert!(firsts.len() > 10, "{firsts:?}");
    assert!(firsts[0] >= 5 * SECOND && firsts[firsts.len() - 1] <= 15 * SECOND);
}

#[test]
fn only_what_is_wanted_is_pushed_and_nothing_if_nothing_is() {
    let prefix = Str::from_static("org.apache.kafka.admin.client.node.request.latency.");
    let (_, first) = pushed(GetTelemetrySubscriptionsResponse {
        requested_metrics: vec![prefix],
        ..wanted()
    });
    let metrics = &push(&first).metrics;
    assert!(has(metrics, "node.request.latency.max") && has(metrics, "node_id"));
    assert!(!has(metrics, "connection.count") && !has(metrics, "node.request.total"));

    let (mut script, question) = asked(&[]);
    let nothing = GetTelemetrySubscriptionsResponse {
        requested_metrics: Vec::new(),
        ..wanted()
    };
    answer(&mut script, &question, nothing);
    assert!(script.pass(10 * SECOND - SECOND / 100).is_empty());
    let again = one(script.pass(SECOND));
    let Request::GetTelemetrySubscriptions(request) = &again.request else {
        panic!("not a question")
    };
    assert_eq!(request.client_instance_id, ID, "the id stays");
}

#[test]
fn an_unknown_subscription_is_asked_for_anew_at_once() {
    let (mut script, first) = pushed(wanted());
    answer_push(&mut script, &first, ErrorCode::UNKNOWN_SUBSCRIPTION_ID);
    let question = one(script.run());
    assert!(is_question(&question));
    let other = GetTelemetrySubscriptionsResponse {
        subscription_id: 6,
        client_instance_id: Uuid([9; 16]),
        ..wanted()
    };
    answer(&mut script, &question, other);
    let next = one(script.pass(15 * SECOND));
    let sent = push(&next);
    assert_eq!((sent.subscription_id, sent.client_instance_id), (6, ID));
}

#[test]
fn what_is_too_large_gets_smaller_and_throttled_pushes_wait() {
    let (mut script, first) = pushed(wanted());
    let whole = push(&first).metrics.len();
    answer_push(&mut script, &first, ErrorCode::THROTTLING_QUOTA_EXCEEDED);
    assert!(script.pass(9 * SECOND).is_empty());
    let mut last = one(script.pass(SECOND));
    for _ in 0..10 {
        answer_push(&mut script, &last, ErrorCode::TELEMETRY_TOO_LARGE);
        last = one(script.pass(10 * SECOND));
    }
    let cut = push(&last).metrics.len();
    assert!(cut <= 1 << 10 && cut < whole && cut > 0, "{cut} of {whole}");

    let small = GetTelemetrySubscriptionsResponse {
        telemetry_max_bytes: 400,
        ..wanted()
    };
    let (_, first) = pushed(small);
    let sent = push(&first);
    assert!((100..=400).contains(&sent.metrics.len()));
    // The client's own metrics come before those of brokers.
    assert!(has(&sent.metrics, "connection.count") && !has(&sent.metrics, "node_id"));
}

#[test]
fn metrics_are_compressed_as_the_broker_takes_them() {
    for codec in Compression::ALL {
        let accepted = GetTelemetrySubscriptionsResponse {
            accepted_compression_types: vec![99, -1, codec.id() as i8, 0],
            ..wanted()
        };
        let (mut script, first) = pushed(accepted.clone());
        let sent = push(&first);
        assert_eq!(i16::from(sent.compression_type), codec.id());
        let plain = compression::decompress(codec, &sent.metrics, 1 << 20).unwrap();
        assert!(has(&plain, "connection.count"), "{codec}");
        answer_push(&mut script, &first, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
        let question = one(script.run());
        assert!(is_question(&question));
        answer(&mut script, &question, accepted);
        let next = one(script.pass(15 * SECOND));
        assert_eq!(push(&next).compression_type, 0, "not {codec} again");
    }
}

/// The value of a total without tags in a push: behind its name stand the sum, its one point and, in there, two times.
fn total(push: &PushTelemetryRequest, name: &str) -> f64 {
    let bytes = &push.metrics;
    let at = bytes
        .windows(name.len())
        .position(|window| window == name.as_bytes())
        .unwrap();
    let point = &bytes[at + name.len() + 4..];
    assert_eq!((point[0], point[9], point[18]), (0x11, 0x19, 0x21));
    f64::from_le_bytes(point[19..27].try_into().unwrap())
}

#[test]
fn a_delta_is_told_once_and_a_lost_one_with_the_next() {
    let name = "org.apache.kafka.admin.client.connection.creation.total";
    let delta = GetTelemetrySubscriptionsResponse {
        delta_temporality: true,
        requested_metrics: vec![Str::from_static(name)],
        ..wanted()
    };
    let (mut script, first) = pushed(delta);
    let opened = total(push(&first), name);
    assert!(opened >= 1.0);
    answer_push(&mut script, &first, ErrorCode::UNKNOWN_SERVER_ERROR);
    let second = one(script.pass(10 * SECOND));
    assert_eq!(total(push(&second), name), opened, "it was not told yet");
    answer_push(&mut script, &second, ErrorCode::NONE);
    let third = one(script.pass(10 * SECOND));
    assert_eq!(total(push(&third), name), 0.0);

    let (mut script, first) = pushed(GetTelemetrySubscriptionsResponse {
        requested_metrics: vec![Str::from_static(name)],
        ..wanted()
    });
    answer_push(&mut script, &first, ErrorCode::NONE);
    let second = one(script.pass(10 * SECOND));
    assert_eq!(total(push(&second), name), opened, "cumulative");
}

#[test]
fn a_client_that_closes_pushes_once_more() {
    let (mut script, first) = pushed(wanted());
    answer_push(&mut script, &first, ErrorCode::NONE);
    assert!(script.engine.take_leave(script.now));
    let last = one(script.run());
    assert!(push(&last).terminating);
    assert!(script.engine.is_leaving());
    answer_push(&mut script, &last, ErrorCode::NONE);
    assert!(!script.engine.is_leaving());
    assert!(script.pass(100 * SECOND).is_empty(), "it was the last");
}

#[test]
fn a_close_waits_for_the_push_that_is_on_its_way_and_sends_the_last_behind_it() {
    let (mut script, first) = pushed(wanted());
    assert!(script.engine.take_leave(script.now));
    assert!(script.run().is_empty());
    answer_push(&mut script, &first, ErrorCode::NONE);
    let last = one(script.run());
    assert!(push(&last).terminating);
    // Its connection breaks: no broker is left to notify.
    script.cut(last.link);
    assert!(!script.engine.is_leaving());
}

#[test]
fn a_client_that_nobody_asked_closes_without_a_word() {
    let (mut script, question) = asked(&[]);
    assert!(!script.engine.take_leave(script.now), "not asked yet");
    answer(&mut script, &question, wanted());
    assert!(script.pass(100 * SECOND).is_empty());

    let mut idle = Script::new(Engine::admin(config(Role::Admin, &[]), 7));
    assert!(!idle.engine.take_leave(idle.now));
    assert!(idle.dials.is_empty());
    idle.engine.close(idle.now, &closed_error());
    assert!(!idle.engine.take_leave(idle.now));
}

#[test]
fn some_answers_end_it() {
    for code in [
        ErrorCode::INVALID_REQUEST,
        ErrorCode::INVALID_RECORD,
        ErrorCode::UNSUPPORTED_VERSION,
    ] {
        let (mut script, first) = pushed(wanted());
        answer_push(&mut script, &first, code);
        assert!(script.pass(10_000 * SECOND).is_empty(), "{code}");
        let (mut script, question) = asked(&[]);
        let refused = GetTelemetrySubscriptionsResponse {
            error_code: code.0,
            ..Default::default()
        };
        answer(&mut script, &question, refused);
        assert!(script.pass(10_000 * SECOND).is_empty(), "{code}");
    }
}

#[test]
fn senseless_answers_are_bounded() {
    let (mut script, question) = asked(&[]);
    answer(
        &mut script,
        &question,
        GetTelemetrySubscriptionsResponse::default(),
    );
    assert_eq!(script.engine.instance(), None, "no id came");
    assert!(script.pass(299 * SECOND).is_empty(), "no hurry");

    let (mut script, question) = asked(&[]);
    let wild = GetTelemetrySubscriptionsResponse {
        push_interval_ms: 1,
        telemetry_max_bytes: i32::MAX,
        subscription_id: -1,
        accepted_compression_types: (i8::MIN..=-1).collect(),
        requested_metrics: vec![Str::default(); 1000],
        ..wanted()
    };
    answer(&mut script, &question, wild);
    let mut pushes = 0;
    for _ in 0..20 {
        for push in script.pass(SECOND / 10) {
            pushes += 1;
            answer_push(&mut script, &push, ErrorCode::NONE);
        }
    }
    assert!((10..=20).contains(&pushes), "{pushes} in two seconds");

    let negative = GetTelemetrySubscriptionsResponse {
        push_interval_ms: -7,
        telemetry_max_bytes: i32::MIN,
        ..wanted()
    };
    let (mut script, question) = asked(&[]);
    answer(&mut script, &question, negative);
    assert!(script.pass(149 * SECOND).is_empty());
    assert_eq!(script.pass(302 * SECOND).len(), 1);

    // A response without a request, and one of the wrong kind.
    let (mut script, first) = pushed(wanted());
    answer(&mut script, &first, wanted());
    assert!(script.pass(100 * SECOND).is_empty());
}

#[test]
fn a_broken_connection_is_no_loss() {
    let (mut script, first) = pushed(wanted());
    script.cut(first.link);
    let next = script.pass(30 * SECOND);
    assert!(!next.is_empty(), "another connection takes it");
    assert!(next.iter().all(|asked| !push(asked).terminating));

    let (mut script, question) = asked(&[]);
    script.cut(question.link);
    script.pass(30 * SECOND);
    // Nobody is dialled for it; the next connection that there is anyway carries it.
    let deadline = script.now + SECOND;
    script.engine.ask(script.now, ListTopics, deadline);
    let again = script.pass(SECOND);
    assert!(again.iter().any(is_question));
}

#[test]
fn brokers_without_a_plugin_cost_nothing_and_say_so_to_whoever_wants_the_id() {
    let mut script = Script::new(Engine::admin(config(Role::Admin, &[]), 7));
    script
        .engine
        .ask(script.now, ListTopics, script.now + SECOND);
    assert!(script.run().is_empty());
    assert!(script.pass(100 * SECOND).is_empty());
    assert_eq!(script.engine.instance(), None);
    script.engine.want_instance(script.now);
    script.run();
    let error = script.engine.instance().unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.message().contains("KIP-714"), "{error}");
}

#[test]
fn the_id_is_worth_a_connection() {
    let mut script = Script::new(Engine::admin(config(Role::Admin, &[]), 7));
    script.telemetry = true;
    script.run();
    assert!(script.dials.is_empty(), "metrics alone are not");
    script.engine.want_instance(script.now);
    let question = one(script.run());
    assert_eq!(script.engine.instance(), None);
    answer(&mut script, &question, wanted());
    assert_eq!(script.engine.instance(), Some(Ok(ID)));
}

#[test]
fn a_client_that_is_not_to_push_neither_asks_nor_has_an_id() {
    let pairs = [("enable.metrics.push", "false")];
    let mut script = Script::new(Engine::admin(config(Role::Admin, &pairs), 7));
    script.telemetry = true;
    script
        .engine
        .ask(script.now, ListTopics, script.now + SECOND);
    assert!(script.pass(1000 * SECOND).is_empty());
    let error = script.engine.instance().unwrap().unwrap_err();
    assert!(error.message().contains("enable.metrics.push"), "{error}");
}

/// A null array in this response has crashed other clients before they had authenticated.
#[test]
fn arrays_that_lie_about_their_length_are_errors_of_the_connection() {
    let before_codecs = [
        &[0, 0, 0, 7, 0][..],
        &[0; 4],
        &[0; 2],
        &[7; 16],
        &[0, 0, 0, 5],
    ]
    .concat();
    let no_codecs_interval_size_and_temporality = [1, 0, 0, 0, 9, 0, 0, 0, 9, 0];
    let lies: [&[u8]; 4] = [
        &[0],
        &[0x7f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
    ];
    for lie in lies {
        let codecs = [&before_codecs, lie].concat();
        let metrics = [
            &before_codecs,
            &no_codecs_interval_size_and_temporality[..],
            lie,
        ]
        .concat();
        for frame in [codecs, metrics] {
            let decoded = Response::decode(ApiKey::GetTelemetrySubscriptions, 0, frame.into());
            assert!(matches!(decoded, Some(Err(_))), "{lie:?}");
        }
    }
    let whole = [
        &before_codecs,
        &no_codecs_interval_size_and_temporality[..],
        &[1, 0],
    ]
    .concat();
    let decoded = Response::decode(ApiKey::GetTelemetrySubscriptions, 0, whole.into());
    assert!(matches!(decoded, Some(Ok((_, 0)))), "{decoded:?}");
}
