//! The errors of each API for an unauthorised client, and the APIs of ACLs, quotas and SCRAM users.

use ottla_protocol::Ints;
use ottla_protocol::messages::alter_client_quotas_request as alter_quotas;
use ottla_protocol::messages::alter_user_scram_credentials_request as alter_scram;
use ottla_protocol::messages::create_acls_request::AclCreation;
use ottla_protocol::messages::create_topics_request::CreatableTopic;
use ottla_protocol::messages::delete_acls_request::DeleteAclsFilter;
use ottla_protocol::messages::delete_topics_request::DeleteTopicState;
use ottla_protocol::messages::describe_client_quotas_request::ComponentData;
use ottla_protocol::messages::describe_configs_request::DescribeConfigsResource;
use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::{offset_commit_request, offset_fetch_request};

use super::*;
use crate::security::Usage;

/// A broker with topics `t` and `u`; alice has `acls`, bob has nothing, root may do everything.
fn bench(acls: &[&str]) -> Bench {
    let security = SecuritySettings {
        acls: Some(acls.iter().map(|line| (*line).to_owned()).collect()),
        ..SecuritySettings::default()
    };
    let mut bench = Bench::secured(&[("super.users", "root; User:admin")], security);
    bench.be("root");
    let topics = vec![CreatableTopic {
        name: "u".into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    }];
    let request = CreateTopicsRequest {
        topics,
        ..Default::default()
    };
    assert_eq!(bench.ask(&request, 7).topics[0].error_code, 0);
    bench
}

impl Bench {
    fn be(&mut self, name: &'static str) {
        self.client = client(Principal(name.into()));
    }

    fn metadata(&self, topics: Option<&[&'static str]>) -> MetadataResponse {
        let named = |name: &&'static str| MetadataRequestTopic {
            name: Some((*name).into()),
            ..Default::default()
        };
        let request = MetadataRequest {
            topics: topics.map(|names| names.iter().map(named).collect()),
            allow_auto_topic_creation: true,
            include_topic_authorized_operations: true,
            include_cluster_authorized_operations: true,
            ..Default::default()
        };
        self.ask(&request, 10)
    }
}

const TOPIC_DENIED: i16 = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
const GROUP_DENIED: i16 = ErrorCode::GROUP_AUTHORIZATION_FAILED.0;
const CLUSTER_DENIED: i16 = ErrorCode::CLUSTER_AUTHORIZATION_FAILED.0;
const ID_DENIED: i16 = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.0;

#[test]
fn metadata_shows_what_may_be_described_and_makes_what_may_be_created() {
    let mut bench = bench(&["alice describe topic:t", "alice all topic:new-*"]);
    bench.be("alice");
    let names = |answer: &MetadataResponse| -> Vec<(String, i16)> {
        let each = |t: &metadata_response::MetadataResponseTopic| {
            (t.name.as_deref().unwrap_or("-").to_owned(), t.error_code)
        };
        answer.topics.iter().map(each).collect()
    };
    let all = bench.metadata(None);
    assert_eq!(names(&all), [("t".to_owned(), 0)]);
    assert_eq!(all.topics[0].topic_authorized_operations, 1 << 8);
    assert_eq!(all.cluster_authorized_operations, 0);
    let some = bench.metadata(Some(&["t", "u", "absent", "new-1"]));
    let denied = |name: &str| (name.to_owned(), TOPIC_DENIED);
    assert_eq!(
        names(&some),
        [
            ("t".to_owned(), 0),
            denied("u"),
            denied("absent"),
            ("new-1".to_owned(), 0)
        ]
    );
    assert!(some.topics[1].partitions.is_empty());
    assert_eq!(some.topics[1].topic_authorized_operations, i32::MIN);
    bench.be("bob");
    assert!(bench.metadata(None).topics.is_empty());
    bench.be("root");
    let all = bench.metadata(None);
    assert_eq!(names(&all).len(), 3);
    assert_eq!(all.cluster_authorized_operations, operations::CLUSTER);
}

#[test]
fn produce_and_fetch_by_name_and_by_id() {
    let mut bench = bench(&["alice write topic:t"]);
    let id = bench.topic_id();
    let records = batch(1, ProducerState::NONE);
    bench.be("alice");
    for version in [9, 13] {
        assert_eq!(
            bench.produce(version, &[(0, records.clone())])[0].0,
            0,
            "{version}"
        );
        assert_eq!(bench.fetch(0, 1 << 20, version).error_code, TOPIC_DENIED);
    }
    bench.be("bob");
    for version in [9, 13] {
        assert_eq!(
            bench.produce(version, &[(0, records.clone())])[0].0,
            TOPIC_DENIED
        );
    }
    let mut request = bench.fetch_request(0, 1 << 20, 13);
    request.topics[0].topic_id = Uuid([7; 16]);
    assert_ne!(id, Uuid([7; 16]));
    let answer = bench.ask(&request, 13);
    let code = answer.responses[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_ID.0, "an id is no secret");
    bench.be("root");
    assert_eq!(bench.fetch(0, 1 << 20, 13).error_code, 0);
}

#[test]
fn a_denied_produce_without_acknowledgement_closes() {
    let mut bench = bench(&[]);
    bench.be("bob");
    let request = ProduceRequest {
        acks: 0,
        topic_data: vec![TopicProduceData {
            name: "t".into(),
            partition_data: vec![PartitionProduceData::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let outcome = bench.outcome(&request, 9, Ask::Answer);
    assert!(matches!(outcome, Outcome::Close(why) if why.contains("TOPIC_AUTHORIZATION_FAILED")));
}

#[test]
fn groups_are_closed_to_who_may_not_read_them() {
    let mut bench = bench(&[
        "alice read group:g",
        "alice read topic:t",
        "carol describe group:g",
    ]);
    bench.be("bob");
    let group = Str::from("g");
    let coordinator = FindCoordinatorRequest {
        coordinator_keys: vec![group.clone()],
        ..Default::default()
    };
    let found = bench.ask(&coordinator, 6);
    assert_eq!(found.coordinators[0].error_code, GROUP_DENIED);
    assert_eq!(
        (found.coordinators[0].node_id, found.coordinators[0].port),
        (-1, -1)
    );
    let one = FindCoordinatorRequest {
        key: group.clone(),
        ..Default::default()
    };
    assert_eq!(bench.ask(&one, 3).error_code, GROUP_DENIED);
    let transactional = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec![group.clone()],
        ..Default::default()
    };
    assert_eq!(
        bench.ask(&transactional, 6).coordinators[0].error_code,
        ID_DENIED
    );
    let join = JoinGroupRequest {
        group_id: group.clone(),
        session_timeout_ms: 10_000,
        ..Default::default()
    };
    assert_eq!(bench.ask(&join, 9).error_code, GROUP_DENIED);
    let sync = SyncGroupRequest {
        group_id: group.clone(),
        ..Default::default()
    };
    assert_eq!(bench.ask(&sync, 3).error_code, GROUP_DENIED);
    let beat = HeartbeatRequest {
        group_id: group.clone(),
        ..Default::default()
    };
    assert_eq!(bench.ask(&beat, 4).error_code, GROUP_DENIED);
    let leave = LeaveGroupRequest {
        group_id: group.clone(),
        ..Default::default()
    };
    assert_eq!(bench.ask(&leave, 5).error_code, GROUP_DENIED);
    let describe = DescribeGroupsRequest {
        groups: vec![group.clone()],
        include_authorized_operations: true,
        ..Default::default()
    };
    for version in [5, 6] {
        let group = bench.ask(&describe, version).groups.remove(0);
        assert_eq!(
            (group.error_code, group.error_message.is_some()),
            (GROUP_DENIED, version == 6)
        );
    }
    let delete = DeleteGroupsRequest {
        groups_names: vec![group.clone()],
        ..Default::default()
    };
    assert_eq!(bench.ask(&delete, 2).results[0].error_code, GROUP_DENIED);

    let commit = |topic: &'static str| OffsetCommitRequest {
        group_id: group.clone(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: topic.into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                committed_offset: 3,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let committed =
        |bench: &Bench, topic| bench.ask(&commit(topic), 8).topics[0].partitions[0].error_code;
    assert_eq!(committed(&bench, "t"), GROUP_DENIED);
    bench.be("alice");
    assert_eq!(
        (committed(&bench, "t"), committed(&bench, "u")),
        (0, TOPIC_DENIED)
    );
    bench.be("root");
    assert_eq!(committed(&bench, "u"), 0);

    let fetch = |topics| OffsetFetchRequest {
        groups: vec![offset_fetch_request::OffsetFetchRequestGroup {
            group_id: group.clone(),
            topics,
            ..Default::default()
        }],
        ..Default::default()
    };
    let named = |name: &'static str| offset_fetch_request::OffsetFetchRequestTopics {
        name: name.into(),
        partition_indexes: Ints::from_slice(&[0]),
        ..Default::default()
    };
    bench.be("bob");
    assert_eq!(
        bench.ask(&fetch(None), 8).groups[0].error_code,
        GROUP_DENIED
    );
    bench.be("alice");
    let all = bench.ask(&fetch(None), 8).groups.remove(0);
    assert_eq!(
        all.topics
            .iter()
            .map(|topic| &*topic.name)
            .collect::<Vec<_>>(),
        ["t"]
    );
    let some = bench
        .ask(&fetch(Some(vec![named("t"), named("u")])), 8)
        .groups
        .remove(0);
    let offsets: Vec<_> = some
        .topics
        .iter()
        .map(|topic| {
            (
                topic.partitions[0].committed_offset,
                topic.partitions[0].error_code,
            )
        })
        .collect();
    assert_eq!(offsets, [(3, 0), (-1, TOPIC_DENIED)]);

    let listed = |bench: &Bench| bench.ask(&ListGroupsRequest::default(), 5).groups.len();
    assert_eq!(listed(&bench), 1);
    bench.be("bob");
    assert_eq!(listed(&bench), 0);
    bench.be("carol");
    assert_eq!(listed(&bench), 1);
    let described = bench.ask(&describe, 5).groups.remove(0);
    assert_eq!(
        (described.error_code, described.authorized_operations),
        (0, 1 << 8)
    );
}

#[test]
fn administration_takes_its_own_operations() {
    let mut bench = bench(&[
        "alice create topic:mine-*",
        "alice describe topic:u",
        "carol create,describe-configs cluster",
    ]);
    let create = |name: &'static str| CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.into(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    bench.be("alice");
    let made = bench.ask(&create("mine-1"), 7).topics.remove(0);
    assert_eq!(
        (made.error_code, made.topic_config_error_code),
        (0, TOPIC_DENIED)
    );
    assert!(made.configs.is_none() || made.configs.is_some_and(|configs| configs.is_empty()));
    assert_eq!(made.num_partitions, -1);
    assert_eq!(
        bench.ask(&create("other"), 7).topics[0].error_code,
        TOPIC_DENIED
    );
    let id = bench.core.topic("u").unwrap().id;
    let delete = |name: Option<&'static str>, topic_id| DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: name.map(Str::from),
            topic_id,
            ..Default::default()
        }],
        ..Default::default()
    };
    let deleted = |bench: &Bench, name, id| {
        let answer = bench.ask(&delete(name, id), 6).responses.remove(0);
        (answer.error_code, answer.name.map(|name| name.to_string()))
    };
    let u = || Some("u".to_owned());
    assert_eq!(deleted(&bench, Some("u"), Uuid::ZERO), (TOPIC_DENIED, u()));
    assert_eq!(
        deleted(&bench, None, id),
        (TOPIC_DENIED, u()),
        "it may be described"
    );
    bench.be("bob");
    assert_eq!(deleted(&bench, None, id), (TOPIC_DENIED, None));
    assert_eq!(deleted(&bench, Some("absent"), Uuid::ZERO).0, TOPIC_DENIED);
    let grow = CreatePartitionsRequest {
        topics: vec![create_partitions_request::CreatePartitionsTopic {
            name: "u".into(),
            count: 3,
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(bench.ask(&grow, 3).results[0].error_code, TOPIC_DENIED);
    let configs = |kind, name: &'static str| DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: kind,
            resource_name: name.into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(
        bench.ask(&configs(2, "u"), 4).results[0].error_code,
        TOPIC_DENIED
    );
    assert_eq!(
        bench.ask(&configs(4, "1"), 4).results[0].error_code,
        CLUSTER_DENIED
    );
    let offsets = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: "u".into(),
            partitions: vec![ListOffsetsPartition {
                current_leader_epoch: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let code = bench.ask(&offsets, 7).topics[0].partitions[0].error_code;
    assert_eq!(code, TOPIC_DENIED);
    bench.be("carol");
    assert_eq!(bench.ask(&create("other"), 7).topics[0].error_code, 0);
    assert_eq!(bench.ask(&configs(4, "1"), 4).results[0].error_code, 0);
}

#[test]
fn producer_ids_are_for_who_may_write_somewhere() {
    let mut bench = bench(&[
        "alice write topic:t",
        "carol idempotent-write cluster",
        "carol write transactional-id:c-*",
    ]);
    let mut asked = |who, id: Option<&'static str>| {
        bench.be(who);
        let request = InitProducerIdRequest {
            transactional_id: id.map(Str::from),
            ..Default::default()
        };
        bench.ask(&request, 5).error_code
    };
    assert_eq!((asked("alice", None), asked("carol", None)), (0, 0));
    assert_eq!(asked("bob", None), CLUSTER_DENIED);
    assert_eq!(asked("alice", Some("c-1")), ID_DENIED);
}

fn creation(principal: &'static str, name: &'static str, pattern: i8) -> AclCreation {
    AclCreation {
        resource_type: 2,
        resource_name: name.into(),
        resource_pattern_type: pattern,
        principal: principal.into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
        ..Default::default()
    }
}

#[test]
fn acls_are_created_described_and_deleted() {
    let mut bench = bench(&["alice describe cluster"]);
    let create = CreateAclsRequest {
        creations: vec![
            creation("User:bob", "t", 3),
            creation("User:bob", "t", 4),
            creation("User:bob", "", 3),
            creation("bob", "t", 3),
            creation("User:bob", "t", 2),
        ],
        ..Default::default()
    };
    let invalid = ErrorCode::INVALID_REQUEST.0;
    let codes = |answer: CreateAclsResponse| -> Vec<i16> {
        answer
            .results
            .iter()
            .map(|result| result.error_code)
            .collect()
    };
    assert_eq!(
        codes(bench.ask(&create, 3)),
        [0, 0, invalid, invalid, invalid]
    );
    bench.be("bob");
    assert_eq!(codes(bench.ask(&create, 3)), [CLUSTER_DENIED; 5]);
    let any = DescribeAclsRequest {
        resource_type_filter: 1,
        resource_name_filter: None,
        principal_filter: None,
        host_filter: None,
        pattern_type_filter: 1,
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    assert_eq!(bench.ask(&any, 3).error_code, CLUSTER_DENIED);
    assert_eq!(bench.fetch(0, 1, 12).error_code, 0, "bob may read now");
    bench.be("alice");
    let described = bench.ask(&any, 3);
    let shown: Vec<_> = described
        .resources
        .iter()
        .map(|resource| {
            (
                resource.resource_type,
                &*resource.resource_name,
                resource.pattern_type,
                resource.acls.len(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [(2, "t", 3, 1), (2, "t", 4, 1), (4, "kafka-cluster", 3, 1)]
    );
    let delete = DeleteAclsRequest {
        filters: vec![DeleteAclsFilter {
            resource_type_filter: 2,
            resource_name_filter: Some("t".into()),
            principal_filter: None,
            host_filter: None,
            pattern_type_filter: 2,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(
        bench.ask(&delete, 3).filter_results[0].error_code,
        CLUSTER_DENIED
    );
    bench.be("root");
    assert_eq!(
        bench.ask(&delete, 3).filter_results[0].matching_acls.len(),
        2
    );
    bench.be("bob");
    assert_eq!(bench.fetch(0, 1, 12).error_code, TOPIC_DENIED);
    // Without an authorizer there is nothing to describe.
    let open = Bench::new(&[]);
    assert_eq!(open.ask(&any, 3).error_code, ErrorCode::SECURITY_DISABLED.0);
}

fn quota(
    entity: &[(&'static str, Option<&'static str>)],
    key: &'static str,
    value: Option<f64>,
) -> alter_quotas::EntryData {
    let part = |(kind, name): &(&'static str, Option<&'static str>)| alter_quotas::EntityData {
        entity_type: (*kind).into(),
        entity_name: name.map(Str::from),
        ..Default::default()
    };
    alter_quotas::EntryData {
        entity: entity.iter().map(part).collect(),
        ops: vec![alter_quotas::OpData {
            key: key.into(),
            value: value.unwrap_or_default(),
            remove: value.is_none(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn quotas_are_altered_described_and_charged() {
    let mut bench = bench(&[]);
    let rate = "producer_byte_rate";
    let alter = |entries, validate_only| AlterClientQuotasRequest {
        entries,
        validate_only,
        ..Default::default()
    };
    let entries = vec![
        quota(&[("user", Some("bob"))], rate, Some(100.0)),
        quota(
            &[("user", None), ("client-id", Some("me"))],
            "consumer_byte_rate",
            Some(5.0),
        ),
        quota(&[("user", Some("bob"))], "produce", Some(1.0)),
        quota(&[("group", Some("bob"))], rate, Some(1.0)),
        quota(&[], rate, Some(1.0)),
        quota(&[("user", Some("bob"))], rate, Some(0.0)),
    ];
    let invalid = ErrorCode::INVALID_REQUEST.0;
    let codes = |answer: AlterClientQuotasResponse| -> Vec<i16> {
        answer
            .entries
            .iter()
            .map(|entry| entry.error_code)
            .collect()
    };
    let all = [0, 0, invalid, invalid, invalid, invalid];
    let describe = |entity: &'static str, match_type, name: Option<&'static str>, strict| {
        DescribeClientQuotasRequest {
            components: vec![ComponentData {
                entity_type: entity.into(),
                match_type,
                r#match: name.map(Str::from),
                ..Default::default()
            }],
            strict,
            ..Default::default()
        }
    };
    let count = |bench: &Bench, request: &DescribeClientQuotasRequest| {
        bench.ask(request, 1).entries.unwrap().len()
    };
    assert_eq!(codes(bench.ask(&alter(entries.clone(), true), 1)), all);
    assert_eq!(count(&bench, &DescribeClientQuotasRequest::default()), 0);
    assert_eq!(codes(bench.ask(&alter(entries.clone(), false), 1)), all);
    assert_eq!(count(&bench, &DescribeClientQuotasRequest::default()), 2);
    assert_eq!(count(&bench, &describe("user", 0, Some("bob"), true)), 1);
    assert_eq!(count(&bench, &describe("user", 1, None, false)), 1);
    assert_eq!(count(&bench, &describe("user", 1, None, true)), 0);
    assert_eq!(count(&bench, &describe("user", 2, None, false)), 2);
    bench.be("bob");
    assert_eq!(
        codes(bench.ask(&alter(entries, false), 1)),
        [CLUSTER_DENIED; 6]
    );
    let denied = bench.ask(&DescribeClientQuotasRequest::default(), 1);
    assert_eq!(denied.error_code, CLUSTER_DENIED);

    let security = &bench.core.security;
    let charge = |who: &'static str, produced| {
        let usage = Usage {
            produced,
            ..Usage::default()
        };
        security
            .charge(&Principal(who.into()), "x", usage, bench.now.instant)
            .time
    };
    assert_eq!(charge("bob", 1000), Duration::ZERO);
    assert_eq!(charge("bob", 100), Duration::from_secs(1));
    assert_eq!(charge("alice", 1 << 30), Duration::ZERO);
    bench.be("root");
    let remove = alter(vec![quota(&[("user", Some("bob"))], rate, None)], false);
    assert_eq!(codes(bench.ask(&remove, 1)), [0]);
    let security = &bench.core.security;
    let usage = Usage {
        produced: 1 << 30,
        ..Usage::default()
    };
    let freed = security.charge(&Principal("bob".into()), "x", usage, bench.now.instant);
    assert_eq!(freed.time, Duration::ZERO);
}

#[test]
fn a_throttled_fetch_has_no_partitions_and_says_for_how_long() {
    let bench = Bench::new(&[]);
    bench.produce(9, &[(0, batch(1, ProducerState::NONE))]);
    let fetched = |throttle: Throttle| {
        let Outcome::Answer(answered) =
            bench.outcome(&bench.fetch_request(0, 1 << 20, 12), 12, Ask::Answer)
        else {
            panic!("no answer");
        };
        assert!(answered.fetched > 60);
        let frame = (answered.encode)(throttle).unwrap();
        let (_, answer): (_, FetchResponse) =
            header::decode_response(12, frame.into_bytes().slice(4..)).unwrap();
        (answer.throttle_time_ms, answer.responses.len())
    };
    let time = Duration::from_micros(1500);
    assert_eq!(fetched(Throttle::default()), (0, 1));
    assert_eq!(
        fetched(Throttle {
            time,
            withholds: false
        }),
        (2, 1)
    );
    assert_eq!(
        fetched(Throttle {
            time,
            withholds: true
        }),
        (2, 0)
    );
}

#[test]
fn scram_users_are_altered_and_described_without_keys() {
    let mut bench = bench(&[]);
    let upsert = |name: &'static str, iterations| alter_scram::ScramCredentialUpsertion {
        name: name.into(),
        mechanism: 1,
        iterations,
        salt: Bytes::from_static(b"salt"),
        salted_password: Bytes::from_static(&[7; 32]),
        ..Default::default()
    };
    let delete = |name: &'static str| alter_scram::ScramCredentialDeletion {
        name: name.into(),
        mechanism: 2,
        ..Default::default()
    };
    let request = AlterUserScramCredentialsRequest {
        deletions: vec![delete("nobody")],
        upsertions: vec![
            upsert("dora", 4096),
            upsert("few", 4095),
            upsert("many", 16_385),
            upsert("twice", 4096),
            upsert("twice", 4096),
        ],
        ..Default::default()
    };
    let codes = |answer: AlterUserScramCredentialsResponse| -> Vec<(String, i16)> {
        answer
            .results
            .iter()
            .map(|result| (result.user.to_string(), result.error_code))
            .collect()
    };
    let bad = ErrorCode::UNACCEPTABLE_CREDENTIAL.0;
    let expected = [
        ("nobody", ErrorCode::RESOURCE_NOT_FOUND.0),
        ("dora", 0),
        ("few", bad),
        ("many", bad),
        ("twice", ErrorCode::DUPLICATE_RESOURCE.0),
    ];
    assert_eq!(
        codes(bench.ask(&request, 0)),
        expected.map(|(name, code)| (name.to_owned(), code))
    );
    let described = bench.ask(&DescribeUserScramCredentialsRequest::default(), 0);
    assert_eq!(described.results.len(), 1);
    let info = &described.results[0].credential_infos[0];
    assert_eq!(
        (&*described.results[0].user, info.mechanism, info.iterations),
        ("dora", 1, 4096)
    );
    bench.be("bob");
    assert!(
        codes(bench.ask(&request, 0))
            .iter()
            .all(|(_, code)| *code == CLUSTER_DENIED)
    );
}
