//! ListConfigResources, versions 0 and 1 (KIP-1000, KIP-1142): what has a configuration, or could have one.

use ottla_protocol::messages::list_config_resources_response::ConfigResource;
use ottla_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::config_changes::{CLIENT_METRICS, GROUP, TOPIC};
use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const ALL: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];

impl Api for ListConfigResourcesRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ListConfigResourcesResponse> {
        if let Err(code) = cx.check(Operation::DescribeConfigs, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        // Version 0 is about client metrics only.
        let wanted = match (cx.version, self.resource_types.is_empty()) {
            (0, _) => vec![CLIENT_METRICS],
            (_, true) => ALL.to_vec(),
            (_, false) => self.resource_types.to_vec(),
        };
        if wanted.iter().any(|kind| !ALL.contains(kind)) {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::UNSUPPORTED_VERSION));
        }
        let mut config_resources = Vec::new();
        for kind in ALL.into_iter().filter(|kind| wanted.contains(kind)) {
            let names: Vec<Str> = match kind {
                TOPIC => cx
                    .core
                    .topics()
                    .iter()
                    .map(|topic| topic.name.clone())
                    .collect(),
                BROKER | BROKER_LOGGER => {
                    let nodes = cx.core.hosts().into_iter();
                    nodes.map(|(node, _)| node.to_string().into()).collect()
                }
                GROUP => {
                    let names = cx.core.group_settings.names().into_iter();
                    names.map(Str::from).collect()
                }
                _ => {
                    let names = cx.core.subscriptions.names().into_iter();
                    names.map(Str::from).collect()
                }
            };
            config_resources.extend(names.into_iter().map(|resource_name| ConfigResource {
                resource_name,
                resource_type: kind,
                ..Default::default()
            }));
        }
        Outcome::Answer(ListConfigResourcesResponse {
            config_resources,
            ..Default::default()
        })
    }
}
