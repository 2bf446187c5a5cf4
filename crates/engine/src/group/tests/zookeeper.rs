//! A group whose offsets are kept in ZooKeeper: `offsets.storage=zookeeper`.

use ottla_protocol::messages::ApiVersionsResponse;
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::offset_fetch_response::{
    OffsetFetchResponsePartition, OffsetFetchResponseTopic,
};

use super::*;
use crate::api::Versions;
use crate::consumer::{CommitId, Start};
use crate::release::Era;

const STORED: &[(&str, &str)] = &[
    ("group.id", "g"),
    ("offsets.storage", "zookeeper"),
    ("auto.offset.reset", "none"),
];

/// A consumer of both partitions of `t`, of brokers that speak these versions.
fn reader(pairs: &[(&'static str, &'static str)], versions: Versions) -> Member {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, pairs), 7));
    script.versions = versions;
    let now = script.now;
    let partitions = [0, 1].map(|number| (Arc::from("t"), number, Start::Reset));
    script.engine.assign(now, partitions).unwrap();
    script
}

/// An offset to commit, without metadata.
fn at(at: i64) -> GroupOffset {
    GroupOffset {
        metadata: "".into(),
        ..offset(at)
    }
}

fn commit(script: &mut Member, offset: GroupOffset) -> Result<CommitId, crate::error::Error> {
    let now = script.now;
    let deadline = now + Duration::from_secs(9);
    script.engine.commit(now, vec![offset], deadline, true)
}

/// What is asked about offsets; a coordinator is not looked for.
fn about_offsets(script: &mut Member) -> Vec<Asked> {
    let mut all = script.run();
    let looks = |asked: &Asked| matches!(asked.request, Request::FindCoordinator(_));
    assert!(!all.iter().any(looks), "{all:?}");
    all.retain(|asked| {
        matches!(
            asked.request,
            Request::OffsetFetch(_) | Request::OffsetCommit(_)
        )
    });
    all
}

/// Respond to an OffsetFetch: partition 0 has this offset, partition 1 has the error of a broker
/// that finds no offset.
fn tell_found(script: &mut Member, fetch: &Asked, offset: i64) {
    let Request::OffsetFetch(request) = &fetch.request else {
        panic!("{fetch:?}")
    };
    assert_eq!((fetch.version, &*request.groups[0].group_id), (0, "g"));
    let row = |partition_index, committed_offset, code: ErrorCode| OffsetFetchResponsePartition {
        partition_index,
        committed_offset,
        error_code: code.0,
        ..Default::default()
    };
    let topic = OffsetFetchResponseTopic {
        name: "t".into(),
        partitions: vec![
            row(0, offset, ErrorCode::NONE),
            row(1, -1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ],
        ..Default::default()
    };
    let answer = OffsetFetchResponse {
        topics: vec![topic],
        ..Default::default()
    };
    script.answer(fetch, Response::OffsetFetch(answer));
}

#[test]
fn any_broker_is_asked_by_version_0_and_no_coordinator() {
    for versions in [Versions::of(Era::V0_8), crate::script::versions()] {
        let mut script = reader(STORED, versions);
        let fetch = only(about_offsets(&mut script));
        tell_found(&mut script, &fetch, 41);
        script.run();
        assert_eq!(script.engine.position("t", 0), Ok(Some(41)));
        let error = script.engine.position("t", 1).unwrap_err();
        assert!(error.message().contains("auto.offset.reset"), "{error}");

        let id = commit(&mut script, at(42)).unwrap();
        let sent = only(about_offsets(&mut script));
        assert_eq!(sent.version, 0);
        let Request::OffsetCommit(request) = &sent.request else {
            panic!("{sent:?}")
        };
        assert_eq!(request.topics[0].partitions[0].committed_offset, 42);
        answer_commit(&mut script, &sent, ErrorCode::NONE);
        assert_eq!(script.engine.take_commit(id), Some(Ok(())));
    }
}

#[test]
fn without_the_property_no_broker_is_asked_by_version_0() {
    let mut script = reader(&[("group.id", "g")], Versions::of(Era::V0_8));
    let fetch = only(asked(&mut script));
    assert!(matches!(fetch.request, Request::OffsetFetch(_)));
    assert_eq!(fetch.version, 1);
    commit(&mut script, at(42)).unwrap();
    let sent = only(asked(&mut script));
    assert!(matches!(sent.request, Request::OffsetCommit(_)));
    assert_eq!(sent.version, 1);
}

#[test]
fn what_zookeeper_does_not_keep_is_refused() {
    let mut script = reader(STORED, Versions::of(Era::V0_8));
    let error = commit(&mut script, offset(42)).unwrap_err();
    assert_eq!(error.kind(), Kind::Argument);
    assert!(error.message().contains("no metadata"), "{error}");

    let mut script = Script::new(Engine::consumer(config(Role::Consumer, STORED), 7));
    let now = script.now;
    let names = Selection::Names(BTreeSet::from([Arc::from("t")]));
    let error = script.engine.subscribe(now, names).unwrap_err();
    assert_eq!(error.kind(), Kind::Argument);
    assert!(error.message().contains("assign partitions"), "{error}");
}

#[test]
fn brokers_without_zookeeper_are_named() {
    let row = |&(api, max_version): &(ottla_protocol::ApiKey, i16)| ApiVersion {
        api_key: api.as_i16(),
        // As of brokers since 4.0.
        min_version: i16::from(api == ottla_protocol::ApiKey::OffsetCommit) * 2,
        max_version,
        ..Default::default()
    };
    let newer = Versions::new(&ApiVersionsResponse {
        api_keys: crate::api::HIGHEST.iter().map(row).collect(),
        ..Default::default()
    });
    let mut script = reader(STORED, newer);
    about_offsets(&mut script);
    let id = commit(&mut script, at(42)).unwrap();
    assert!(about_offsets(&mut script).is_empty());
    let error = script.engine.take_commit(id).unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    let said = error.message();
    assert!(
        said.starts_with("offsets.storage=zookeeper needs"),
        "{said}"
    );
}
