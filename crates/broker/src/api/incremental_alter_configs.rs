//! IncrementalAlterConfigs, versions 0 and 1 (KIP-339): of the settings of topics, groups and subscriptions to client
//! metrics (KIP-714). Those of brokers stay as they are.

use std::collections::BTreeMap;

use ottla_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use ottla_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use ottla_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::config_changes::{CLIENT_METRICS, GROUP, Rejected, TOPIC, repeated};
use super::{Api, Cx, Outcome};
use crate::config::{TOPIC_KEYS, ValueType, Values, group_key};
use crate::group::OwnSettings;
use crate::security::acl::{Operation, Resource};
use crate::telemetry::Subscription;
use crate::topics::check_name;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

impl Api for IncrementalAlterConfigsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<IncrementalAlterConfigsResponse> {
        let named = self.resources.iter().map(|resource| {
            let settings = resource.configs.iter().map(|config| &*config.name);
            let name = &*resource.resource_name;
            (resource.resource_type, name, settings.collect())
        });
        let checked = repeated(&named.collect::<Vec<_>>());
        let rows = self.resources.iter().zip(checked);
        let responses = rows.map(|(resource, checked)| {
            let altered = checked.and_then(|()| alter(cx, resource, self.validate_only));
            let (code, message) = match altered {
                Ok(()) => (ErrorCode::NONE, None),
                Err((code, message)) => (code, Some(message.into())),
            };
            AlterConfigsResourceResponse {
                error_code: code.0,
                error_message: message,
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            }
        });
        Outcome::Answer(IncrementalAlterConfigsResponse {
            responses: responses.collect(),
            ..Default::default()
        })
    }
}

/// Whether the client may change the settings of this resource, and this broker can.
pub(super) fn check_resource(cx: &Cx<'_>, kind: i8, name: &str) -> Result<(), Rejected> {
    let resource = match kind {
        TOPIC => Resource::topic(name),
        GROUP => Resource::group(name),
        CLIENT_METRICS => Resource::CLUSTER,
        _ => {
            let message =
                "this broker changes the settings of topics, groups and client metrics only";
            return Err((ErrorCode::INVALID_REQUEST, message.to_owned()));
        }
    };
    let allowed = cx.check(Operation::AlterConfigs, resource);
    allowed.map_err(|code| (code, code.name().to_owned()))?;
    if name.is_empty() {
        let message = match kind {
            TOPIC => "the settings of all topics are the broker's: log.*",
            CLIENT_METRICS => "a subscription to client metrics must have a name",
            _ => "the settings of all groups are the broker's: group.consumer.* and group.share.*",
        };
        return Err((ErrorCode::INVALID_REQUEST, message.to_owned()));
    }
    Ok(())
}

/// Gives a group these settings in place of those that it has.
pub(super) fn set_group(
    cx: &Cx<'_>,
    name: &str,
    own: OwnSettings,
    validate_only: bool,
) -> Result<(), Rejected> {
    let checked = cx.core.settings.check_group(&own);
    checked.map_err(|what| (ErrorCode::INVALID_CONFIG, what))?;
    if !validate_only {
        cx.core.group_settings.set(name, own);
    }
    Ok(())
}

/// Gives a subscription to client metrics these configurations in place of those that it has.
pub(super) fn set_subscription(
    cx: &Cx<'_>,
    name: &str,
    given: &BTreeMap<String, String>,
    validate_only: bool,
) -> Result<(), Rejected> {
    let subscription = Subscription::new(given)?;
    if validate_only {
        return Ok(());
    }
    cx.core.set_subscription(name, subscription)
}

/// Gives a topic these settings in place of those that it has. They hold at once.
pub(super) fn set_topic(
    cx: &Cx<'_>,
    name: &str,
    values: Values,
    validate_only: bool,
) -> Result<(), Rejected> {
    topic_values(cx, name)?;
    if validate_only {
        return Ok(());
    }
    let altered = cx.core.alter_topic(name, values);
    altered.map_err(|error| (error.code, error.message))
}

/// The settings that a topic has.
fn topic_values(cx: &Cx<'_>, name: &str) -> Result<Values, Rejected> {
    if check_name(name).is_err() {
        let code = ErrorCode::INVALID_TOPIC_EXCEPTION;
        return Err((code, format!("no topic can have the name \"{name}\"")));
    }
    let missing = |code| (code, format!("there is no topic \"{name}\""));
    Ok(cx.core.topic(name).map_err(missing)?.values.clone())
}

fn alter(
    cx: &Cx<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Rejected> {
    let (kind, name) = (resource.resource_type, &*resource.resource_name);
    check_resource(cx, kind, name)?;
    if kind == TOPIC {
        return alter_topic(cx, resource, validate_only);
    }
    if kind == CLIENT_METRICS {
        return alter_subscription(cx, resource, validate_only);
    }
    let mut own = cx.core.group_settings.of(name);
    for config in &resource.configs {
        apply(&mut own, config)?;
    }
    set_group(cx, name, own, validate_only)
}

/// The configurations of a subscription to client metrics.
fn alter_subscription(
    cx: &Cx<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Rejected> {
    let name = &*resource.resource_name;
    let set = cx.core.subscriptions.configs(name).into_iter();
    let mut given: BTreeMap<String, String> =
        set.map(|(key, value)| (key.to_owned(), value)).collect();
    for config in &resource.configs {
        let key = &*config.name;
        match (config.config_operation, config.value.as_deref()) {
            (DELETE, _) => drop(given.remove(key)),
            (_, None) => {
                let message = format!("{key}: there is nothing to set it to");
                return Err((ErrorCode::INVALID_REQUEST, message));
            }
            (SET, Some(value)) => drop(given.insert(key.to_owned(), value.to_owned())),
            (APPEND | SUBTRACT, _) => {
                // So does Kafka, whose controller takes none of them for a list.
                let message = format!("{key} can be set only, not appended to or subtracted from");
                return Err((ErrorCode::INVALID_CONFIG, message));
            }
            (operation, _) => {
                let message = format!("{key}: there is no operation {operation}");
                return Err((ErrorCode::INVALID_REQUEST, message));
            }
        }
    }
    set_subscription(cx, name, &given, validate_only)
}

/// The settings of a topic, which hold at once.
fn alter_topic(
    cx: &Cx<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Rejected> {
    let name = &*resource.resource_name;
    let mut values = topic_values(cx, name)?;
    for config in &resource.configs {
        let key = &*config.name;
        let value = match (config.config_operation, config.value.as_deref()) {
            (SET, Some(value)) => value.to_owned(),
            (DELETE, _) => {
                values.remove(key);
                continue;
            }
            (APPEND | SUBTRACT, Some(value)) => {
                let is_list = TOPIC_KEYS
                    .iter()
                    .any(|known| known.name == key && matches!(known.kind, ValueType::ListOf(_)));
                if !is_list {
                    let message = format!("{key} is no list that could be appended to");
                    return Err((ErrorCode::INVALID_CONFIG, message));
                }
                let (current, _) = cx.core.settings.topic_value(&values, key);
                listed(current, value, config.config_operation == APPEND)
            }
            (_, None) => {
                let message = format!("{key}: there is nothing to set it to");
                return Err((ErrorCode::INVALID_REQUEST, message));
            }
            (operation, _) => {
                let message = format!("{key}: there is no operation {operation}");
                return Err((ErrorCode::INVALID_REQUEST, message));
            }
        };
        let set = values.set(TOPIC_KEYS, key, &value);
        set.map_err(|what| (ErrorCode::INVALID_CONFIG, what))?;
    }
    set_topic(cx, name, values, validate_only)
}

/// A list with these items more, or less.
fn listed(current: &str, items: &str, adds: bool) -> String {
    let split = |text: &str| -> Vec<String> {
        let words = text.split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let mut all = split(current);
    for item in split(items) {
        let there = all.iter().position(|each| *each == item);
        match (adds, there) {
            (true, None) => all.push(item),
            (false, Some(place)) => drop(all.remove(place)),
            _ => {}
        }
    }
    all.join(",")
}

fn apply(own: &mut OwnSettings, config: &AlterableConfig) -> Result<(), Rejected> {
    let name = &*config.name;
    match (config.config_operation, config.value.as_deref()) {
        (SET, Some(value)) => {
            let key = group_key(name, value);
            let key = key.map_err(|what| (ErrorCode::INVALID_CONFIG, what))?;
            own.insert(key.name, value.to_owned());
        }
        (SET, None) => {
            let message = format!("{name}: there is nothing to set it to");
            return Err((ErrorCode::INVALID_REQUEST, message));
        }
        (DELETE, _) => {
            own.remove(name);
        }
        (operation, _) => {
            let message = format!("{name}: operation {operation} is for lists, or unknown");
            return Err((ErrorCode::INVALID_REQUEST, message));
        }
    }
    Ok(())
}
