//! What brokers of each age say of the cluster.

use ottla_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use ottla_protocol::messages::metadata_response::MetadataResponseBroker;
use ottla_protocol::messages::{DescribeClusterResponse, MetadataResponse};

use super::groups::speaking;
use super::*;
use crate::metadata::Metadata;

#[test]
fn a_cluster_is_described_with_its_fenced_brokers() {
    let mut script = admin(&[]);
    let call = DescribeCluster {
        operations: true,
        fenced: true,
    };
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    let Request::DescribeCluster(request) = &asked[0].request else {
        panic!("{asked:?}")
    };
    assert!(request.include_cluster_authorized_operations && request.include_fenced_brokers);
    assert_eq!((request.endpoint_type, asked[0].version), (1, 2));
    let brokers = [(2, true), (1, false)].map(|(broker_id, is_fenced)| DescribeClusterBroker {
        broker_id,
        is_fenced,
        ..Default::default()
    });
    let answer = DescribeClusterResponse {
        cluster_id: "c".into(),
        brokers: brokers.to_vec(),
        cluster_authorized_operations: 1 << 8,
        ..Default::default()
    };
    script.answer(&asked[0], Response::DescribeCluster(answer));
    let found = script.engine.take_answer(&id).unwrap().unwrap();
    assert_eq!(found.cluster_id.as_deref(), Some("c"));
    assert_eq!(
        (&found.controller, found.authorized_operations),
        (&None, Some(1 << 8))
    );
    let nodes: Vec<_> = found.nodes.iter().map(|it| (it.id, it.is_fenced)).collect();
    assert_eq!(nodes, [(1, false), (2, true)]);
}

#[test]
fn brokers_that_do_not_list_fenced_ones_are_not_asked_for_them() {
    let mut script = admin(&[]);
    script.versions = speaking(&[(ApiKey::DescribeCluster, 1)]);
    let call = DescribeCluster {
        operations: false,
        fenced: true,
    };
    let id = ask(&mut script, call, 10);
    let asked = script.run();
    let is_asked = |each: &script::Asked| matches!(each.request, Request::DescribeCluster(_));
    assert!(!asked.iter().any(is_asked), "{asked:?}");
    let error = script.engine.take_answer(&id).unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
}

/// Only Metadata 8 to 10 has the field: a request of another version cannot be encoded with it.
#[test]
fn operations_are_requested_where_metadata_has_them() {
    let (view, config) = (Metadata::default(), config(Role::Admin, &[]));
    for (version, has_them) in [(7, false), (8, true), (10, true), (11, false), (13, false)] {
        let about = About {
            version,
            view: &view,
            config: &config,
            timeout_ms: 0,
        };
        let call = ClusterMetadata { operations: true };
        let Request::Metadata(request) = call.request(&[0], &about) else {
            panic!("another API")
        };
        assert_eq!(request.include_cluster_authorized_operations, has_them);
        assert_eq!(request.topics, Some(Vec::new()));
    }
}

#[test]
fn brokers_of_any_age_are_described_by_their_metadata() {
    let answer = MetadataResponse {
        controller_id: 2,
        brokers: [2, 1]
            .map(|node_id| MetadataResponseBroker {
                node_id,
                ..Default::default()
            })
            .to_vec(),
        ..Default::default()
    };
    let call = ClusterMetadata { operations: false };
    let [Ok(found)] = &call.take(&[], Response::Metadata(answer))[..] else {
        panic!("one cluster")
    };
    let nodes: Vec<_> = found.nodes.iter().map(|it| (it.id, it.is_fenced)).collect();
    assert_eq!(nodes, [(1, false), (2, false)]);
    assert_eq!(
        (&found.cluster_id, found.authorized_operations),
        (&None, None)
    );
    assert_eq!(found.controller.as_ref(), found.nodes.last());
}
