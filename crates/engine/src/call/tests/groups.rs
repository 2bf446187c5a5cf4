//! Groups and transactions: which brokers get the requests, and what the responses of old and new
//! brokers mean.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use ottla_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use ottla_protocol::messages::list_groups_response::ListedGroup;
use ottla_protocol::messages::list_transactions_response;
use ottla_protocol::messages::{
    ApiVersionsResponse, DescribeGroupsResponse, DescribeTransactionsResponse, ListGroupsResponse,
    ListTransactionsResponse,
};

use super::*;

fn listed(rows: &[(&str, &str)]) -> Response {
    let groups = rows.iter().map(|(group, state)| ListedGroup {
        group_id: (*group).into(),
        protocol_type: "consumer".into(),
        group_state: (*state).into(),
        ..Default::default()
    });
    Response::ListGroups(ListGroupsResponse {
        groups: groups.collect(),
        ..Default::default()
    })
}

#[test]
fn groups_come_from_every_broker_once_each() {
    let mut script = admin(&[]);
    let id = ask(&mut script, ListGroups::default(), 10);
    let asked = script.run();
    assert_eq!(asked.len(), 2);
    script.answer(&asked[0], listed(&[("b", "Stable"), ("moved", "")]));
    // A coordinator that still loads is asked again.
    let loading = ListGroupsResponse {
        error_code: ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0,
        ..Default::default()
    };
    script.answer(&asked[1], Response::ListGroups(loading));
    let again = script.pass(Duration::from_secs(1));
    assert_eq!(again.len(), 1);
    script.answer(&again[0], listed(&[("a", ""), ("moved", "")]));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let found: Vec<_> = found
        .0
        .iter()
        .map(|group| (&*group.group_id, group.state.as_deref()))
        .collect();
    assert_eq!(found, [("a", None), ("b", Some("Stable")), ("moved", None)]);
}

#[test]
fn one_broker_that_refuses_to_list_hides_nothing_in_silence() {
    let mut script = admin(&[]);
    let id = ask(&mut script, ListTransactions::default(), 10);
    let asked = script.run();
    let row = list_transactions_response::TransactionState {
        transactional_id: "x".into(),
        producer_id: 7,
        transaction_state: "Ongoing".into(),
        ..Default::default()
    };
    let answer = ListTransactionsResponse {
        transaction_states: vec![row],
        ..Default::default()
    };
    script.answer(&asked[0], Response::ListTransactions(answer));
    let refusal = ListTransactionsResponse {
        error_code: ErrorCode::CLUSTER_AUTHORIZATION_FAILED.0,
        ..Default::default()
    };
    script.answer(&asked[1], Response::ListTransactions(refusal));
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::CLUSTER_AUTHORIZATION_FAILED));
    assert_eq!(
        error.broker(),
        Some(&*format!("{}:9092", script.address(asked[1].link)))
    );
}

fn describe(groups: &[&str]) -> DescribeGroups {
    DescribeGroups {
        groups: groups.iter().map(|group| Arc::from(*group)).collect(),
        operations: false,
    }
}

/// A script whose call is at the coordinator, which is broker 2 for every key.
fn at_coordinator<C: Call>(script: &mut Script<Admin>, call: C) -> (Ticket<C>, script::Asked) {
    let id = ask(script, call, 10);
    let mut asked = script.run();
    while matches!(asked[0].request, Request::FindCoordinator(_)) {
        for each in &asked {
            script.answer(each, coordinated_by(2, ErrorCode::NONE));
        }
        asked = script.run();
    }
    assert_eq!((asked.len(), script.address(asked[0].link)), (1, "b2"));
    (id, asked.remove(0))
}

fn group(id: &str, state: &str) -> DescribedGroup {
    DescribedGroup {
        group_id: id.into(),
        group_state: state.into(),
        protocol_type: "consumer".into(),
        protocol_data: "range".into(),
        ..Default::default()
    }
}

fn described(groups: Vec<DescribedGroup>) -> Response {
    Response::DescribeGroups(DescribeGroupsResponse {
        groups,
        ..Default::default()
    })
}

#[test]
fn groups_are_described_by_their_coordinator_in_the_order_asked() {
    let mut script = admin(&[]);
    let (id, asked) = at_coordinator(&mut script, describe(&["g", "denied", "h"]));
    // Version 1 of the consumer protocol: topic t with the partitions 1 and 0, then no user data.
    let assignment = b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\x01\0\0\0\0\xff\xff\xff\xff";
    let member = |id: &str, assignment: &'static [u8]| DescribedGroupMember {
        member_id: id.into(),
        client_id: "app".into(),
        client_host: "/127.0.0.1".into(),
        member_assignment: Bytes::from_static(assignment),
        ..Default::default()
    };
    let stable = DescribedGroup {
        members: vec![
            member("m3", b"\0\x01\0\0\0\xff"),
            member("m2", b""),
            member("m1", assignment),
        ],
        ..group("g", "Stable")
    };
    let denied = DescribedGroup {
        error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED.0,
        ..group("denied", "")
    };
    script.answer(&asked, described(vec![denied, group("h", "Empty"), stable]));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let [Ok(stable), Err(denied), Ok(empty)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((&*empty.group_id, &*empty.state), ("h", "Empty"));
    assert_eq!(
        (&*stable.protocol_type, &*stable.protocol),
        ("consumer", "range")
    );
    let members: Vec<_> = stable
        .members
        .iter()
        .map(|member| (&*member.member_id, member.assignment.clone()))
        .collect();
    let t: Arc<str> = "t".into();
    let assigned = vec![(Arc::clone(&t), 0), (t, 1)];
    assert_eq!(
        members,
        [
            ("m1", Some(assigned)),
            ("m2", Some(Vec::new())),
            ("m3", None)
        ]
    );
    let said = denied.to_string();
    for word in [
        "GROUP_AUTHORIZATION_FAILED",
        "an ACL that allows DESCRIBE on the group",
        "group denied",
        "broker b2:9092",
        "api DescribeGroups",
    ] {
        assert!(said.contains(word), "{said}");
    }
}

pub(super) fn speaking(rows: &[(ApiKey, i16)]) -> Versions {
    let mut all: Vec<_> = crate::api::HIGHEST
        .iter()
        .map(|(api, max)| (api.as_i16(), *max))
        .collect();
    for (api, max) in rows {
        all.retain(|(key, _)| *key != api.as_i16());
        all.push((api.as_i16(), *max));
    }
    let api_keys = all.into_iter().map(|(api_key, max_version)| ApiVersion {
        api_key,
        max_version,
        ..Default::default()
    });
    Versions::new(&ApiVersionsResponse {
        api_keys: api_keys.collect(),
        ..Default::default()
    })
}

#[test]
fn groups_of_the_consumer_protocol_are_described_with_their_epochs_and_targets() {
    use ottla_protocol::messages::ConsumerGroupDescribeResponse;
    use ottla_protocol::messages::consumer_group_describe_response as row;
    let mut script = admin(&[]);
    let call = DescribeConsumerGroups {
        groups: vec!["g".into(), "classic".into()],
        operations: false,
    };
    let (id, asked) = at_coordinator(&mut script, call);
    let has = |numbers: &[i32]| row::Assignment {
        topic_partitions: vec![row::TopicPartitions {
            topic_name: "t".into(),
            partitions: numbers.iter().copied().collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let member = |id: &str| row::Member {
        member_id: id.into(),
        member_epoch: 6,
        rack_id: Some("".into()),
        ..Default::default()
    };
    let stable = row::DescribedGroup {
        group_id: "g".into(),
        group_state: "Reconciling".into(),
        group_epoch: 7,
        assignment_epoch: 6,
        assignor_name: "uniform".into(),
        members: vec![
            row::Member {
                subscribed_topic_regex: Some("t.*".into()),
                rack_id: Some("r".into()),
                ..member("m2")
            },
            row::Member {
                subscribed_topic_names: vec!["u".into(), "t".into()],
                assignment: has(&[1]),
                target_assignment: has(&[1, 0]),
                ..member("m1")
            },
        ],
        ..Default::default()
    };
    let classic = row::DescribedGroup {
        group_id: "classic".into(),
        error_code: ErrorCode::GROUP_ID_NOT_FOUND.0,
        ..Default::default()
    };
    let answer = ConsumerGroupDescribeResponse {
        groups: vec![classic, stable],
        ..Default::default()
    };
    script.answer(&asked, Response::ConsumerGroupDescribe(answer));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let [Ok(group), Err(missing)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(missing.code(), Some(ErrorCode::GROUP_ID_NOT_FOUND));
    assert_eq!((group.epoch, group.assignment_epoch), (Some(7), Some(6)));
    assert_eq!(
        (&*group.protocol_type, &*group.protocol, &*group.state),
        ("consumer", "uniform", "Reconciling")
    );
    let [one, two] = &group.members[..] else {
        panic!("{group:?}")
    };
    let t: Arc<str> = "t".into();
    assert_eq!((&*one.member_id, one.epoch), ("m1", Some(6)));
    assert_eq!(one.assignment, Some(vec![(Arc::clone(&t), 1)]));
    assert_eq!(
        one.target_assignment,
        Some(vec![(Arc::clone(&t), 0), (Arc::clone(&t), 1)])
    );
    assert_eq!(one.subscribed_topics, Some(vec!["t".into(), "u".into()]));
    assert_eq!((&one.rack, &one.subscribed_pattern), (&None, &None));
    assert_eq!(two.target_assignment, Some(Vec::new()));
    assert_eq!(
        (two.rack.as_deref(), two.subscribed_pattern.as_deref()),
        (Some("r"), Some("t.*"))
    );
}

/// KIP-1043: old brokers describe the group as dead, new brokers respond with an error.
#[test]
fn a_group_that_does_not_exist_is_said_by_old_and_new_brokers_alike() {
    for version in [5, 6] {
        let mut script = admin(&[]);
        script.versions = speaking(&[(ApiKey::DescribeGroups, version)]);
        let (id, asked) = at_coordinator(&mut script, describe(&["g"]));
        assert_eq!(asked.version, version);
        let row = match version {
            5 => group("g", "Dead"),
            _ => DescribedGroup {
                error_code: ErrorCode::GROUP_ID_NOT_FOUND.0,
                error_message: Some("Group g not found.".into()),
                ..group("g", "Dead")
            },
        };
        script.answer(&asked, described(vec![row]));
        let found = script.engine.take_answer(&id).unwrap().unwrap();
        let error = found[0].as_ref().unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::GROUP_ID_NOT_FOUND));
        assert!(
            error.to_string().contains("(group g, broker b2:9092"),
            "{error}"
        );
    }
}

#[test]
fn a_transaction_is_described_by_its_coordinator_also_after_it_moved() {
    let mut script = admin(&[]);
    let call = || DescribeTransactions {
        ids: vec!["x".into()],
    };
    let answer = |code: ErrorCode| {
        let row = TransactionState {
            error_code: code.0,
            transactional_id: "x".into(),
            transaction_state: "Ongoing".into(),
            transaction_timeout_ms: 60_000,
            transaction_start_time_ms: 5,
            producer_id: 9,
            producer_epoch: 2,
            topics: vec![TopicData {
                topic: "t".into(),
                partitions: [1, 0].into_iter().collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        Response::DescribeTransactions(DescribeTransactionsResponse {
            transaction_states: vec![row],
            ..Default::default()
        })
    };
    let (id, asked) = at_coordinator(&mut script, call());
    script.answer(&asked, answer(ErrorCode::NOT_COORDINATOR));
    let again = script.pass(Duration::from_secs(1));
    script.answer(&again[0], coordinated_by(1, ErrorCode::NONE));
    let again = script.run();
    assert_eq!(script.address(again[0].link), "b1");
    script.answer(&again[0], answer(ErrorCode::NONE));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let known = found[0].as_ref().unwrap();
    assert_eq!(
        (known.producer_id, known.producer_epoch, known.started_ms),
        (9, 2, Some(5))
    );
    let t: Arc<str> = "t".into();
    assert_eq!(known.partitions, [(Arc::clone(&t), 0), (t, 1)]);
    // Unknown, and denied before the coordinator is known.
    let id = ask(&mut script, call(), 10);
    let asked = script.run();
    script.answer(&asked[0], answer(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let said = found[0].as_ref().unwrap_err().to_string();
    assert!(
        said.contains("transactional id x, broker b1:9092"),
        "{said}"
    );
    let id = ask(
        &mut script,
        DescribeTransactions {
            ids: vec!["y".into()],
        },
        10,
    );
    let asked = script.run();
    let denial = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    script.answer(&asked[0], coordinated_by(-1, denial));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let said = found[0].as_ref().unwrap_err().to_string();
    for word in [
        "an ACL that allows DESCRIBE on the transactional id",
        "transactional id y",
        "broker b",
        "api FindCoordinator",
    ] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn brokers_before_3_0_know_no_calls_about_transactions() {
    let mut script = admin(&[]);
    script.versions = Versions::of(Era::V0_9);
    let id = ask(&mut script, ListTransactions::default(), 10);
    script.run();
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(
        error.message().contains("needs brokers of Kafka 3.0"),
        "{error}"
    );
}
