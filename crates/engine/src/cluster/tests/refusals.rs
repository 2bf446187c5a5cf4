//! Brokers that do not accept who the client is: what fails at once, and how often they are asked again.

use super::*;

fn refusal() -> Error {
    Error::new(Kind::Authentication, "the password is wrong")
}

/// How often each second of `seconds` saw a dial of one of the addresses.
fn dials(script: &mut Script<Admin>, seconds: usize) -> Vec<usize> {
    let mut each = Vec::new();
    for _ in 0..seconds {
        script.dials.clear();
        script.pass(Duration::from_secs(1));
        each.push(script.dials.len());
    }
    each
}

#[test]
fn wrong_credentials_are_tried_again_ever_more_rarely() {
    for servers in ["boot:1", "boot:1,boot:2,boot:3"] {
        let mut script = admin(&[
            ("bootstrap.servers", servers),
            ("reconnect.backoff.max.ms", "60000"),
        ]);
        script.refusal = Some(refusal());
        ask(&mut script, ListTopics, 10);
        let each = dials(&mut script, 600);
        let addresses = servers.split(',').count();
        let of = |seconds: std::ops::Range<usize>| each[seconds].iter().sum::<usize>();
        // 50 ms doubles eleven times before it is a minute.
        assert!(of(0..120) <= 13 * addresses, "{servers}: {each:?}");
        assert!(of(120..600) <= 11 * addresses, "{servers}: {each:?}");
        assert!(of(300..600) >= 3 * addresses, "it does not give up");
    }
}

#[test]
fn credentials_that_are_withdrawn_are_tried_again_ever_more_rarely() {
    for (strategy, addresses) in [("rebootstrap", 3), ("none", 2)] {
        let mut script = admin(&[
            ("reconnect.backoff.max.ms", "60000"),
            ("metadata.recovery.strategy", strategy),
        ]);
        offsets(&mut script, 10);
        let asked = script.run().remove(0);
        script.refusal = Some(refusal());
        let links: Vec<_> = std::iter::once(asked.link)
            .chain(script.engine.core.cluster.any_link(script.now))
            .collect();
        for link in links {
            script.cut(link);
        }
        let each = dials(&mut script, 600);
        let first: usize = each[..120].iter().sum();
        let later: usize = each[400..600].iter().sum();
        assert!(first <= 13 * addresses, "{strategy}: {each:?}");
        assert!(later <= 14 * addresses, "{strategy}: {each:?}");
    }
}

#[test]
fn a_call_that_only_a_broker_can_answer_that_refuses_fails_at_once() {
    // The leader of t-0 is b1; the others accept the client.
    let mut script = admin(&[]);
    script.refusing = vec!["b1".to_owned()];
    script.refusal = Some(refusal());
    let id = offsets(&mut script, 60);
    script.pass(Duration::from_millis(100));
    let answer = script.engine.take_answer(&id).unwrap().unwrap();
    let error = answer.into_iter().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Authentication);
    assert_eq!(error.broker(), Some("b1:9092"));
    assert!(!error.is_retriable());
    assert!(error.message().contains("the password is wrong"), "{error}");
    // Requests that other brokers can serve get their responses.
    let id = ask(&mut script, ListTopics, 10);
    script.run();
    assert!(matches!(script.engine.take_answer(&id), Some(Ok(_))));
    // A refusal from before the call proves nothing: the broker is asked again.
    script.refusal = None;
    let id = offsets(&mut script, 60);
    let asked = script.pass(Duration::from_secs(2));
    assert_eq!(asked.len(), 1);
    assert!(script.engine.take_answer(&id).is_none());
}

#[test]
fn a_broker_that_cannot_be_reached_is_waited_for() {
    let mut script = admin(&[]);
    script.dead = vec!["b1".to_owned()];
    let id = offsets(&mut script, 60);
    script.pass(Duration::from_secs(50));
    assert!(script.engine.take_answer(&id).is_none());
    script.dead.clear();
    assert_eq!(script.pass(Duration::from_secs(3)).len(), 1);
}
