//! DescribeConfigs, versions 0 to 4: topics, groups, subscriptions to client metrics and this broker.

use ottla_protocol::messages::describe_configs_request::DescribeConfigsResource;
use ottla_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use ottla_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::config_changes::{CLIENT_METRICS, GROUP, TOPIC};
use super::{Api, Cx, Outcome};
use crate::config::subscription_keys::SUBSCRIPTION_KEYS;
use crate::config::{ConfigSource, Key, ValueType};
use crate::security::acl::{Operation, Resource};

const BROKER: i8 = 4;

impl Api for DescribeConfigsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 4 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeConfigsResponse> {
        let results = self
            .resources
            .iter()
            .map(|resource| match describe(cx, &self, resource) {
                Ok(configs) => DescribeConfigsResult {
                    configs,
                    ..result(resource)
                },
                Err((code, message)) => refused(resource, code, message),
            });
        Outcome::Answer(DescribeConfigsResponse {
            results: results.collect(),
            ..Default::default()
        })
    }
}

fn describe(
    cx: &Cx<'_>,
    request: &DescribeConfigsRequest,
    resource: &DescribeConfigsResource,
) -> Result<Vec<DescribeConfigsResourceResult>, (ErrorCode, String)> {
    let settings = &cx.core.settings;
    let name = &*resource.resource_name;
    let shown = |(key, value, source)| row(cx.version, request, key, value, source, None);
    let inherited = |key: &Key| settings.inherited(key.name, resource.resource_type == GROUP);
    let wanted = |key: &Key| {
        let keys = resource.configuration_keys.as_ref();
        keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|wanted| **wanted == *key.name))
    };
    let allowed = match resource.resource_type {
        TOPIC => cx.check(Operation::DescribeConfigs, Resource::topic(name)),
        GROUP => cx.check(Operation::DescribeConfigs, Resource::group(name)),
        _ => cx.check(Operation::DescribeConfigs, Resource::CLUSTER),
    };
    allowed.map_err(|code| (code, code.name().to_owned()))?;
    match resource.resource_type {
        TOPIC => {
            let missing = |code| (code, format!("there is no topic \"{name}\""));
            let topic = cx.core.topic(name).map_err(missing)?;
            Ok(settings
                .topic_rows(&topic.values)
                .filter(|(key, ..)| wanted(key))
                .map(|(key, value, source)| DescribeConfigsResourceResult {
                    read_only: false,
                    ..row(cx.version, request, key, value, source, inherited(key))
                })
                .collect())
        }
        GROUP => {
            let own = cx.core.group_settings.of(name);
            let rows = settings.group_rows(&own).filter(|(key, ..)| wanted(key));
            let rows = rows.map(|(key, value, source)| DescribeConfigsResourceResult {
                read_only: false,
                ..row(cx.version, request, key, &value, source, inherited(key))
            });
            Ok(rows.collect())
        }
        CLIENT_METRICS if name.is_empty() => Err((
            ErrorCode::INVALID_REQUEST,
            "a subscription to client metrics must have a name".to_owned(),
        )),
        CLIENT_METRICS => {
            let set = cx.core.subscriptions.configs(name);
            let keys = SUBSCRIPTION_KEYS.iter().filter(|key| wanted(key));
            let rows = keys.map(|key| {
                let (value, source) = match set.get(key.name) {
                    Some(value) => (value.as_str(), ConfigSource::ClientMetrics),
                    None => (key.default, ConfigSource::Default),
                };
                let mut row = row(cx.version, request, key, value, source, None);
                row.read_only = false;
                // Of these Kafka counts no default among the synonyms.
                row.synonyms
                    .retain(|synonym| synonym.source != ConfigSource::Default as i8);
                row
            });
            Ok(rows.collect())
        }
        // No name: the defaults of all brokers, of which none were changed.
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER if name == cx.core.node.to_string() => Ok(settings
            .broker_rows()
            .filter(|(key, ..)| wanted(key))
            .map(shown)
            .collect()),
        BROKER => Err((
            ErrorCode::INVALID_REQUEST,
            format!("this is broker {}, not \"{name}\"", cx.core.node),
        )),
        other => Err((
            ErrorCode::INVALID_REQUEST,
            format!("resources of type {other} have no settings here"),
        )),
    }
}

fn row(
    version: i16,
    request: &DescribeConfigsRequest,
    key: &Key,
    value: &str,
    source: ConfigSource,
    inherited: Option<(&'static str, Option<&str>, &'static str)>,
) -> DescribeConfigsResourceResult {
    let synonym = |name, value: &str, source: ConfigSource| DescribeConfigsSynonym {
        name: Str::from_static(name),
        value: Some(value.into()),
        source: source as i8,
        ..Default::default()
    };
    let mut synonyms = Vec::new();
    if request.include_synonyms {
        let (name, set, default) = inherited.unwrap_or((key.name, None, key.default));
        let is_own = inherited.is_none() || source != ConfigSource::Broker;
        if is_own && source != ConfigSource::Default {
            synonyms.push(synonym(key.name, value, source));
        }
        if let Some(set) = set {
            synonyms.push(synonym(name, set, ConfigSource::Broker));
        }
        synonyms.push(synonym(name, default, ConfigSource::Default));
    }
    DescribeConfigsResourceResult {
        name: Str::from_static(key.name),
        value: Some(value.into()),
        read_only: true,
        is_default: version == 0 && source == ConfigSource::Default,
        config_source: source as i8,
        synonyms,
        config_type: if version >= 3 {
            config_type(key.kind)
        } else {
            0
        },
        documentation: if request.include_documentation {
            Some(Str::from_static(key.doc))
        } else {
            None
        },
        ..Default::default()
    }
}

/// DescribeConfigs' numbers for types (KIP-569).
fn config_type(kind: ValueType) -> i8 {
    match kind {
        ValueType::Bool => 1,
        ValueType::OneOf(_) | ValueType::Reset | ValueType::Text => 2,
        ValueType::Int(_, most) if most <= i64::from(i32::MAX) => 3,
        ValueType::Int(..) => 5,
        ValueType::Ratio => 6,
        ValueType::ListOf(_) | ValueType::Items => 7,
    }
}

fn result(resource: &DescribeConfigsResource) -> DescribeConfigsResult {
    DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        ..Default::default()
    }
}

fn refused(
    resource: &DescribeConfigsResource,
    code: ErrorCode,
    message: String,
) -> DescribeConfigsResult {
    DescribeConfigsResult {
        error_code: code.0,
        error_message: Some(message.into()),
        ..result(resource)
    }
}
