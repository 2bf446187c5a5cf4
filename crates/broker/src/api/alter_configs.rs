//! AlterConfigs, versions 0 to 2: replaces all settings of topics, groups and subscriptions to client metrics. Settings that the
//! request leaves out return to their defaults. Those of brokers stay as they are.

use ottla_protocol::messages::alter_configs_request::AlterConfigsResource;
use ottla_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use ottla_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::config_changes::{CLIENT_METRICS, GROUP, Rejected, TOPIC, repeated};
use super::incremental_alter_configs::{check_resource, set_group, set_subscription, set_topic};
use super::{Api, Cx, Outcome};
use crate::config::{TOPIC_KEYS, Values, group_key};
use crate::group::OwnSettings;

impl Api for AlterConfigsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AlterConfigsResponse> {
        let named = self.resources.iter().map(|resource| {
            let settings = resource.configs.iter().map(|config| &*config.name);
            let name = &*resource.resource_name;
            (resource.resource_type, name, settings.collect())
        });
        let checked = repeated(&named.collect::<Vec<_>>());
        let rows = self.resources.iter().zip(checked);
        let responses = rows.map(|(resource, checked)| {
            let replaced = checked.and_then(|()| replace(cx, resource, self.validate_only));
            let (code, message) = match replaced {
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
        Outcome::Answer(AlterConfigsResponse {
            responses: responses.collect(),
            ..Default::default()
        })
    }
}

fn replace(
    cx: &Cx<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Rejected> {
    let (kind, name) = (resource.resource_type, &*resource.resource_name);
    check_resource(cx, kind, name)?;
    let wrong = |what| (ErrorCode::INVALID_CONFIG, what);
    let mut rows = Vec::with_capacity(resource.configs.len());
    for config in &resource.configs {
        let value = config.value.as_deref().ok_or_else(|| {
            let message = format!("{} has no value", config.name);
            (ErrorCode::INVALID_REQUEST, message)
        })?;
        rows.push((&*config.name, value));
    }
    match kind {
        TOPIC => {
            let mut values = Values::default();
            for (key, value) in rows {
                values.set(TOPIC_KEYS, key, value).map_err(wrong)?;
            }
            set_topic(cx, name, values, validate_only)
        }
        GROUP => {
            let mut own = OwnSettings::new();
            for (key, value) in rows {
                own.insert(group_key(key, value).map_err(wrong)?.name, value.to_owned());
            }
            set_group(cx, name, own, validate_only)
        }
        CLIENT_METRICS => {
            let rows = rows.into_iter();
            let given = rows.map(|(key, value)| (key.to_owned(), value.to_owned()));
            set_subscription(cx, name, &given.collect(), validate_only)
        }
        _ => Ok(()),
    }
}
