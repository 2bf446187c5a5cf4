//! Subscriptions to client metrics (KIP-714): who may change them, and what clients are asked for.

use ottla_protocol::messages::describe_configs_request::DescribeConfigsResource;
use ottla_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use ottla_protocol::messages::list_config_resources_response::ConfigResource;
use ottla_protocol::messages::{alter_configs_request, describe_configs_response};

use super::*;

const CLIENT_METRICS: i8 = 16;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

fn change(name: &str, rows: &[(i8, &str, Option<&str>)]) -> IncrementalAlterConfigsRequest {
    let row = |(operation, name, value): &(i8, &str, Option<&str>)| AlterableConfig {
        name: (*name).into(),
        config_operation: *operation,
        value: value.map(Into::into),
        ..Default::default()
    };
    IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: CLIENT_METRICS,
            resource_name: name.into(),
            configs: rows.iter().map(row).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn replacement(name: &str, rows: &[(&str, &str)]) -> AlterConfigsRequest {
    let row = |(name, value): &(&str, &str)| alter_configs_request::AlterableConfig {
        name: (*name).into(),
        value: Some((*value).into()),
        ..Default::default()
    };
    AlterConfigsRequest {
        resources: vec![alter_configs_request::AlterConfigsResource {
            resource_type: CLIENT_METRICS,
            resource_name: name.into(),
            configs: rows.iter().map(row).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn description(name: &str) -> DescribeConfigsRequest {
    DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: CLIENT_METRICS,
            resource_name: name.into(),
            ..Default::default()
        }],
        include_synonyms: true,
        ..Default::default()
    }
}

impl Bench {
    fn change(&self, name: &str, rows: &[(i8, &str, Option<&str>)]) -> ErrorCode {
        let answer = self.ask(&change(name, rows), 1);
        ErrorCode(answer.responses[0].error_code)
    }

    /// Replaces what is set for a subscription.
    fn subscribe(&self, name: &str, rows: &[(&str, &str)]) {
        let answer = self.ask(&replacement(name, rows), 2);
        assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
    }

    fn described(&self, name: &str) -> describe_configs_response::DescribeConfigsResult {
        self.ask(&description(name), 4).results.remove(0)
    }

    /// The value, source and number of synonyms of each configuration.
    fn configs(&self, name: &str) -> Vec<(String, String, i8, usize)> {
        let result = self.described(name);
        assert_eq!(result.error_code, 0);
        let rows = result.configs.into_iter();
        rows.map(|row| {
            assert!(!row.read_only);
            let value = row.value.as_deref().unwrap_or("-").to_owned();
            (
                row.name.to_string(),
                value,
                row.config_source,
                row.synonyms.len(),
            )
        })
        .collect()
    }

    fn listed(&self, version: i16) -> Vec<String> {
        let request = ListConfigResourcesRequest::default();
        let found = self.ask(&request, version).config_resources.into_iter();
        let of_metrics = |row: &ConfigResource| version == 0 || row.resource_type == CLIENT_METRICS;
        found
            .filter(of_metrics)
            .map(|row| row.resource_name.to_string())
            .collect()
    }

    fn welcome(&self, id: Uuid) -> GetTelemetrySubscriptionsResponse {
        let request = GetTelemetrySubscriptionsRequest {
            client_instance_id: id,
            ..Default::default()
        };
        self.ask(&request, 0)
    }

    /// The metrics that this client is asked for.
    fn asked_for(&self) -> Vec<Str> {
        self.welcome(Uuid::ZERO).requested_metrics
    }
}

fn row(name: &str, value: &str, source: i8, synonyms: usize) -> (String, String, i8, usize) {
    (name.to_owned(), value.to_owned(), source, synonyms)
}

#[test]
fn a_subscription_is_set_described_listed_and_gone_without_configurations() {
    let bench = Bench::new(&[]);
    let default = [
        row("interval.ms", "300000", 5, 0),
        row("match", "", 5, 0),
        row("metrics", "", 5, 0),
    ];
    assert_eq!(bench.configs("s"), default);
    let done = ErrorCode::NONE;
    assert_eq!(bench.change("s", &[]), done);
    assert_eq!(bench.listed(1), [""; 0]);
    let rows = [
        (SET, "metrics", Some("a, b")),
        (SET, "match", Some("client_id=m.*")),
    ];
    assert_eq!(bench.change("s", &rows), done);
    let set = [
        row("interval.ms", "300000", 5, 0),
        row("match", "client_id=m.*", 7, 1),
        row("metrics", "a,b", 7, 1),
    ];
    assert_eq!(bench.configs("s"), set);
    assert_eq!(
        (bench.listed(0), bench.listed(1)),
        (vec!["s".to_owned()], vec!["s".to_owned()])
    );
    bench.subscribe("s", &[("interval.ms", "100")]);
    assert_eq!(bench.configs("s")[0], row("interval.ms", "100", 7, 1));
    assert_eq!(bench.configs("s")[2], default[2]);
    assert_eq!(bench.change("s", &[(DELETE, "interval.ms", None)]), done);
    assert_eq!(bench.listed(1), [""; 0]);
    bench.subscribe("s", &[("metrics", "")]);
    assert_eq!(bench.listed(1), ["s"]);
    bench.subscribe("s", &[]);
    assert_eq!(bench.listed(1), [""; 0]);
}

#[test]
fn what_kafka_refuses_is_refused_and_changes_nothing() {
    let bench = Bench::new(&[]);
    let (request, config) = (ErrorCode::INVALID_REQUEST, ErrorCode::INVALID_CONFIG);
    let mut checked = change("s", &[(SET, "metrics", Some("a"))]);
    checked.validate_only = true;
    assert_eq!(bench.ask(&checked, 1).responses[0].error_code, 0);
    assert_eq!(bench.change("s", &[(SET, "metrics", None)]), request);
    assert_eq!(
        bench.change("s", &[(SET, "interval.ms", Some("99"))]),
        request
    );
    assert_eq!(bench.change("s", &[(SET, "other", Some("1"))]), request);
    assert_eq!(
        bench.change("s", &[(SET, "match", Some("client_id"))]),
        config
    );
    assert_eq!(bench.change("s", &[(APPEND, "metrics", Some("a"))]), config);
    assert_eq!(bench.change("s", &[(9, "metrics", Some("a"))]), request);
    assert_eq!(bench.change("", &[(SET, "metrics", Some("a"))]), request);
    let twice = [(SET, "metrics", Some("a")), (DELETE, "metrics", None)];
    assert_eq!(bench.change("s", &twice), request);
    let nameless = bench.ask(&replacement("", &[("metrics", "a")]), 2);
    assert_eq!(nameless.responses[0].error_code, request.0);
    assert_eq!(bench.described("").error_code, request.0);
    assert_eq!(bench.listed(1), [""; 0]);
    assert!(!bench.core.asks_for_metrics());
}

#[test]
fn subscriptions_are_the_clusters() {
    let security = SecuritySettings {
        acls: Some(vec!["alice describe-configs cluster".to_owned()]),
        ..SecuritySettings::default()
    };
    let mut bench = Bench::secured(&[], security);
    let denied = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
    for name in ["alice", "bob"] {
        bench.client = client(Principal(name.into()));
        assert_eq!(bench.change("s", &[(SET, "metrics", Some("a"))]), denied);
        let replaced = bench.ask(&replacement("s", &[]), 2);
        assert_eq!(replaced.responses[0].error_code, denied.0);
    }
    assert_eq!(bench.described("s").error_code, denied.0);
    bench.client = client(Principal("alice".into()));
    assert_eq!(bench.described("s").error_code, 0);
}

#[test]
fn clients_are_asked_for_what_the_matching_subscriptions_want() {
    let mut bench = Bench::new(&[]);
    bench.subscribe("all", &[("metrics", "a."), ("interval.ms", "60000")]);
    bench.subscribe("me", &[("metrics", "b.,a."), ("match", "client_id=me")]);
    bench.subscribe("you", &[("metrics", "c."), ("match", "client_id=you")]);
    let found = bench.welcome(Uuid::ZERO);
    assert_eq!(found.requested_metrics, ["a.", "b."]);
    assert_eq!(found.push_interval_ms, 60_000);
    for (criterion, matches) in [
        ("client_software_name=unknown", true),
        ("client_software_name=sim.*", false),
        ("client_source_address=127\\.0\\.0\\.1", true),
        ("client_source_port=50000", true),
        ("client_source_port=5", false),
        ("client_instance_id=.{22}", true),
        ("client_instance_id=AAAAAAAAAAAAAAAAAAAAAA", false),
    ] {
        bench.subscribe("you", &[("metrics", "c."), ("match", criterion)]);
        let is_asked = bench.asked_for().iter().any(|metric| *metric == *"c.");
        assert_eq!(is_asked, matches, "{criterion}");
    }
    let name = ApiVersionsRequest {
        client_software_name: "simple".into(),
        client_software_version: "1.5".into(),
        ..Default::default()
    };
    bench.ask(&name, 4);
    let criteria = "client_software_name=sim.*,client_software_version=1\\.[0-9]";
    bench.subscribe("you", &[("metrics", "c."), ("match", criteria)]);
    assert_eq!(bench.asked_for(), ["a.", "b.", "c."]);
    // Older versions of the request have no name.
    bench.client = client(Principal::anonymous());
    bench.ask(&ApiVersionsRequest::default(), 2);
    assert_eq!(bench.asked_for(), ["a.", "b."]);
}

#[test]
fn the_apis_are_named_once_there_was_a_subscription() {
    let bench = Bench::new(&[]);
    let named = || {
        let answer = bench.ask(&ApiVersionsRequest::default(), 0);
        let keys = answer.api_keys.iter().map(|row| row.api_key);
        keys.filter(|key| [71, 72].contains(key)).count()
    };
    assert_eq!(named(), 0);
    bench.subscribe("s", &[("metrics", "a.")]);
    assert_eq!(named(), 2);
    bench.subscribe("s", &[]);
    assert_eq!(named(), 2);
    let found = bench.welcome(Uuid::ZERO);
    assert_eq!(found.error_code, 0);
    assert_eq!(
        (found.requested_metrics.len(), found.push_interval_ms),
        (0, 300_000)
    );
}

#[test]
fn a_change_makes_the_id_of_the_subscription_unknown() {
    let mut bench = Bench::new(&[]);
    bench.subscribe("s", &[("metrics", "a."), ("interval.ms", "1000")]);
    let first = bench.welcome(Uuid::ZERO);
    let push = |bench: &Bench, subscription_id| {
        let request = PushTelemetryRequest {
            client_instance_id: first.client_instance_id,
            subscription_id,
            metrics: Bytes::from_static(b"metrics"),
            ..Default::default()
        };
        ErrorCode(bench.ask(&request, 0).error_code)
    };
    let unknown = ErrorCode::UNKNOWN_SUBSCRIPTION_ID;
    let early = ErrorCode::THROTTLING_QUOTA_EXCEEDED;
    assert_eq!(push(&bench, first.subscription_id), ErrorCode::NONE);
    assert_eq!(push(&bench, first.subscription_id), early);
    // Of the subscriptions of others it learns nothing.
    bench.subscribe("other", &[("metrics", "b."), ("match", "client_id=you")]);
    assert_eq!(push(&bench, first.subscription_id), early);
    // It learns of a change of its own at once.
    bench.subscribe("s", &[("metrics", "a."), ("interval.ms", "2000")]);
    assert_eq!(push(&bench, first.subscription_id), unknown);
    let second = bench.welcome(first.client_instance_id);
    assert_ne!(second.subscription_id, first.subscription_id);
    assert_eq!(push(&bench, second.subscription_id), early);
    bench.now.instant += Duration::from_secs(2);
    assert_eq!(push(&bench, second.subscription_id), ErrorCode::NONE);
    bench.subscribe("s", &[]);
    assert_eq!(push(&bench, second.subscription_id), unknown);
    assert_eq!(bench.core.pushes.lock().all().len(), 2);
}

#[test]
fn the_brokers_own_metrics_stay_beside_subscriptions() {
    let bench = Bench::new(&[
        ("telemetry.metrics", "own."),
        ("telemetry.interval.ms", "9000"),
    ]);
    bench.subscribe("s", &[("metrics", "a.")]);
    let found = bench.welcome(Uuid::ZERO);
    assert_eq!(found.requested_metrics, ["own.", "a."]);
    assert_eq!(found.push_interval_ms, 9000);
    bench.subscribe("s", &[("metrics", "*"), ("interval.ms", "500")]);
    let found = bench.welcome(Uuid::ZERO);
    assert_eq!(
        (found.requested_metrics, found.push_interval_ms),
        (vec!["*".into()], 500)
    );
    bench.subscribe("s", &[]);
    assert_eq!(bench.asked_for(), ["own."]);
}
