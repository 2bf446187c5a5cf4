//! Calls against a scripted cluster.

mod cluster;
mod ends;
mod groups;

use std::time::Duration;

use ottla_protocol::messages::create_topics_request::CreatableTopic;
use ottla_protocol::messages::create_topics_response::CreatableTopicResult;
use ottla_protocol::messages::delete_topics_response::DeletableTopicResult;
use ottla_protocol::messages::describe_delegation_token_response::DescribedDelegationToken;
use ottla_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use ottla_protocol::messages::find_coordinator_response::Coordinator;
use ottla_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use ottla_protocol::messages::{
    CreateDelegationTokenResponse, CreateTopicsResponse, DeleteTopicsResponse,
    DescribeDelegationTokenResponse, DescribeProducersResponse, ExpireDelegationTokenResponse,
    FindCoordinatorResponse, ListOffsetsResponse, RenewDelegationTokenResponse,
};
use ottla_protocol::{ApiKey, ErrorCode};

use super::*;
use crate::admin::Admin;
use crate::admin::delegation_tokens::{
    CreateDelegationToken, DescribeDelegationTokens, ExpireDelegationToken, Principal,
    RenewDelegationToken,
};
use crate::api::{Request, Response, Versions};
use crate::change::Change;
use crate::cluster::{Action, CoordinatorType};
use crate::config::Role;
use crate::engine::{Engine, closed_error};
use crate::error::{Error, Kind};
use crate::observe::Observed;
use crate::release::Era;
use crate::script::{self, Script, config};

fn admin(pairs: &[(&'static str, &'static str)]) -> Script<Admin> {
    Script::new(Engine::admin(config(Role::Admin, pairs), 7))
}

fn ask<C: Call>(script: &mut Script<Admin>, call: C, seconds: u64) -> Ticket<C> {
    let deadline = script.now + Duration::from_secs(seconds);
    script.engine.ask(script.now, call, deadline)
}

fn create() -> CreateTopics {
    CreateTopics {
        topics: vec![CreatableTopic {
            name: "t".into(),
            ..Default::default()
        }],
        validate_only: false,
        timeout_ms: 1000,
    }
}

fn created(code: ErrorCode) -> Response {
    let topics = vec![CreatableTopicResult {
        name: "t".into(),
        error_code: code.0,
        ..Default::default()
    }];
    Response::CreateTopics(CreateTopicsResponse {
        topics,
        ..Default::default()
    })
}

#[test]
fn the_controller_is_asked_and_found_again() {
    let mut script = admin(&[]);
    let id = ask(&mut script, create(), 10);
    let asked = script.run();
    assert_eq!(script.address(asked[0].link), "b1");
    script.answer(&asked[0], created(ErrorCode::NOT_CONTROLLER));
    let asked = script.pass(Duration::from_secs(2));
    script.answer(&asked[0], created(ErrorCode::TOPIC_ALREADY_EXISTS));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    assert_eq!(
        found[0].as_ref().unwrap_err().code(),
        Some(ErrorCode::TOPIC_ALREADY_EXISTS)
    );
}

#[test]
fn a_question_outlives_its_connection_but_not_its_deadline() {
    let mut script = admin(&[]);
    let id = ask(&mut script, create(), 10);
    let asked = script.run();
    script.cut(asked[0].link);
    let again = script.pass(Duration::from_secs(5));
    assert_eq!(again.len(), 1);
    script.pass(Duration::from_secs(5));
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert!(error.message().contains("closed the connection"), "{error}");
    script.answer(&again[0], created(ErrorCode::NONE));
    assert!(
        script.engine.take_answer(&id).is_none(),
        "it was answered already"
    );
}

fn offsets(asked: &script::Asked, code: ErrorCode) -> Response {
    let Request::ListOffsets(request) = &asked.request else {
        panic!("not a ListOffsets")
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|part| ListOffsetsPartitionResponse {
                    partition_index: part.partition_index,
                    error_code: code.0,
                    offset: i64::from(part.partition_index) * 100,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    Response::ListOffsets(ListOffsetsResponse {
        topics,
        ..Default::default()
    })
}

#[test]
fn offsets_come_from_each_leader_in_the_order_asked() {
    let mut script = admin(&[]);
    let wanted = [1, 0, 1].map(|partition| ("t".into(), partition, LATEST));
    let id = ask(
        &mut script,
        ListOffsets {
            wanted: wanted.to_vec(),
        },
        10,
    );
    let asked = script.run();
    assert_eq!(asked.len(), 2);
    for request in &asked {
        script.answer(request, offsets(request, ErrorCode::NONE));
    }
    let Some(Ok(found)) = script.engine.take_answer(&id) else {
        panic!("no answer")
    };
    assert_eq!(
        found
            .iter()
            .map(|row| row.as_ref().unwrap().offset)
            .collect::<Vec<_>>(),
        [100, 0, 100]
    );
}

#[test]
fn one_partition_that_fails_does_not_hide_the_others() {
    let mut script = admin(&[]);
    let wanted = [0, 1, 7].map(|partition| ("t".into(), partition, EARLIEST));
    let id = ask(
        &mut script,
        ListOffsets {
            wanted: wanted.to_vec(),
        },
        10,
    );
    for request in script.run() {
        let code = if script.address(request.link) == "b1" {
            ErrorCode::NONE
        } else {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
        };
        script.answer(&request, offsets(&request, code));
    }
    script.pass(Duration::from_secs(1));
    let Some(Ok(found)) = script.engine.take_answer(&id) else {
        panic!("no answer")
    };
    assert_eq!(found[0].as_ref().unwrap().offset, 0);
    assert_eq!(
        found[1].as_ref().unwrap_err().code(),
        Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    );
    assert!(
        found[2]
            .as_ref()
            .unwrap_err()
            .message()
            .contains("the topic has 2")
    );
}

/// A leader's response: a producer for each partition, whose id is the partition's number plus 100.
fn producers(asked: &script::Asked, code: ErrorCode) -> Response {
    let Request::DescribeProducers(request) = &asked.request else {
        panic!("not a DescribeProducers")
    };
    let row = |partition: &i32| PartitionResponse {
        partition_index: *partition,
        error_code: code.0,
        error_message: code.is_error().then(|| "not from here".into()),
        active_producers: vec![ProducerState {
            producer_id: i64::from(*partition) + 100,
            ..Default::default()
        }],
        ..Default::default()
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| TopicResponse {
            name: topic.name.clone(),
            partitions: topic.partition_indexes.iter().map(row).collect(),
            ..Default::default()
        })
        .collect();
    Response::DescribeProducers(DescribeProducersResponse {
        topics,
        ..Default::default()
    })
}

#[test]
fn producers_come_from_each_leader_also_after_it_moved() {
    let mut script = admin(&[]);
    script.topics = vec![("t", vec![1, 2, 1])];
    let partitions = [2, 1, 0].map(|partition| ("t".into(), partition)).to_vec();
    let id = ask(&mut script, DescribeProducers { partitions }, 10);
    let asked = script.run();
    assert_eq!(asked.len(), 2, "partitions of one leader share a request");
    script.topics = vec![("t", vec![1, 1, 1])];
    for request in &asked {
        let code = match script.address(request.link) {
            "b2" => ErrorCode::NOT_LEADER_OR_FOLLOWER,
            _ => ErrorCode::NONE,
        };
        script.answer(request, producers(request, code));
    }
    let again = script.pass(Duration::from_secs(2));
    assert_eq!(again.len(), 1);
    assert_eq!(script.address(again[0].link), "b1");
    script.answer(&again[0], producers(&again[0], ErrorCode::NONE));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let ids = found.iter().map(|row| row.as_ref().unwrap()[0].producer_id);
    assert_eq!(ids.collect::<Vec<_>>(), [102, 101, 100]);
}

#[test]
fn a_partition_whose_producers_are_refused_is_named_with_the_brokers_words() {
    let mut script = admin(&[]);
    let partitions = vec![("t".into(), 0), ("t".into(), 1)];
    let id = ask(&mut script, DescribeProducers { partitions }, 10);
    let asked = script.run();
    let codes = [ErrorCode::TOPIC_AUTHORIZATION_FAILED, ErrorCode::NONE];
    for (request, code) in asked.iter().zip(codes) {
        let answer = match code {
            ErrorCode::NONE => Response::DescribeProducers(Default::default()),
            code => producers(request, code),
        };
        script.answer(request, answer);
    }
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let refused = found[0].as_ref().unwrap_err();
    assert_eq!((refused.topic(), refused.partition()), (Some("t"), Some(0)));
    assert!(refused.message().contains("not from here"), "{refused}");
    let absent = found[1].as_ref().unwrap_err();
    assert_eq!(
        (absent.kind(), absent.partition()),
        (Kind::Protocol, Some(1))
    );
}

#[test]
fn a_topic_that_is_not_there_is_said_after_a_few_answers() {
    let mut script = admin(&[]);
    let call = || ListOffsets {
        wanted: vec![("nope".into(), 0, 0)],
    };
    for _ in 0..2 {
        let id = ask(&mut script, call(), 60);
        script.run();
        assert!(
            script.engine.take_answer(&id).is_none(),
            "one broker may not know it yet"
        );
        script.pass(Duration::from_secs(1));
        let found = script.engine.take_answer(&id).unwrap().unwrap();
        let error = found[0].as_ref().unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert!(!error.is_retriable());
    }
}

#[test]
fn a_topic_that_turns_up_in_time_is_found() {
    let mut script = admin(&[]);
    let wanted = vec![("late".into(), 0, LATEST)];
    let id = ask(&mut script, ListOffsets { wanted }, 60);
    script.pass(Duration::from_millis(150));
    script.topics.push(("late", vec![2]));
    let asked = script.pass(Duration::from_secs(1));
    script.answer(&asked[0], offsets(&asked[0], ErrorCode::NONE));
    assert!(script.engine.take_answer(&id).unwrap().unwrap()[0].is_ok());
}

#[test]
fn a_partition_that_is_not_there_is_said_at_once_also_the_second_time() {
    let mut script = admin(&[]);
    // Somebody else keeps the topic in the view, so nothing is refreshed by itself.
    script.engine.core.cluster.want(script.now, &"t".into());
    for _ in 0..2 {
        script.pass(Duration::from_secs(30));
        let wanted = vec![("t".into(), 7, LATEST)];
        let id = ask(&mut script, ListOffsets { wanted }, 60);
        script.pass(Duration::from_secs(1));
        let found = script.engine.take_answer(&id).unwrap().unwrap();
        let error = found[0].as_ref().unwrap_err();
        assert!(error.message().contains("the topic has 2"), "{error}");
    }
}

#[test]
fn what_others_did_after_an_attempt_whose_response_was_lost_is_no_success() {
    let earlier = |result: &Result<(), Error>, code, text: &str| {
        let error = result.as_ref().unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert!(error.may_have_been_done());
        assert!(error.message().contains(text), "{error}");
    };
    let mut script = admin(&[]);
    let id = ask(&mut script, create(), 10);
    let asked = script.run();
    script.cut(asked[0].link);
    let again = script.pass(Duration::from_secs(2));
    script.answer(&again[0], created(ErrorCode::TOPIC_ALREADY_EXISTS));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let text = "an earlier attempt of this call may have created it";
    earlier(&found[0], ErrorCode::TOPIC_ALREADY_EXISTS, text);

    let call = DeleteTopics {
        topics: TopicKey::named(vec!["t".to_owned()]),
        timeout_ms: 1000,
    };
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    script.cut(asked[0].link);
    let again = script.pass(Duration::from_secs(2));
    let response = Response::DeleteTopics(DeleteTopicsResponse {
        responses: vec![DeletableTopicResult {
            name: Some("t".into()),
            error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
            ..Default::default()
        }],
        ..Default::default()
    });
    script.answer(&again[0], response);
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let text = "an earlier attempt of this call may have deleted it";
    earlier(&found[0], ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text);
}

#[test]
fn a_refusal_after_an_attempt_whose_answer_was_lost_proves_nothing() {
    let refused = |lost: bool| {
        let mut script = admin(&[]);
        let id = ask(&mut script, create(), 10);
        let mut asked = script.run();
        if lost {
            script.cut(asked[0].link);
            asked = script.pass(Duration::from_secs(2));
        }
        script.answer(&asked[0], created(ErrorCode::POLICY_VIOLATION));
        let found = script.engine.take_answer(&id).unwrap().unwrap();
        found[0].clone().unwrap_err()
    };
    assert!(!refused(false).may_have_been_done());
    let error = refused(true);
    assert!(error.may_have_been_done());
    let text = "an attempt may have been carried out";
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn the_refusal_before_an_attempt_that_is_under_way_proves_nothing() {
    let mut script = admin(&[]);
    let id = ask(&mut script, create(), 10);
    let asked = script.run();
    script.answer(&asked[0], created(ErrorCode::NOT_CONTROLLER));
    assert_eq!(script.pass(Duration::from_secs(5)).len(), 1);
    script.pass(Duration::from_secs(5));
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NOT_CONTROLLER));
    assert!(error.may_have_been_done());
}

/// An admin client that has created the topic `new`, of which the brokers have not heard.
fn creator() -> Script<Admin> {
    let mut script = admin(&[]);
    let mut call = create();
    call.topics[0].name = "new".into();
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    let topics = vec![CreatableTopicResult {
        name: "new".into(),
        ..Default::default()
    }];
    let done = CreateTopicsResponse {
        topics,
        ..Default::default()
    };
    script.answer(&asked[0], Response::CreateTopics(done));
    assert_eq!(script.engine.take_answer(&id).unwrap().unwrap(), [Ok(())]);
    script
}

fn describe(name: &str) -> DescribeTopics {
    DescribeTopics::at_once(vec![name.to_owned()])
}

#[test]
fn a_topic_is_described_to_who_created_it_as_soon_as_a_broker_has_heard_of_it() {
    let mut script = creator();
    let (own, other) = (describe("new"), describe("other"));
    let (own, other) = (ask(&mut script, own, 8), ask(&mut script, other, 8));
    script.run();
    let answer = script.engine.take_answer(&other).unwrap().unwrap();
    let unknown = Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(answer[0].as_ref().unwrap_err().code(), unknown);
    script.pass(Duration::from_secs(5));
    assert!(script.engine.take_answer(&own).is_none());
    // Each broker is asked in turn.
    let mut connected = script.connected();
    connected.sort_unstable();
    assert_eq!(connected, ["b1", "b2"]);
    script.topics.push(("new", vec![2]));
    script.pass(Duration::from_secs(2));
    assert!(script.engine.take_answer(&own).unwrap().unwrap()[0].is_ok());
}

#[test]
fn a_topic_of_which_no_broker_hears_is_not_said_to_be_absent() {
    let mut script = creator();
    let described = ask(&mut script, describe("new"), 5);
    let wanted = vec![("new".into(), 0, LATEST)];
    let found = ask(&mut script, ListOffsets { wanted }, 5);
    script.pass(Duration::from_secs(5));
    let error = script.engine.take_answer(&described).unwrap().unwrap_err();
    assert_eq!((error.kind(), error.topic()), (Kind::Timeout, Some("new")));
    assert!(error.message().contains("have not heard"), "{error}");
    let error = script.engine.take_answer(&found).unwrap().unwrap_err();
    assert!(error.is_retriable(), "{error}");
    // After a while it is believed: somebody else has deleted it.
    script.pass(Duration::from_secs(10));
    let described = ask(&mut script, describe("new"), 5);
    script.run();
    assert!(script.engine.take_answer(&described).unwrap().unwrap()[0].is_err());
}

#[test]
fn only_the_topics_that_were_sent_away_are_asked_for_again() {
    let mut script = admin(&[]);
    let topic = |name: &str| CreatableTopic {
        name: name.into(),
        ..Default::default()
    };
    let call = CreateTopics {
        topics: vec![topic("a"), topic("b")],
        ..create()
    };
    let id = ask(&mut script, call, 10);
    let row = |name: &str, code: ErrorCode| CreatableTopicResult {
        name: name.into(),
        error_code: code.0,
        ..Default::default()
    };
    let answer = |topics| {
        Response::CreateTopics(CreateTopicsResponse {
            topics,
            ..Default::default()
        })
    };
    let asked = script.run();
    let rows = vec![
        row("a", ErrorCode::NONE),
        row("b", ErrorCode::THROTTLING_QUOTA_EXCEEDED),
    ];
    script.answer(&asked[0], answer(rows));
    let again = script.pass(Duration::from_secs(2));
    let Request::CreateTopics(request) = &again[0].request else {
        panic!("not a CreateTopics")
    };
    assert_eq!(request.topics, [topic("b")]);
    script.answer(&again[0], answer(vec![row("b", ErrorCode::NONE)]));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    assert_eq!(found, [Ok(()), Ok(())]);
}

/// A call that only chooses its target. It requests offsets, whatever the target.
#[derive(Debug)]
struct To(Target);

impl Call for To {
    type Found = usize;
    type Answer = Vec<Result<usize, Error>>;
    const API: ApiKey = ApiKey::ListOffsets;

    fn target(&self, _: usize) -> Target {
        self.0.clone()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::ListOffsets(Default::default())
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<usize, Error>> {
        let Response::ListOffsets(answer) = response else {
            return Vec::new();
        };
        vec![match answer.throttle_time_ms {
            0.. => Ok(answer.topics.len()),
            _ => Err(Error::from_code(ErrorCode::NOT_COORDINATOR, None)),
        }]
    }

    fn merge(self, found: Vec<Result<usize, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}

fn counted(topics: usize) -> Response {
    Response::ListOffsets(ListOffsetsResponse {
        topics: vec![ListOffsetsTopicResponse::default(); topics],
        ..Default::default()
    })
}

fn not_coordinator() -> Response {
    Response::ListOffsets(ListOffsetsResponse {
        throttle_time_ms: -1,
        ..Default::default()
    })
}

fn coordinated_by(node_id: i32, code: ErrorCode) -> Response {
    Response::FindCoordinator(FindCoordinatorResponse {
        coordinators: vec![Coordinator {
            node_id,
            error_code: code.0,
            ..Default::default()
        }],
        ..Default::default()
    })
}

#[test]
fn every_broker_answers_for_itself() {
    let mut script = admin(&[]);
    let id = ask(&mut script, To(Target::EveryNode), 10);
    let asked = script.run();
    let mut addresses: Vec<_> = asked.iter().map(|it| script.address(it.link)).collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["b1", "b2"]);
    script.answer(&asked[0], counted(3));
    assert!(script.engine.take_answer(&id).is_none(), "one is missing");
    script.answer(&asked[1], counted(3));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    assert_eq!(found, [Ok(3), Ok(3)]);
}

#[test]
fn a_coordinator_is_found_kept_and_found_again() {
    let mut script = admin(&[]);
    let target = Target::Coordinator(CoordinatorType::Group, "g".into());
    let id = ask(&mut script, To(target.clone()), 10);
    let asked = script.run();
    let Request::FindCoordinator(request) = &asked[0].request else {
        panic!("not a FindCoordinator")
    };
    assert_eq!((request.key_type, &*request.coordinator_keys[0]), (0, "g"));
    script.answer(
        &asked[0],
        coordinated_by(-1, ErrorCode::COORDINATOR_NOT_AVAILABLE),
    );
    let asked = script.pass(Duration::from_secs(1));
    script.answer(&asked[0], coordinated_by(2, ErrorCode::NONE));
    let asked = script.run();
    assert_eq!(script.address(asked[0].link), "b2");

    script.answer(&asked[0], not_coordinator());
    let asked = script.pass(Duration::from_secs(1));
    script.answer(&asked[0], coordinated_by(1, ErrorCode::NONE));
    let asked = script.run();
    assert_eq!(script.address(asked[0].link), "b1");
    script.answer(&asked[0], counted(1));
    assert_eq!(script.engine.take_answer(&id).unwrap().unwrap(), [Ok(1)]);

    ask(&mut script, To(target), 10);
    let asked = script.run();
    assert!(
        matches!(asked[0].request, Request::ListOffsets(_)),
        "it is still known"
    );
}

#[test]
fn a_coordinator_that_does_not_accept_the_client_ends_the_call() {
    let mut script = admin(&[]);
    script.refusing = vec!["b2".to_owned()];
    script.refusal = Some(Error::new(Kind::Authentication, "the password is wrong"));
    let target = Target::Coordinator(CoordinatorType::Group, "g".into());
    let id = ask(&mut script, To(target), 60);
    let asked = script.run();
    script.answer(&asked[0], coordinated_by(2, ErrorCode::NONE));
    script.pass(Duration::from_millis(100));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let error = found.into_iter().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Authentication);
    assert_eq!(error.broker(), Some("b2:9092"));
}

/// A killed node is missing from the metadata for a while, and FindCoordinator still returns it
/// from older knowledge.
#[test]
fn a_coordinator_that_is_not_in_the_cluster_is_waited_for() {
    let mut script = admin(&[]);
    let target = Target::Coordinator(CoordinatorType::Group, "g".into());
    let id = ask(&mut script, To(target), 2);
    let end = script.now + Duration::from_secs(3);
    while script.now < end {
        for each in script.pass(Duration::from_millis(50)) {
            assert!(matches!(each.request, Request::FindCoordinator(_)));
            script.answer(&each, coordinated_by(9, ErrorCode::NONE));
        }
    }
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.is_retriable()),
        (Kind::Unreachable, true)
    );
}

#[test]
fn a_request_that_takes_long_delays_none_to_the_coordinator() {
    let mut script = admin(&[]);
    ask(&mut script, To(Target::Leader("t".into(), 0)), 50);
    let long = script.run();
    assert_eq!(script.address(long[0].link), "b1");
    let target = Target::Coordinator(CoordinatorType::Group, "g".into());
    let id = ask(&mut script, To(target), 50);
    let asked = script.run();
    script.answer(&asked[0], coordinated_by(1, ErrorCode::NONE));
    let asked = script.run();
    assert_eq!(script.address(asked[0].link), "b1");
    assert_ne!(asked[0].link, long[0].link);
    script.answer(&asked[0], counted(1));
    assert_eq!(script.engine.take_answer(&id).unwrap().unwrap(), [Ok(1)]);
}

#[test]
fn a_coordinator_that_may_not_be_known_is_said_at_once() {
    let mut script = admin(&[]);
    let target = Target::Coordinator(CoordinatorType::Transaction, "x".into());
    let id = ask(&mut script, To(target), 60);
    let asked = script.run();
    let code = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    script.answer(&asked[0], coordinated_by(-1, code));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let error = found[0].as_ref().unwrap_err();
    assert_eq!(error.code(), Some(code));
    assert_eq!(error.api(), Some("FindCoordinator"));
}

#[test]
fn a_broker_that_is_not_in_the_cluster_is_said() {
    let mut script = admin(&[]);
    let id = ask(&mut script, To(Target::Node(9)), 60);
    script.pass(Duration::from_secs(1));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let error = found[0].as_ref().unwrap_err();
    assert!(error.message().contains("no broker 9"), "{error}");
}

#[test]
fn a_pause_that_a_broker_asks_for_is_kept() {
    let mut script = admin(&[]);
    let id = ask(&mut script, To(Target::Node(1)), 60);
    let asked = script.run();
    let answer = ListOffsetsResponse {
        throttle_time_ms: 700,
        ..Default::default()
    };
    script.answer(&asked[0], Response::ListOffsets(answer));
    assert!(script.engine.take_answer(&id).is_some(), "it is an answer");

    ask(&mut script, To(Target::Node(1)), 60);
    assert!(script.pass(Duration::from_millis(650)).is_empty());
    assert_eq!(script.pass(Duration::from_millis(100)).len(), 1);
    let told = std::iter::from_fn(|| script.engine.observer().poll());
    let pauses: Vec<_> = told
        .filter_map(|event| match event {
            Observed::Throttled { api, pause, .. } => Some((api, pause)),
            _ => None,
        })
        .collect();
    assert_eq!(pauses, [("ListOffsets", Duration::from_millis(700))]);
}

#[test]
fn each_call_wakes_its_own_caller() {
    let mut script = admin(&[]);
    let first = ask(&mut script, create(), 60);
    let second = ask(&mut script, To(Target::Node(2)), 60);
    let asked = script.run();
    while script.engine.poll_change().is_some() {}
    let of_second = asked
        .iter()
        .find(|it| script.address(it.link) == "b2")
        .unwrap();
    script.answer(of_second, counted(0));
    let told: Vec<_> = std::iter::from_fn(|| script.engine.poll_change()).collect();
    assert_eq!(told, [Change::Call(second.id())]);
    assert_ne!(first.id(), second.id());
}

#[test]
fn closing_answers_everything_and_hangs_up() {
    let mut script = admin(&[]);
    let id = ask(&mut script, create(), 10);
    script.run();
    script.engine.close(script.now, &closed_error());
    assert_eq!(
        script.engine.take_answer(&id).unwrap().unwrap_err().kind(),
        Kind::Closed
    );
    let Some(Action::Close(link)) = script.engine.poll_action() else {
        panic!("the connection stays open")
    };
    assert!(!script.engine.has_link(link));
    let late = ask(&mut script, create(), 10);
    assert_eq!(
        script
            .engine
            .take_answer(&late)
            .unwrap()
            .unwrap_err()
            .kind(),
        Kind::Closed
    );
}

#[test]
fn a_check_of_a_topic_that_exists_says_so_although_an_answer_was_lost() {
    let mut script = admin(&[]);
    let call = CreateTopics {
        validate_only: true,
        ..create()
    };
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    script.cut(asked[0].link);
    let again = script.pass(Duration::from_secs(2));
    script.answer(&again[0], created(ErrorCode::TOPIC_ALREADY_EXISTS));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let error = found[0].as_ref().unwrap_err();
    assert!(!error.may_have_been_done(), "{error}");
    assert!(!error.message().contains("earlier"), "{error}");
}

/// Has broker 1, which is the controller, ask for a pause.
fn throttle(script: &mut Script<Admin>, millis: i32) {
    ask(script, To(Target::Node(1)), 60);
    let asked = script.run();
    let answer = ListOffsetsResponse {
        throttle_time_ms: millis,
        ..Default::default()
    };
    script.answer(&asked[0], Response::ListOffsets(answer));
}

#[test]
fn a_call_that_was_given_up_is_not_sent_after_a_pause() {
    let mut script = admin(&[]);
    throttle(&mut script, 5000);
    let id = ask(&mut script, create(), 1);
    assert!(script.pass(Duration::from_secs(2)).is_empty());
    assert!(script.engine.take_answer(&id).unwrap().is_err());
    assert!(script.pass(Duration::from_secs(10)).is_empty());
}

#[test]
fn a_pause_ends_although_other_alarms_come_first() {
    let mut script = admin(&[]);
    throttle(&mut script, 3000);
    ask(&mut script, create(), 60);
    // The connection was dialled less than a second ago: that alarm comes before the end of the pause.
    assert!(script.pass(Duration::from_millis(2900)).is_empty());
    assert_eq!(script.pass(Duration::from_millis(200)).len(), 1);
}

#[test]
fn another_broker_answers_while_one_is_throttled() {
    let mut script = admin(&[]);
    let id = ask(&mut script, To(Target::Node(2)), 60);
    let asked = script.run();
    script.answer(&asked[0], counted(0));
    assert!(script.engine.take_answer(&id).is_some());
    throttle(&mut script, 5000);
    let id = ask(&mut script, ListTopics, 60);
    script.pass(Duration::from_millis(100));
    assert!(script.engine.take_answer(&id).is_some());
}

#[test]
fn without_any_pause_time_still_passes_between_attempts() {
    let pairs = [("retry.backoff.ms", "0"), ("retry.backoff.max.ms", "0")];
    let mut script = admin(&pairs);
    let wanted = vec![("t".into(), 0, LATEST)];
    let id = ask(&mut script, ListOffsets { wanted }, 1);
    for _ in 0..20 {
        for asked in script.run() {
            let answer = offsets(&asked, ErrorCode::NOT_LEADER_OR_FOLLOWER);
            script.answer(&asked, answer);
        }
        script.now += Duration::from_millis(100);
        script.engine.handle_timeout(script.now);
    }
    let found = script.engine.take_answer(&id).unwrap();
    assert_eq!(
        found.unwrap_err().code(),
        Some(ErrorCode::NOT_LEADER_OR_FOLLOWER)
    );
}

#[test]
fn a_call_that_waits_for_a_leader_sleeps_while_no_broker_answers() {
    let mut script = admin(&[]);
    script.dead = ["boot", "b1", "b2"].map(str::to_owned).to_vec();
    let wanted = vec![("t".into(), 0, LATEST)];
    ask(&mut script, ListOffsets { wanted }, 30);
    let end = script.now + Duration::from_secs(20);
    let mut looks = 0;
    while script.now < end {
        script.run();
        script.now = script.now.max(script.engine.next_timeout().unwrap());
        script.engine.handle_timeout(script.now);
        looks += 1;
        assert!(looks < 200, "it looks all the time");
    }
}

#[test]
fn nothing_is_dialled_after_the_end() {
    let mut script = admin(&[]);
    script.engine.close(script.now, &closed_error());
    let id = ask(&mut script, create(), 10);
    assert!(script.engine.take_answer(&id).unwrap().is_err());
    let actions: Vec<_> = std::iter::from_fn(|| script.engine.poll_action()).collect();
    assert_eq!(actions, []);
}

#[test]
fn a_coordinator_that_died_is_looked_for_again() {
    let mut script = admin(&[]);
    let target = || Target::Coordinator(CoordinatorType::Group, "g".into());
    let id = ask(&mut script, To(target()), 60);
    let asked = script.run();
    script.answer(&asked[0], coordinated_by(2, ErrorCode::NONE));
    let asked = script.run();
    script.dead.push("b2".to_owned());
    script.cut(asked[0].link);
    let asked = script.pass(Duration::from_secs(2));
    script.answer(asked.last().unwrap(), coordinated_by(1, ErrorCode::NONE));
    let asked = script.pass(Duration::from_secs(1));
    assert_eq!(script.address(asked[0].link), "b1");
    script.answer(&asked[0], counted(0));
    assert!(script.engine.take_answer(&id).unwrap().is_ok());
}

#[test]
fn a_coordinator_that_nobody_waits_for_is_not_looked_for() {
    let mut script = admin(&[]);
    let target = Target::Coordinator(CoordinatorType::Group, "g".into());
    let id = ask(&mut script, To(target), 60);
    let asked = script.run();
    let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    script.answer(&asked[0], coordinated_by(-1, code));
    script.engine.cancel(id.id());
    let mut questions = 0;
    for _ in 0..60 {
        for asked in script.pass(Duration::from_secs(1)) {
            questions += 1;
            script.answer(&asked, coordinated_by(-1, code));
        }
    }
    assert!(questions < 20, "{questions} questions for nobody");
}

#[test]
fn delegation_tokens_are_made_renewed_ended_and_described() {
    let mut script = admin(&[]);
    let alice = Principal {
        kind: "User".to_owned(),
        name: "alice".to_owned(),
    };
    let call = CreateDelegationToken {
        owner: Some(alice.clone()),
        renewers: vec![alice.clone()],
        max_lifetime_ms: -1,
    };
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    let Request::CreateDelegationToken(request) = &asked[0].request else {
        panic!("not a CreateDelegationToken")
    };
    assert_eq!(request.owner_principal_name.as_deref(), Some("alice"));
    assert_eq!(&*request.renewers[0].principal_type, "User");
    let answer = CreateDelegationTokenResponse {
        token_id: "id".into(),
        hmac: "hunter2".into(),
        principal_type: "User".into(),
        principal_name: "alice".into(),
        expiry_timestamp_ms: 7,
        ..Default::default()
    };
    script.answer(&asked[0], Response::CreateDelegationToken(answer));
    let made = script.engine.take_answer(&id).unwrap().unwrap();
    assert_eq!((&*made.id, &made.owner, made.expires_ms), ("id", &alice, 7));
    assert!(!format!("{made:?}").contains("hunter2"));

    let (hmac, period_ms) = (made.hmac.clone(), 60_000);
    let id = ask(&mut script, RenewDelegationToken { hmac, period_ms }, 10);
    let asked = script.run();
    let answer = RenewDelegationTokenResponse {
        expiry_timestamp_ms: 9,
        ..Default::default()
    };
    script.answer(&asked[0], Response::RenewDelegationToken(answer));
    assert_eq!(script.engine.take_answer(&id).unwrap(), Ok(9));

    let call = ExpireDelegationToken {
        hmac: made.hmac.clone(),
        period_ms: -1,
    };
    assert!(!format!("{call:?}").contains("hunter2"));
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    let answer = ExpireDelegationTokenResponse {
        error_code: ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH.0,
        ..Default::default()
    };
    script.answer(&asked[0], Response::ExpireDelegationToken(answer));
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert!(error.message().contains("only the owner"), "{error}");

    let owners = Some(vec![alice.clone()]);
    let id = ask(&mut script, DescribeDelegationTokens { owners }, 10);
    let asked = script.run();
    let row = DescribedDelegationToken {
        token_id: "id".into(),
        token_requester_principal_type: "User".into(),
        token_requester_principal_name: "bob".into(),
        ..Default::default()
    };
    let answer = DescribeDelegationTokenResponse {
        tokens: vec![row],
        ..Default::default()
    };
    script.answer(&asked[0], Response::DescribeDelegationToken(answer));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    assert_eq!(found[0].requester.as_ref().unwrap().name, "bob");
}

fn old_offsets(offsets: &[i64]) -> Response {
    let row = ListOffsetsPartitionResponse {
        old_style_offsets: offsets.to_vec(),
        ..Default::default()
    };
    Response::ListOffsets(ListOffsetsResponse {
        topics: vec![ListOffsetsTopicResponse {
            name: "t".into(),
            partitions: vec![row],
            ..Default::default()
        }],
        ..Default::default()
    })
}

#[test]
fn offsets_come_as_a_list_from_old_brokers() {
    for (listed, offset, log_is_younger) in
        [(&[7][..], 7, false), (&[7, 3], 7, false), (&[], -1, true)]
    {
        let mut script = admin(&[]);
        script.versions = Versions::of(Era::V0_9);
        let wanted = vec![("t".into(), 0, 1000)];
        let id = ask(&mut script, ListOffsets { wanted }, 10);
        let asked = script.run();
        assert_eq!(asked[0].version, 0);
        script.answer(&asked[0], old_offsets(listed));
        let found = script.engine.take_answer(&id).unwrap().unwrap();
        let wanted = FoundOffset {
            offset,
            timestamp_ms: -1,
            leader_epoch: -1,
            log_is_younger,
        };
        assert_eq!(found, [Ok(wanted)], "{listed:?}");
    }
}

#[test]
fn what_an_old_broker_cannot_do_names_both_releases() {
    let mut script = admin(&[]);
    script.versions = Versions::of(Era::V0_9);
    let id = ask(&mut script, create(), 10);
    script.run();
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let error = found[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert_eq!(
        error.message(),
        "CreateTopics needs brokers of Kafka 0.10.1 or newer, and this one speaks as Kafka 0.9 does"
    );
    assert!(error.broker().is_some());
}

#[test]
fn a_broker_that_names_no_brokers_is_asked_as_the_controller() {
    let mut script = admin(&[]);
    script.versions = Versions::of(Era::V0_8);
    script.nodes = 0;
    let id = ask(&mut script, create(), 10);
    script.run();
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    let error = found[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
}

#[test]
fn a_deadline_leaves_each_item_its_own_outcome() {
    let mut script = admin(&[]);
    let mut call = create();
    for name in ["asked", "refused", "throttled"] {
        let mut topic = call.topics[0].clone();
        topic.name = name.into();
        call.topics.push(topic);
    }
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    let row = |name: &str, code: ErrorCode| CreatableTopicResult {
        name: name.into(),
        error_code: code.0,
        ..Default::default()
    };
    let topics = vec![
        row("t", ErrorCode::NONE),
        row("asked", ErrorCode::NOT_CONTROLLER),
        row("refused", ErrorCode::POLICY_VIOLATION),
        row("throttled", ErrorCode::THROTTLING_QUOTA_EXCEEDED),
    ];
    let response = CreateTopicsResponse {
        topics,
        ..Default::default()
    };
    script.answer(&asked[0], Response::CreateTopics(response));
    let again = script.pass(Duration::from_secs(2));
    let Request::CreateTopics(request) = &again[0].request else {
        panic!("{again:?}")
    };
    assert_eq!(request.topics.len(), 2, "what is done is not asked again");
    script.pass(Duration::from_secs(10));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    assert_eq!(found[0], Ok(()));
    let refused = found[2].as_ref().unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::POLICY_VIOLATION));
    assert!(!refused.may_have_been_done());
    for item in [1, 3] {
        let error = found[item].as_ref().unwrap_err();
        assert_eq!(error.kind(), Kind::Timeout, "{error}");
        assert!(error.may_have_been_done(), "{error}");
    }
}
