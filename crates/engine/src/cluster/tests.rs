//! Bootstrap addresses, the view, and what is said when nothing can be asked.

use std::time::Duration;

use ottla_protocol::messages::ApiVersionsResponse;

use crate::admin::Admin;
use crate::api::Versions;
use crate::call::{Call, ListOffsets, ListTopics, Ticket};
use crate::cluster::Action;
use crate::config::Role;
use crate::engine::{Engine, Event};
use crate::error::{Error, Kind};
use crate::script::{Script, config};

fn admin(pairs: &[(&'static str, &'static str)]) -> Script<Admin> {
    Script::new(Engine::admin(config(Role::Admin, pairs), 7))
}

fn ask<C: Call>(script: &mut Script<Admin>, call: C, seconds: u64) -> Ticket<C> {
    let deadline = script.now + Duration::from_secs(seconds);
    script.engine.ask(script.now, call, deadline)
}

#[test]
fn a_dead_bootstrap_address_is_passed_over() {
    let mut script = admin(&[("bootstrap.servers", "dead:1,boot:1")]);
    script.dead.push("dead".to_owned());
    for seed in 0..8 {
        script.engine = Engine::admin(
            config(Role::Admin, &[("bootstrap.servers", "dead:1,boot:1")]),
            seed,
        );
        let id = ask(&mut script, ListTopics, 10);
        script.pass(Duration::from_secs(1));
        assert!(
            matches!(script.engine.take_answer(&id), Some(Ok(_))),
            "seed {seed}"
        );
    }
}

#[test]
fn a_silent_bootstrap_address_is_not_waited_for() {
    let mut script = admin(&[("bootstrap.servers", "silent:1,boot:1")]);
    ask(&mut script, ListTopics, 10);
    let mut dialled = Vec::new();
    for _ in 0..20 {
        while let Some(action) = script.engine.poll_action() {
            if let Action::Dial { host, .. } = action {
                dialled.push(host);
            }
        }
        script.now += Duration::from_millis(100);
        script.engine.handle_timeout(script.now);
    }
    dialled.sort_unstable();
    assert_eq!(dialled, ["boot", "silent"]);
}

#[test]
fn no_broker_at_all_is_said_with_each_cause() {
    let mut script = admin(&[("bootstrap.servers", "x:1,y:2")]);
    script.dead = vec!["x".to_owned(), "y".to_owned()];
    let id = ask(&mut script, ListTopics, 5);
    assert!(script.engine.is_starting(script.now));
    script.pass(Duration::from_secs(4));
    assert!(script.engine.take_answer(&id).is_none());
    assert!(!script.engine.is_starting(script.now));
    script.pass(Duration::from_secs(1));
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert_eq!(
        error.message(),
        "no broker could be reached: x:1: connection refused; y:2: connection refused"
    );
    assert!(
        script.dials.len() < 40,
        "{} dials in 5 s are too many",
        script.dials.len()
    );
}

#[test]
fn strangers_at_every_address_make_waiting_hopeless() {
    let mut script = admin(&[]);
    ask(&mut script, ListTopics, 60);
    let Some(Action::Dial { link, .. }) = script.engine.poll_action() else {
        panic!("no dial")
    };
    assert!(script.engine.hopeless().is_none());
    script.engine.handle(
        script.now,
        link,
        Event::Down(Error::new(Kind::NotKafka, "the port speaks TLS")),
    );
    let error = script.engine.hopeless().unwrap();
    assert_eq!(error.kind(), Kind::NotKafka);
    assert_eq!(
        error.message(),
        "no broker could be reached: boot:1: the port speaks TLS"
    );
}

#[test]
fn metadata_is_asked_for_again_when_it_is_old() {
    let mut script = admin(&[("metadata.max.age.ms", "1000")]);
    script.engine.core.cluster.want(script.now, &"t".into());
    script.engine.settle(script.now);
    script.run();
    script.topics = vec![("t", vec![2, 1])];
    script.pass(Duration::from_millis(900));
    assert_eq!(script.engine.metadata().leader("t", 0), Some((1, 1)));
    script.pass(Duration::from_millis(200));
    assert_eq!(script.engine.metadata().leader("t", 0), Some((2, 1)));
}

#[test]
fn why_there_is_no_metadata_is_said() {
    let mut script = admin(&[]);
    let wanted = [("t".into(), 0, 0)];
    let id = ask(
        &mut script,
        ListOffsets {
            wanted: wanted.to_vec(),
        },
        5,
    );
    let Some(Action::Dial { link, .. }) = script.engine.poll_action() else {
        panic!("no dial")
    };
    let old = Versions::new(&ApiVersionsResponse::default());
    script.engine.handle(script.now, link, Event::Up(old));
    assert!(script.engine.poll_send(script.now, link).is_none());
    let error = script.engine.topic("t").unwrap_err().unwrap();
    assert!(error.is_retriable(), "another broker may do better");
    script.now += Duration::from_secs(5);
    script.engine.handle_timeout(script.now);
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert!(
        error.message().contains("does not know Metadata"),
        "{error}"
    );
    assert_eq!(error.broker(), Some("boot:1"));
}

#[test]
fn only_topics_that_are_wanted_are_remembered() {
    let mut script = admin(&[("metadata.max.age.ms", "1000")]);
    let cluster = &mut script.engine.core.cluster;
    for topic in ["t", "u", "nope"] {
        cluster.want(script.now, &topic.into());
    }
    script.topics = vec![("t", vec![1]), ("u", vec![1])];
    script.engine.settle(script.now);
    script.run();
    let view = script.engine.metadata();
    let id = view.topic("u").unwrap().id;
    assert!(view.name_of(id).is_some() && view.problem("nope").is_some());
    for topic in ["u", "nope"] {
        script.engine.core.cluster.unwant(topic);
    }
    script.pass(Duration::from_secs(2));
    let view = script.engine.metadata();
    assert!(view.topic("t").is_some() && view.topic("u").is_none());
    assert!(view.problem("nope").is_none());
    assert_ne!(view.name_of(id).map(|name| &**name), Some("u"));
}
