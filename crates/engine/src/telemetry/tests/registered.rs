//! Metrics of the program that are pushed with the client's own (KIP-1076).

use std::sync::Arc;

use super::*;
use crate::metrics::{AppMetric, Kind as Value};
use crate::observe::Observed;

/// The time of day at which the script begins, in ns.
const BEGUN_NS: u64 = 1_000_000_000;
const NAME: &str = "org.apache.kafka.shop.orders.total";

fn metric(name: &str, group: &str, tags: &[(&str, &str)], kind: Value) -> Arc<AppMetric> {
    let tags = tags.iter();
    let tags = tags.map(|(tag, value)| ((*tag).to_owned(), (*value).to_owned()));
    Arc::new(AppMetric::new(name, group, tags, kind).unwrap())
}

fn counter() -> Arc<AppMetric> {
    metric("orders-total", "shop-metrics", &[], Value::Total)
}

/// A subscription of these metrics, with totals as growth if `delta`.
fn of(prefix: &'static str, delta: bool) -> GetTelemetrySubscriptionsResponse {
    GetTelemetrySubscriptionsResponse {
        requested_metrics: vec![Str::from_static(prefix)],
        delta_temporality: delta,
        ..wanted()
    }
}

/// A client that pushes these metrics, and its first push.
fn pushed_with(
    subscription: GetTelemetrySubscriptionsResponse,
    metrics: &[Arc<AppMetric>],
) -> (Client, Asked) {
    let (mut script, question) = asked(&[]);
    for metric in metrics {
        script
            .engine
            .register_metric(script.now, Arc::clone(metric));
    }
    answer(&mut script, &question, subscription);
    let push = one(script.pass(15 * SECOND));
    (script, push)
}

/// The push that follows when this one got its response.
fn next(script: &mut Client, before: &Asked) -> Asked {
    answer_push(script, before, ErrorCode::NONE);
    one(script.pass(10 * SECOND))
}

/// When counting of a total without tags began, in ns.
fn begun(push: &PushTelemetryRequest) -> u64 {
    let at = |window: &[u8]| window == NAME.as_bytes();
    let at = push.metrics.windows(NAME.len()).position(at).unwrap();
    let point = &push.metrics[at + NAME.len() + 4..];
    assert_eq!((point[0], point[9]), (0x11, 0x19));
    u64::from_le_bytes(point[1..9].try_into().unwrap())
}

#[test]
fn they_are_pushed_with_the_clients_own_under_names_of_kip_714() {
    let open = metric(
        "Orders-Open",
        "Shop-Metrics",
        &[("Sales-Region", "EU"), ("client-id", "none")],
        Value::Gauge,
    );
    open.set(7.25).unwrap();
    let (_, first) = pushed_with(wanted(), &[open]);
    let metrics = &push(&first).metrics;
    assert!(has(metrics, "org.apache.kafka.shop.orders.open"));
    assert!(has(metrics, "sales_region") && has(metrics, "EU"));
    assert!(!has(metrics, "client_id"), "brokers know it");
    let value = 7.25f64.to_bits().to_le_bytes();
    assert!(metrics.windows(8).any(|window| window == value));
    assert!(has(
        metrics,
        "org.apache.kafka.admin.client.connection.count"
    ));
}

#[test]
fn only_those_that_are_wanted_are_pushed_and_only_numbers() {
    let one = metric("one", "shop", &[], Value::Gauge);
    let two = metric("two", "shop", &[], Value::Gauge);
    let none = metric("one-none", "shop", &[], Value::Gauge);
    none.set(f64::NAN).unwrap();
    let (_, first) = pushed_with(of("org.apache.kafka.shop.one", false), &[one, two, none]);
    let metrics = &push(&first).metrics;
    assert!(has(metrics, "kafka.shop.one"));
    assert!(!has(metrics, "shop.two") && !has(metrics, "one.none"));
    assert!(!has(metrics, "connection.count"));
}

#[test]
fn a_metric_of_the_client_itself_is_not_replaced_and_a_warning_says_so() {
    let own = "org.apache.kafka.admin.client.node.request.total";
    let tagged = |tags| {
        metric(
            "request-total",
            "admin-client-node-metrics",
            tags,
            Value::Gauge,
        )
    };
    let (mut script, question) = asked(&[]);
    while script.engine.observer().poll().is_some() {}
    for tags in [
        &[("node-id", "other")][..],
        &[("client-id", "c"), ("NODE_ID", "x")],
    ] {
        let metric = tagged(tags);
        script
            .engine
            .register_metric(script.now, Arc::clone(&metric));
        let name = own.to_owned();
        let event = script.engine.observer().poll();
        assert_eq!(event, Some(Observed::MetricIgnored { name }));
        script.engine.unregister_metric(&metric);
    }
    // With other tags it is another metric, also where its kind is another.
    script
        .engine
        .register_metric(script.now, tagged(&[("shop", "x")]));
    assert_eq!(script.engine.observer().poll(), None);
    answer(&mut script, &question, of("org.apache.kafka.admin", false));
    let first = one(script.pass(15 * SECOND));
    let metrics = &push(&first).metrics;
    assert!(has(metrics, "shop") && !has(metrics, "other"));
    let named = metrics
        .windows(own.len())
        .filter(|window| *window == own.as_bytes());
    assert_eq!(named.count(), 2, "a sum and a gauge");
}

#[test]
fn one_of_the_same_name_is_replaced_and_one_that_is_removed_is_gone() {
    let before = counter();
    before.add(5.0).unwrap();
    let (mut script, first) = pushed_with(of("org.apache.kafka.shop", false), &[before]);
    assert_eq!(total(push(&first), NAME), 5.0);
    assert_eq!(begun(push(&first)), BEGUN_NS);

    // Brokers get the same name as before.
    let after = metric("ORDERS-total", "shop", &[], Value::Total);
    after.add(1.0).unwrap();
    script.engine.register_metric(script.now, after);
    let second = next(&mut script, &first);
    assert_eq!(total(push(&second), NAME), 1.0);
    assert!(begun(push(&second)) > BEGUN_NS, "when it was registered");

    script.engine.unregister_metric(&counter());
    script.engine.unregister_metric(&counter());
    let third = next(&mut script, &second);
    assert!(!has(&push(&third).metrics, NAME));
}

#[test]
fn growth_is_told_once_also_of_a_metric_that_is_registered_twice() {
    let orders = counter();
    orders.add(5.0).unwrap();
    let delta = of("org.apache.kafka.shop", true);
    let (mut script, first) = pushed_with(delta, &[Arc::clone(&orders)]);
    assert_eq!(total(push(&first), NAME), 5.0);
    assert_eq!(begun(push(&first)), BEGUN_NS);
    orders.add(2.0).unwrap();
    script
        .engine
        .register_metric(script.now, Arc::clone(&orders));
    let second = next(&mut script, &first);
    assert_eq!(total(push(&second), NAME), 2.0);
    let third = next(&mut script, &second);
    assert_eq!(total(push(&third), NAME), 0.0);
    assert!(begun(push(&third)) > begun(push(&second)));
}

#[test]
fn the_growth_of_a_metric_has_nothing_of_the_one_that_it_replaces() {
    let before = counter();
    before.add(5.0).unwrap();
    let (mut script, first) = pushed_with(of("org.apache.kafka.shop", true), &[before]);
    // The response to the push of the first one is still to come.
    let after = counter();
    after.add(1.0).unwrap();
    script.engine.register_metric(script.now, after);
    let second = next(&mut script, &first);
    assert_eq!(total(push(&second), NAME), 1.0);

    script.engine.unregister_metric(&counter());
    let again = counter();
    again.add(0.5).unwrap();
    script.engine.register_metric(script.now, again);
    let third = next(&mut script, &second);
    assert_eq!(total(push(&third), NAME), 0.5);
}

#[test]
fn the_last_push_has_their_last_values() {
    let orders = counter();
    let subscription = of("org.apache.kafka.shop", false);
    let (mut script, first) = pushed_with(subscription, &[Arc::clone(&orders)]);
    answer_push(&mut script, &first, ErrorCode::NONE);
    orders.add(3.0).unwrap();
    assert!(script.engine.take_leave(script.now));
    let last = one(script.run());
    assert!(push(&last).terminating);
    assert_eq!(total(push(&last), NAME), 3.0);
}
