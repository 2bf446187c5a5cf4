//! Bootstrap addresses, the view, and what is said when nothing can be asked.

mod refusals;

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::{ApiVersionsResponse, ListOffsetsResponse};
use ottla_protocol::{ErrorCode, Uuid};

use crate::admin::Admin;
use crate::api::{Response, Versions};
use crate::call::{Call, DescribeTopics, ListOffsets, ListTopics, Ticket};
use crate::cluster::{Action, Lane, LinkId};
use crate::config::Role;
use crate::engine::{Engine, Event};
use crate::error::{Error, Evidence, Kind};
use crate::observe::Observed;
use crate::release::{Approach, Era};
use crate::script::{Script, config, versions};

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
            if let Action::Dial(_, dial) = action {
                dialled.push(dial.host);
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
    assert!(script.engine.is_starting());
    script.pass(Duration::from_secs(4));
    assert!(script.engine.take_answer(&id).is_none());
    assert!(!script.engine.is_starting());
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
    let Some(Action::Dial(link, _)) = script.engine.poll_action() else {
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
fn brokers_and_a_client_that_do_not_accept_each_other_make_waiting_hopeless() {
    let refusal = Error::new(Kind::Authentication, "its certificate has expired");
    let mut script = admin(&[]);
    script.refusal = Some(refusal.clone());
    ask(&mut script, ListTopics, 60);
    script.run();
    let error = script.engine.hopeless().unwrap();
    assert_eq!(error.kind(), Kind::Authentication);
    assert!(!error.is_retriable());
    assert_eq!(
        error.message(),
        "no broker could be reached: boot:1: its certificate has expired"
    );
    // The result is the same after connections that worked, once every broker refuses the client.
    let mut script = admin(&[]);
    let wanted = vec![("t".into(), 0, 0)];
    ask(&mut script, ListOffsets { wanted }, 60);
    let asked = script.run().remove(0);
    script.refusal = Some(refusal);
    script.cut(asked.link);
    assert!(script.engine.hopeless().is_none(), "it was only cut");
    script.pass(Duration::from_secs(9));
    let error = script.engine.hopeless().unwrap();
    assert_eq!(error.kind(), Kind::Authentication);
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
    let Some(Action::Dial(link, _)) = script.engine.poll_action() else {
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
        error.message().contains("does not serve Metadata"),
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

/// A call to the leader of `t-0`, which is `b1`.
fn offsets(script: &mut Script<Admin>, seconds: u64) -> Ticket<ListOffsets> {
    let wanted = vec![("t".into(), 0, 0)];
    ask(script, ListOffsets { wanted }, seconds)
}

fn events(script: &mut Script<Admin>) -> Vec<Observed> {
    std::iter::from_fn(|| script.engine.observer().poll()).collect()
}

#[test]
fn an_idle_connection_is_closed_and_made_again_when_it_is_needed() {
    let mut script = admin(&[("connections.max.idle.ms", "60000")]);
    offsets(&mut script, 600);
    let asked = script.run();
    assert_eq!(asked.len(), 1);
    // A link whose request has no response yet is not idle.
    script.pass(Duration::from_secs(100));
    assert!(script.connected().contains(&"b1"));
    script.answer(
        &asked[0],
        Response::ListOffsets(ListOffsetsResponse::default()),
    );
    events(&mut script);
    script.pass(Duration::from_secs(59));
    assert!(script.connected().contains(&"b1"));
    script.pass(Duration::from_secs(2));
    assert_eq!(script.connected(), [""; 0]);
    let texts: Vec<_> = events(&mut script)
        .iter()
        .map(Observed::to_string)
        .collect();
    assert_eq!(
        texts,
        [
            "disconnected from b1:9092: the connection was idle for connections.max.idle.ms (60000 ms)"
        ]
    );
    offsets(&mut script, 10);
    assert_eq!(script.run().len(), 1, "it is dialled again at once");
}

#[test]
fn connections_may_stay_for_ever() {
    let mut script = admin(&[
        ("connections.max.idle.ms", "-1"),
        ("metadata.max.age.ms", "2000000000"),
    ]);
    offsets(&mut script, 10);
    script.run();
    script.pass(Duration::from_secs(100_000));
    assert_eq!(script.connected(), ["b1"]);
}

#[test]
fn each_failure_gives_the_next_dial_more_time_up_to_the_bound() {
    let mut script = admin(&[]);
    script.dead.push("boot".to_owned());
    ask(&mut script, ListTopics, 10);
    script.pass(Duration::from_secs(8));
    let seconds: Vec<_> = script.setup.iter().map(Duration::as_secs_f64).collect();
    assert_eq!(seconds[0].to_bits(), 10_f64.to_bits());
    for (seconds, middle) in seconds[1..].iter().zip([20.0, 30.0, 30.0, 30.0, 30.0]) {
        assert!((middle * 0.8..=middle * 1.2).contains(seconds), "{seconds}");
    }
    let distinct: std::collections::BTreeSet<_> = script.setup.iter().collect();
    assert!(
        distinct.len() > 3,
        "without jitter all clients come at once"
    );
}

#[test]
fn an_advertised_address_that_leads_nowhere_is_named_with_who_told_it() {
    let mut script = admin(&[]);
    script.dead = vec!["b1".to_owned(), "b2".to_owned()];
    let id = offsets(&mut script, 3);
    script.pass(Duration::from_secs(4));
    let said = "b1:9092: connection refused; this is the address that broker 1 advertises, according to boot:1: if it means \
                nothing here, correct the broker's advertised.listeners, or set address.map=b1:9092=HOST:PORT to where it is \
                reached";
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&said["b1:9092: ".len()..]), "{text}");
    let logged = events(&mut script).into_iter().any(|event| {
        matches!(&event, Observed::ConnectFailed { broker, .. } if broker == "b1:9092")
            && event
                .to_string()
                .contains("set address.map=b1:9092=HOST:PORT")
    });
    assert!(logged);
}

#[test]
fn an_address_that_was_reached_before_is_not_blamed() {
    let mut script = admin(&[]);
    offsets(&mut script, 5);
    let link = script.run()[0].link;
    script.dead.push("b1".to_owned());
    script.cut(link);
    events(&mut script);
    offsets(&mut script, 3);
    script.pass(Duration::from_secs(2));
    let failed = events(&mut script).into_iter().find(
        |event| matches!(event, Observed::ConnectFailed { broker, .. } if broker == "b1:9092"),
    );
    let text = failed.expect("b1 is dialled again").to_string();
    assert!(!text.contains("advertises"), "{text}");
}

#[test]
fn a_mapped_address_that_leads_nowhere_names_where_it_leads() {
    let mut script = admin(&[("address.map", "b1:9092=localhost:19092")]);
    script.dead.push("b1".to_owned());
    offsets(&mut script, 3);
    script.pass(Duration::from_secs(1));
    let text: Vec<_> = events(&mut script)
        .iter()
        .map(Observed::to_string)
        .collect();
    let text = text.join("\n");
    assert!(
        text.contains(
            "broker 1 advertises, according to boot:1, and address.map leads it to localhost:19092"
        ),
        "{text}"
    );
}

#[test]
fn when_no_known_broker_is_left_the_bootstrap_servers_are_asked_again() {
    for (strategy, again) in [("rebootstrap", true), ("none", false)] {
        let mut script = admin(&[("metadata.recovery.strategy", strategy)]);
        offsets(&mut script, 5);
        let link = script.run()[0].link;
        script.dead = vec!["b1".to_owned(), "b2".to_owned()];
        script.cut(link);
        script.dials.clear();
        script.pass(Duration::from_secs(3));
        assert!(script.dials.contains(&"b1".to_owned()));
        assert_eq!(
            script.dials.contains(&"boot".to_owned()),
            again,
            "{strategy}"
        );
    }
}

#[test]
fn a_broker_may_send_the_client_back_to_the_bootstrap_servers() {
    for (strategy, again) in [("rebootstrap", true), ("none", false)] {
        let mut script = admin(&[
            ("metadata.recovery.strategy", strategy),
            ("metadata.max.age.ms", "1000"),
        ]);
        offsets(&mut script, 50);
        script.run();
        script.dials.clear();
        events(&mut script);
        script.metadata_code = ErrorCode::REBOOTSTRAP_REQUIRED;
        script.pass(Duration::from_millis(1050));
        script.metadata_code = ErrorCode::NONE;
        assert_eq!(
            script.engine.metadata().nodes().count(),
            if again { 0 } else { 2 }
        );
        script.pass(Duration::from_secs(1));
        assert_eq!(script.engine.metadata().nodes().count(), 2);
        assert_eq!(
            script.dials.contains(&"boot".to_owned()),
            again,
            "{strategy}"
        );
        let texts: Vec<_> = events(&mut script)
            .iter()
            .map(Observed::to_string)
            .collect();
        let said = "beginning again at the bootstrap servers: REBOOTSTRAP_REQUIRED".to_owned();
        assert_eq!(texts.contains(&said), again, "{texts:?}");
    }
}

#[test]
fn brokers_that_give_no_metadata_for_too_long_are_given_up() {
    let mut script = admin(&[
        ("metadata.recovery.rebootstrap.trigger.ms", "20000"),
        ("metadata.max.age.ms", "1000"),
    ]);
    offsets(&mut script, 100);
    script.run();
    script.dials.clear();
    script.metadata_silent = true;
    script.pass(Duration::from_secs(20));
    assert_eq!(script.dials, [""; 0]);
    script.pass(Duration::from_secs(2));
    assert_eq!(script.dials, ["boot"]);
    let said = events(&mut script).iter().any(|event| {
        event.to_string().contains(
            "no known broker gave metadata for metadata.recovery.rebootstrap.trigger.ms (20000 ms)",
        )
    });
    assert!(said);
    script.metadata_silent = false;
    let boot = script.connected().iter().position(|host| *host == "boot");
    assert!(boot.is_some());
    assert_eq!(script.engine.metadata().nodes().count(), 0);
}

#[test]
fn a_broker_that_answers_is_not_given_up() {
    let mut script = admin(&[
        ("metadata.recovery.rebootstrap.trigger.ms", "0"),
        ("metadata.max.age.ms", "1000"),
    ]);
    offsets(&mut script, 100);
    script.run();
    script.dials.clear();
    script.pass(Duration::from_secs(30));
    assert_eq!(script.dials, [""; 0]);
    assert!(script.metadata_asked.len() > 20);
}

#[test]
fn names_that_the_dns_does_not_know_make_waiting_hopeless_after_a_while() {
    for (timeout, gives_up) in [("2000", true), ("0", false)] {
        let mut script = admin(&[("bootstrap.resolve.timeout.ms", timeout)]);
        script.unknown.push("boot".to_owned());
        let id = ask(&mut script, ListTopics, 60);
        script.pass(Duration::from_millis(1900));
        assert!(script.engine.hopeless().is_none());
        script.pass(Duration::from_secs(3));
        let error = script.engine.hopeless();
        assert_eq!(
            error.as_ref().map(Error::kind),
            gives_up.then_some(Kind::Unresolved)
        );
        // Names may become known.
        script.unknown.clear();
        script.pass(Duration::from_secs(3));
        assert!(script.engine.hopeless().is_none());
        assert!(matches!(script.engine.take_answer(&id), Some(Ok(_))));
    }
}

#[test]
fn why_a_broker_was_not_reached_is_forgotten_with_the_broker() {
    let mut script = admin(&[("metadata.max.age.ms", "1000")]);
    script.dead.push("b1".to_owned());
    offsets(&mut script, 100);
    script.pass(Duration::from_millis(900));
    assert!(
        script
            .engine
            .core
            .cluster
            .failure_of(1, Lane::Control)
            .is_some()
    );
    script.nodes = 0;
    script.topics = vec![("t", vec![])];
    let now = script.now;
    let cluster = &mut script.engine.core.cluster;
    cluster.view.forget_nodes();
    cluster.meet(now, [(9, "b9", 9092)].into_iter());
    assert!(cluster.failure_of(1, Lane::Control).is_none());
}

#[test]
fn only_so_many_requests_wait_on_one_connection() {
    let mut script = admin(&[]);
    offsets(&mut script, 50);
    let first = script.run();
    for _ in 0..120 {
        offsets(&mut script, 50);
    }
    let asked = script.run();
    assert_eq!(first.len() + asked.len(), 100);
    script.answer(
        &first[0],
        Response::ListOffsets(ListOffsetsResponse::default()),
    );
    assert!(!script.run().is_empty());
}

#[test]
fn a_hint_may_name_a_broker_that_is_new() {
    let mut script = admin(&[]);
    script.engine.core.cluster.want(script.now, &"t".into());
    script.engine.settle(script.now);
    script.run();
    let now = script.now;
    let cluster = &mut script.engine.core.cluster;
    cluster.hint(("t", Uuid::ZERO), 0, (7, 5));
    assert_eq!(
        cluster.view().leader("t", 0),
        Some((1, 1)),
        "nobody knows broker 7"
    );
    let bad = [
        (-1, "x", 1),
        (8, "x", 0),
        (8, "x", 65_536),
        (8, "", 1),
        (8, "a\r\nb", 1),
    ];
    cluster.meet(now, bad.into_iter().chain([(7, "b7", 9092)]));
    cluster.hint(("t", Uuid::ZERO), 0, (7, 5));
    assert_eq!(cluster.view().leader("t", 0), Some((7, 5)));
    let nodes: Vec<_> = cluster.view().nodes().map(|node| node.id).collect();
    assert_eq!(nodes, [1, 2, 7]);
    for id in 0..10_000 {
        cluster.meet(now, [(id, "x", 1)].into_iter());
    }
    assert!(cluster.view().nodes().count() <= 4096);
}

#[test]
fn a_connection_says_whom_it_is_meant_for_where_brokers_understand_that() {
    let expected = |checks: bool, pairs: &[(&'static str, &'static str)]| {
        let mut script = admin(pairs);
        script.checks = checks;
        script.cluster_id = Some("c");
        offsets(&mut script, 10);
        script.run();
        assert_eq!(script.dials, ["boot", "b1"]);
        assert_eq!(
            script.expected[0], None,
            "a bootstrap server may be any broker"
        );
        script.expected[1]
            .as_ref()
            .map(|it| (it.cluster_id.to_string(), it.node))
    };
    assert_eq!(expected(true, &[]), Some(("c".to_owned(), 1)));
    assert_eq!(expected(false, &[]), None);
    let off = [("metadata.cluster.check.enable", "false")];
    assert_eq!(expected(true, &off), None);
    let none = [("metadata.recovery.strategy", "none")];
    assert_eq!(expected(true, &none), None);
}

#[test]
fn a_connection_that_was_misrouted_leads_back_to_the_bootstrap_servers() {
    let mut script = admin(&[]);
    let cause = Error::from_code(ErrorCode::REBOOTSTRAP_REQUIRED, None).with_retriable(true);
    let id = offsets(&mut script, 10);
    loop {
        match script.engine.poll_action() {
            Some(Action::Dial(link, dial)) if dial.host == "b1" => {
                script.engine.handle(script.now, link, Event::Down(cause));
                break;
            }
            Some(action) => script.act(action),
            None => drop(script.serve_once()),
        }
    }
    assert_eq!(script.engine.metadata().nodes().count(), 0);
    script.pass(Duration::from_secs(1));
    assert_eq!(script.dials, ["boot", "boot", "b1"]);
    assert!(
        script.engine.take_answer(&id).is_none(),
        "it waits for b1's answer"
    );
}

/// One broker that does not know the user yet is no reason to close the connections to the others.
#[test]
fn one_broker_that_refuses_the_client_does_not_take_the_others_down() {
    let mut script = admin(&[]);
    script.refusal = Some(Error::new(Kind::Authentication, "who is alice?"));
    script.refusing.push("b2".to_owned());
    let call = || ListOffsets {
        wanted: vec![("t".into(), 0, 0), ("t".into(), 1, 0)],
    };
    let id = ask(&mut script, call(), 10);
    let asked = script.pass(Duration::from_secs(2));
    assert_eq!(asked.len(), 1, "the leader that takes the client is asked");
    assert_eq!(script.address(asked[0].link), "b1");
    assert!(script.engine.hopeless().is_none());
    script.pass(Duration::from_secs(10));
    let found = script.engine.take_answer(&id).unwrap();
    let said = format!("{found:?}");
    assert!(said.contains("who is alice?"), "{said}");
    let list = ask(&mut script, ListTopics, 10);
    script.pass(Duration::from_secs(1));
    assert!(matches!(script.engine.take_answer(&list), Some(Ok(_))));
}

#[test]
fn a_client_that_no_broker_accepts_is_told_at_once() {
    let mut script = admin(&[]);
    script.refusal = Some(Error::new(Kind::Authentication, "who is alice?"));
    ask(&mut script, ListTopics, 60);
    script.run();
    let error = script.engine.hopeless().unwrap();
    assert_eq!(error.kind(), Kind::Authentication);
    assert!(error.message().contains("who is alice?"), "{error}");
    assert!(!error.is_retriable());
}

/// The next connection to be made: its link, and how it negotiates.
fn dialled(script: &mut Script<Admin>) -> Option<(LinkId, Approach)> {
    std::iter::from_fn(|| script.engine.poll_action()).find_map(|action| match action {
        Action::Dial(link, dial) => Some((link, dial.approach)),
        _ => None,
    })
}

/// The next dial ends without a connection.
fn fails(script: &mut Script<Admin>, evidence: Option<Evidence>) -> Approach {
    let (link, approach) = dialled(script).expect("a dial");
    let cause = Error::new(Kind::Unreachable, "closed").telling(evidence);
    script.engine.handle(script.now, link, Event::Down(cause));
    approach
}

/// The next dial ends with a connection.
fn succeeds(script: &mut Script<Admin>, versions: Versions) -> (LinkId, Approach) {
    let (link, approach) = dialled(script).expect("a dial");
    script.engine.handle(script.now, link, Event::Up(versions));
    (link, approach)
}

fn told(script: &mut Script<Admin>) -> Vec<String> {
    let observer = script.engine.observer();
    std::iter::from_fn(|| observer.poll())
        .map(|event| event.to_string())
        .collect()
}

#[test]
fn an_old_broker_is_probed_at_once_and_remembered() {
    for era in [Era::V0_8, Era::V0_9] {
        let mut script = admin(&[("api.version.fallback.ms", "60000")]);
        ask(&mut script, ListTopics, 60);
        assert_eq!(
            fails(&mut script, Some(Evidence::Suspect)),
            Approach::AskBriefly
        );
        assert_eq!(told(&mut script), [""; 0], "nothing is known yet");
        let proof = Some(Evidence::Proven(era));
        assert_eq!(fails(&mut script, proof), Approach::Probe);
        assert_eq!(told(&mut script), [""; 0], "one proof may be chance");
        assert_eq!(fails(&mut script, proof), Approach::Probe);
        let said = told(&mut script);
        assert_eq!(said.len(), 1, "{said:?}");
        let release = format!(
            "boot:1 does not return its versions and is used as a broker of Kafka {}",
            era.name()
        );
        assert!(said[0].starts_with(&release), "{said:?}");
        let (mut link, approach) = succeeds(&mut script, Versions::of(era));
        assert_eq!(approach, Approach::Assume(era));
        // New connections go by it, until it is too old to be true.
        for (seconds, wanted) in [(1, Approach::Assume(era)), (60, Approach::Probe)] {
            lose(&mut script, link, seconds);
            let approach;
            (link, approach) = succeeds(&mut script, Versions::of(era));
            assert_eq!(approach, wanted, "after {seconds} s");
        }
    }
}

/// Faults within a short time can look like an old broker (simulation, `deposed` seed 15727186).
#[test]
fn an_old_broker_among_newer_ones_must_look_old_for_long() {
    let mut script = admin(&[]);
    beside_a_newer_broker(&mut script);
    ask(&mut script, ListTopics, 90);
    let proof = Some(Evidence::Proven(Era::V0_8));
    fails(&mut script, Some(Evidence::Suspect));
    let first = script.now;
    while script.now < first + Duration::from_secs(30) {
        assert_eq!(fails(&mut script, proof), Approach::Probe);
        assert_eq!(dialled(&mut script), None, "there is a pause");
        wait(&mut script);
    }
    assert_eq!(told(&mut script).join("; ").find("is used as"), None);
    assert_eq!(fails(&mut script, proof), Approach::Probe);
    let (_, approach) = succeeds(&mut script, Versions::of(Era::V0_8));
    assert_eq!(approach, Approach::Assume(Era::V0_8));
}

/// Another broker of the cluster has reported its versions.
fn beside_a_newer_broker(script: &mut Script<Admin>) {
    let cluster = &mut script.engine.core.cluster;
    let config = Arc::clone(cluster.config());
    cluster.links.eras.told(&config, "other:9092");
}

/// With SASL, one connection that ends on ApiVersions would be enough: newer brokers, too, accept Kerberos as 0.9 does.
#[test]
fn an_old_broker_with_kerberos_among_newer_ones_must_look_old_for_long() {
    let mut script = admin(&[
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.allow.plaintext", "true"),
        ("sasl.mechanism", "GSSAPI"),
    ]);
    beside_a_newer_broker(&mut script);
    ask(&mut script, ListTopics, 90);
    let first = script.now;
    let link = loop {
        let (link, approach) = dialled(&mut script).expect("a dial");
        if approach == Approach::Probe {
            break link;
        }
        let cause = Error::new(Kind::Unreachable, "closed").telling(Some(Evidence::Suspect));
        script.engine.handle(script.now, link, Event::Down(cause));
        wait(&mut script);
    };
    let waited = script.now - first;
    assert!((30..40).contains(&waited.as_secs()), "{waited:?}");
    let versions = Versions::of(Era::V0_9);
    script.engine.handle(script.now, link, Event::Up(versions));
    assert!(
        told(&mut script)
            .join("; ")
            .contains("is used as a broker of Kafka 0.9")
    );
}

/// A connection that was ready breaks, and the pause before the next one passes.
fn lose(script: &mut Script<Admin>, link: LinkId, seconds: u64) {
    let cause = Error::new(Kind::Unreachable, "the broker closed the connection");
    script.engine.handle(script.now, link, Event::Down(cause));
    script.now += Duration::from_secs(seconds);
    script.engine.handle_timeout(script.now);
    ask(script, ListTopics, 60);
}

fn wait(script: &mut Script<Admin>) {
    script.now += Duration::from_secs(2);
    script.engine.handle_timeout(script.now);
}

#[test]
fn what_is_no_old_broker_is_asked_again_after_a_pause() {
    let mut script = admin(&[]);
    ask(&mut script, ListTopics, 60);
    for wanted in [Approach::AskBriefly, Approach::Ask, Approach::Ask] {
        assert_eq!(fails(&mut script, Some(Evidence::Suspect)), wanted);
        assert_eq!(fails(&mut script, None), Approach::Probe);
        assert_eq!(dialled(&mut script), None, "there is a pause");
        wait(&mut script);
    }
    let (_, approach) = succeeds(&mut script, versions());
    assert_eq!(approach, Approach::Ask);
    let said = told(&mut script);
    let failed = said.iter().filter(|text| text.contains("cannot connect"));
    assert_eq!(failed.count(), 1, "one warning a minute: {said:?}");
}

/// The broker stops: its first response is lost, and the connection of the probe breaks. It is
/// still a current broker.
#[test]
fn a_newer_broker_that_once_looked_old_is_not_taken_for_one() {
    for then in [None, Some(Evidence::Proven(Era::V0_9))] {
        let mut script = admin(&[]);
        ask(&mut script, ListTopics, 60);
        fails(&mut script, Some(Evidence::Suspect));
        fails(&mut script, Some(Evidence::Proven(Era::V0_8)));
        assert_eq!(fails(&mut script, then), Approach::Probe);
        if then.is_none() {
            assert_eq!(dialled(&mut script), None, "there is a pause");
            wait(&mut script);
        }
        let (_, approach) = succeeds(&mut script, versions());
        assert!(
            matches!(approach, Approach::Ask | Approach::Probe),
            "{approach:?}"
        );
        let said = told(&mut script).join("; ");
        assert!(!said.contains("does not return its versions"), "{said}");
    }
}

#[test]
fn a_broker_that_was_upgraded_is_found_out() {
    let mut script = admin(&[]);
    ask(&mut script, ListTopics, 60);
    fails(&mut script, Some(Evidence::Suspect));
    for _ in 0..2 {
        fails(&mut script, Some(Evidence::Proven(Era::V0_9)));
    }
    let (link, _) = succeeds(&mut script, Versions::of(Era::V0_9));
    lose(&mut script, link, 1);
    let refuted = Some(Evidence::Refuted);
    assert_eq!(fails(&mut script, refuted), Approach::Assume(Era::V0_9));
    wait(&mut script);
    let (_, approach) = succeeds(&mut script, versions());
    assert_eq!(approach, Approach::Ask);
}

/// A client that wants a topic, and has found out that the broker of the bootstrap address is one of 0.9.
fn beside_an_old_broker() -> Script<Admin> {
    let mut script = admin(&[]);
    script.engine.core.cluster.want(script.now, &"t".into());
    script.engine.settle(script.now);
    fails(&mut script, Some(Evidence::Suspect));
    for _ in 0..2 {
        fails(&mut script, Some(Evidence::Proven(Era::V0_9)));
    }
    script.versions = Versions::of(Era::V0_9);
    script.run();
    script
}

#[test]
fn where_one_broker_is_old_others_are_probed_first() {
    let mut script = beside_an_old_broker();
    let now = script.now;
    let id = ask(&mut script, offsets_of("t"), 60);
    let proof = Some(Evidence::Proven(Era::V0_9));
    assert_eq!(fails(&mut script, proof), Approach::Probe);
    let (link, approach) = dialled(&mut script).expect("a dial of the leader");
    assert_eq!(approach, Approach::Assume(Era::V0_9), "one proof is enough");
    script.engine.handle(now, link, Event::Up(versions()));
    assert!(script.engine.take_answer(&id).is_none());
}

#[test]
fn a_broker_that_told_its_versions_once_is_no_old_one() {
    let mut script = admin(&[]);
    ask(&mut script, ListTopics, 60);
    let (link, _) = succeeds(&mut script, versions());
    lose(&mut script, link, 1);
    let boot = |script: &mut Script<Admin>| {
        wait(script);
        dialled(script).expect("a dial")
    };
    for evidence in [Evidence::Suspect, Evidence::Proven(Era::V0_9)] {
        let (link, approach) = boot(&mut script);
        assert_eq!(approach, Approach::Ask);
        let cause = Error::new(Kind::Unreachable, "closed").telling(Some(evidence));
        script.engine.handle(script.now, link, Event::Down(cause));
    }
    assert_eq!(boot(&mut script).1, Approach::Ask);
}

/// Within a short time faults made it look old (simulation, `deposed` seed 15740739).
#[test]
fn what_looked_old_for_a_short_time_is_probed_again_when_another_broker_is_not() {
    let mut script = beside_an_old_broker();
    let offsets_in = |script: &mut Script<Admin>, partition| {
        let wanted = vec![("t".into(), partition, 0)];
        ask(script, ListOffsets { wanted }, 60);
    };
    offsets_in(&mut script, 0);
    fails(&mut script, Some(Evidence::Proven(Era::V0_9)));
    let (old, _) = succeeds(&mut script, Versions::of(Era::V0_9));
    offsets_in(&mut script, 1);
    succeeds(&mut script, versions());
    let mut actions = std::iter::from_fn(|| script.engine.poll_action());
    assert!(actions.any(|action| matches!(action, Action::Close(link) if link == old)));
    script.now += Duration::from_secs(1);
    script.engine.handle_timeout(script.now);
    assert_eq!(dialled(&mut script).unwrap().1, Approach::Probe);
}

/// Brokers since 4.0 close the connection when they receive the requests of a probe.
#[test]
fn a_broker_that_closes_on_a_probe_is_asked_next_time() {
    let mut script = beside_an_old_broker();
    ask(&mut script, offsets_of("t"), 60);
    let next = |script: &mut Script<Admin>| {
        let mut actions = std::iter::from_fn(|| script.engine.poll_action());
        actions.find_map(|action| match action {
            Action::Dial(link, dial) => Some((link, dial.host, dial.approach)),
            _ => None,
        })
    };
    let (link, leader, approach) = next(&mut script).expect("a dial of the leader");
    assert_eq!(approach, Approach::Probe);
    let cause = Error::new(Kind::Unreachable, "closed");
    script.engine.handle(script.now, link, Event::Down(cause));
    let again = std::iter::from_fn(|| {
        wait(&mut script);
        next(&mut script)
    });
    let (.., approach) = again.take(9).find(|(_, host, _)| *host == leader).unwrap();
    assert_eq!(approach, Approach::Ask);
}

fn offsets_of(topic: &str) -> ListOffsets {
    ListOffsets {
        wanted: vec![(topic.into(), 0, 0)],
    }
}

#[test]
fn the_settings_say_what_a_broker_is_that_does_not() {
    let fallback = ("broker.version.fallback", "0.9.0");
    let mut script = admin(&[fallback]);
    ask(&mut script, ListTopics, 60);
    assert_eq!(fails(&mut script, Some(Evidence::Suspect)), Approach::Ask);
    let said = told(&mut script);
    assert!(
        said[0].contains("broker.version.fallback sets it"),
        "{said:?}"
    );
    let (_, approach) = succeeds(&mut script, Versions::of(Era::V0_9));
    assert_eq!(approach, Approach::Assume(Era::V0_9));

    let mut script = admin(&[fallback, ("api.version.request", "false")]);
    ask(&mut script, ListTopics, 60);
    let (_, approach) = succeeds(&mut script, Versions::of(Era::V0_9));
    assert_eq!(approach, Approach::Assume(Era::V0_9));

    let mut script = admin(&[("broker.version.fallback", "0.10.0")]);
    ask(&mut script, ListTopics, 60);
    assert_eq!(fails(&mut script, Some(Evidence::Suspect)), Approach::Ask);
    wait(&mut script);
    assert_eq!(fails(&mut script, Some(Evidence::Suspect)), Approach::Ask);
}

/// Kafka 0.9 authenticates by Kerberos alone.
#[test]
fn a_broker_that_the_settings_call_too_old_to_authenticate_is_given_up_at_once() {
    let plain = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.allow.plaintext", "true"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "alice"),
        ("sasl.password", "secret"),
    ];
    let mut script = admin(&[&plain[..], &[("broker.version.fallback", "0.9.0")]].concat());
    ask(&mut script, ListTopics, 60);
    assert_eq!(fails(&mut script, Some(Evidence::Suspect)), Approach::Ask);
    let error = script.engine.hopeless().unwrap();
    assert_eq!(error.kind(), Kind::Authentication);
    for word in [
        "boot:1",
        "Kafka 0.9",
        "broker.version.fallback",
        "PLAIN needs Kafka 0.10",
    ] {
        assert!(error.message().contains(word), "{error}");
    }
    // Where the settings do not say so, it may be a fault of the network.
    let mut script = admin(&plain);
    ask(&mut script, ListTopics, 60);
    fails(&mut script, Some(Evidence::Suspect));
    assert!(script.engine.hopeless().is_none());
    assert_eq!(
        dialled(&mut script),
        None,
        "nothing can be found out at once"
    );
    // A broker that has returned its versions once does not become an old one either.
    let mut script = admin(&[&plain[..], &[("broker.version.fallback", "0.9.0")]].concat());
    ask(&mut script, ListTopics, 60);
    let (link, _) = succeeds(&mut script, versions());
    lose(&mut script, link, 1);
    fails(&mut script, Some(Evidence::Suspect));
    assert!(script.engine.hopeless().is_none());
}

#[test]
fn an_old_broker_creates_nothing_that_is_only_looked_for() {
    let mut script = admin(&[]);
    script.versions = Versions::of(Era::V0_9);
    script.topics = vec![("u", vec![1])];
    let id = ask(
        &mut script,
        DescribeTopics::at_once(vec!["t".to_owned()]),
        10,
    );
    script.engine.core.cluster.want(script.now, &"t".into());
    script.engine.settle(script.now);
    script.pass(Duration::from_secs(5));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let unknown = Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(found[0].as_ref().unwrap_err().code(), unknown);
    assert_eq!(script.engine.metadata().problem("t"), unknown);
}
