//! Brokers that do not accept who the client is: what fails at once, and how often they are asked again.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::config::Config;
use crate::credentials::{Credentials, Provider, Question, Replying};

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

/// Credentials that the caller replaces; the script authenticates nowhere.
#[derive(Debug, Default)]
struct Replaced(AtomicU64);

impl Provider for Replaced {
    fn ask(&self, _: u64, _: &str, _: Question) -> Replying {
        Box::pin(std::future::pending())
    }

    fn refused(&self) {}

    fn ended(&self, _: u64) {}

    fn version(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn replaceable() -> (Script<Admin>, Arc<Replaced>) {
    let provider = Arc::new(Replaced::default());
    let mut config = Config::clone(&config(Role::Admin, &[]));
    config.credentials = Credentials(Some(Arc::clone(&provider) as Arc<dyn Provider>));
    let engine = Engine::admin(Arc::new(config), 7);
    (Script::new(engine), provider)
}

#[test]
fn other_credentials_are_tried_at_once() {
    let (mut script, provider) = replaceable();
    script.refusal = Some(refusal());
    ask(&mut script, ListTopics, 60);
    script.run();
    assert!(script.engine.hopeless().is_some());
    script.refusal = None;
    provider.0.fetch_add(1, Ordering::Relaxed);
    // A producer checks it before it takes a record.
    assert!(script.engine.hopeless().is_none());
    let list = ask(&mut script, ListTopics, 60);
    script.run();
    assert!(matches!(script.engine.take_answer(&list), Some(Ok(_))));
}

/// They were replaced while the broker looked at the ones before.
#[test]
fn a_refusal_of_the_credentials_before_ends_no_call() {
    let (mut script, provider) = replaceable();
    let list = ask(&mut script, ListTopics, 60);
    let (link, _) = dialled(&mut script).unwrap();
    provider.0.fetch_add(1, Ordering::Relaxed);
    let down = Event::Down(refusal());
    script.engine.handle(script.now, link, down);
    assert!(script.engine.hopeless().is_none());
    script.pass(Duration::from_secs(1));
    assert!(matches!(script.engine.take_answer(&list), Some(Ok(_))));
}
