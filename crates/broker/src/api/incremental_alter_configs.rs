//! IncrementalAlterConfigs, versions 0 and 1 (KIP-339): of the settings of groups. Those of topics and brokers stay as they are.

use ottla_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use ottla_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use ottla_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::config::group_key;
use crate::group::OwnSettings;
use crate::security::acl::{Operation, Resource};

const GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;

impl Api for IncrementalAlterConfigsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<IncrementalAlterConfigsResponse> {
        let respond = |resource: &AlterConfigsResource| {
            let altered = alter(cx, resource, self.validate_only);
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
        };
        Outcome::Answer(IncrementalAlterConfigsResponse {
            responses: self.resources.iter().map(respond).collect(),
            ..Default::default()
        })
    }
}

fn alter(
    cx: &Cx<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), (ErrorCode, String)> {
    let name = &*resource.resource_name;
    if resource.resource_type != GROUP {
        let message = "this broker changes the settings of groups only";
        return Err((ErrorCode::INVALID_REQUEST, message.to_owned()));
    }
    let allowed = cx.check(Operation::AlterConfigs, Resource::group(name));
    allowed.map_err(|code| (code, code.name().to_owned()))?;
    if name.is_empty() {
        let message =
            "the settings of all groups are the broker's: group.consumer.* and group.share.*";
        return Err((ErrorCode::INVALID_REQUEST, message.to_owned()));
    }
    let mut own = cx.core.group_settings.of(name);
    for config in &resource.configs {
        apply(&mut own, config)?;
    }
    let checked = cx.core.settings.check_group(&own);
    checked.map_err(|what| (ErrorCode::INVALID_CONFIG, what))?;
    if !validate_only {
        cx.core.group_settings.set(name, own);
    }
    Ok(())
}

fn apply(own: &mut OwnSettings, config: &AlterableConfig) -> Result<(), (ErrorCode, String)> {
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
