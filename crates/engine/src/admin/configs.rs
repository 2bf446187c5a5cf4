//! Configurations of topics, brokers, their loggers, groups and subscriptions of client metrics.

use ottla_protocol::messages::describe_configs_request::DescribeConfigsResource;
use ottla_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsSynonym,
};
use ottla_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use ottla_protocol::messages::{
    DescribeConfigsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::codes::{AlterOperation, ConfigResourceType, ConfigSource, ConfigType};
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::{only, results};
use crate::call::{About, Asked, ByItem, CONFIRMED, Call, Retry, Rows, Target};
use crate::error::{Error, Item};

verbs! {
    describe_configs: DescribeConfigs,
    incremental_alter_configs: IncrementalAlterConfigs,
    list_config_resources: ListConfigResources,
}

const BROKER: ConfigResourceType = ConfigResourceType(4);
const BROKER_LOGGER: ConfigResourceType = ConfigResourceType(8);
const CLIENT_METRICS: ConfigResourceType = ConfigResourceType(16);

/// A resource with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConfigResource {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ConfigResourceType,
    /// Its name; of brokers and their loggers the id. The default of all brokers has an empty name.
    pub name: String,
}

impl ConfigResource {
    /// Configurations of a broker and of its loggers are with that broker. Kafka's other configurations are with all of them.
    fn broker(&self) -> Option<i32> {
        let is_broker = self.kind == BROKER || self.kind == BROKER_LOGGER;
        self.name.parse().ok().filter(|_| is_broker)
    }

    fn is(&self, kind: i8, name: &str) -> bool {
        (self.kind.0, self.name.as_str()) == (kind, name)
    }
}

impl From<ConfigResource> for Item {
    fn from(resource: ConfigResource) -> Item {
        let kind = Item::Name(resource.kind.name());
        let name = Item::Name(resource.name);
        Item::Object("ConfigResource", vec![("type", kind), ("name", name)])
    }
}

/// Another place that may set a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigSynonym {
    /// The name of the configuration there.
    pub name: String,
    /// Its value; `None` if it is secret.
    pub value: Option<String>,
    /// Where that is.
    pub source: ConfigSource,
}

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` if it is secret, or not set.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether the value is secret.
    pub is_sensitive: bool,
    /// Whether it cannot be changed while the broker runs.
    pub is_read_only: bool,
    /// The type of its value; brokers before 2.6 do not return it.
    #[serde(rename = "type")]
    pub value_type: ConfigType,
    /// What is for the broker, from Kafka's documentation.
    pub documentation: Option<String>,
    /// All places that set it, the one that counts first.
    pub synonyms: Vec<ConfigSynonym>,
}

/// Describes configurations. An item is a resource.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeConfigs {
    /// The resources.
    pub resources: Vec<ConfigResource>,
    /// Only these configurations; `None` for all.
    pub names: Option<Vec<String>>,
    /// Whether to return synonyms (since Kafka 1.1).
    pub include_synonyms: bool,
    /// Whether to return the documentation (since Kafka 2.6).
    pub include_documentation: bool,
}

impl Call for DescribeConfigs {
    type Found = Vec<ConfigEntry>;
    /// Sorted by name.
    type Answer = ByItem<Vec<ConfigEntry>>;
    const API: ApiKey = ApiKey::DescribeConfigs;

    fn items(&self) -> usize {
        self.resources.len()
    }

    fn target(&self, item: usize) -> Target {
        let broker = self.resources.get(item).and_then(ConfigResource::broker);
        broker.map_or(Target::Any, Target::Node)
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.resources.get(*item));
        let resources = wanted.map(|resource| DescribeConfigsResource {
            resource_type: resource.kind.0,
            resource_name: resource.name.as_str().into(),
            configuration_keys: self.names.as_ref().map(|names| {
                let names = names.iter().map(|name| name.as_str().into());
                names.collect()
            }),
            ..Default::default()
        });
        Request::DescribeConfigs(DescribeConfigsRequest {
            resources: resources.collect(),
            include_synonyms: self.include_synonyms && about.version >= 1,
            include_documentation: self.include_documentation && about.version >= 3,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeConfigs(answer) = response else {
            return Vec::new();
        };
        results(items, "a resource", |asked| {
            let resource = self.resources.get(asked.item)?;
            let mut rows = answer.results.iter();
            let row = rows.find(|row| resource.is(row.resource_type, &row.resource_name))?;
            let code = ErrorCode(row.error_code);
            if code.is_error() {
                return Some(Err(Error::from_code(code, row.error_message.as_deref())));
            }
            let entries = row.configs.iter();
            let mut entries: Vec<_> = entries
                .map(|row| entry(row, resource.kind, asked.version))
                .collect();
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            Some(Ok(entries))
        })
    }

    fn retry(&self, error: &Error, answers: u32) -> Retry {
        let is_missing = error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        Retry::after_pause_if(error.is_retriable() && !(is_missing && answers >= CONFIRMED))
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.resources, found)
    }
}

fn entry(row: &DescribeConfigsResourceResult, of: ConfigResourceType, version: i16) -> ConfigEntry {
    let synonym = |row: &DescribeConfigsSynonym| ConfigSynonym {
        name: row.name.to_string(),
        value: row.value.as_ref().map(|value| value.to_string()),
        source: ConfigSource(row.source),
    };
    // Version 0 only returns whether it is the default.
    let source = match (version, row.is_default, of.0) {
        (1.., _, _) => row.config_source.max(0),
        (_, true, _) => 5,
        (_, false, 2) => 1,
        _ => 4,
    };
    ConfigEntry {
        name: row.name.to_string(),
        value: row.value.as_ref().map(|value| value.to_string()),
        source: ConfigSource(source),
        is_sensitive: row.is_sensitive,
        is_read_only: row.read_only,
        value_type: ConfigType(row.config_type),
        documentation: row.documentation.as_ref().map(|text| text.to_string()),
        synonyms: row.synonyms.iter().map(synonym).collect(),
    }
}

/// A change of a configuration.
#[derive(Clone, Debug, Deserialize)]
pub struct AlterConfigOp {
    /// The configuration.
    pub name: String,
    /// Its value; `None` to delete it.
    pub value: Option<String>,
    /// The operation on it.
    pub operation: AlterOperation,
}

/// Changes of a resource's configurations.
#[derive(Clone, Debug, Deserialize)]
pub struct AlteredConfigs {
    /// The resource.
    pub resource: ConfigResource,
    /// The changes.
    pub operations: Vec<AlterConfigOp>,
}

/// Changes configurations and leaves the others as they are (KIP-339). An item is a resource.
#[derive(Clone, Debug, Deserialize)]
pub struct IncrementalAlterConfigs {
    /// The changes.
    pub changes: Vec<AlteredConfigs>,
    /// Whether nothing is changed.
    pub validate_only: bool,
}

impl Call for IncrementalAlterConfigs {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::IncrementalAlterConfigs;

    fn items(&self) -> usize {
        self.changes.len()
    }

    fn target(&self, item: usize) -> Target {
        let broker = self.changes.get(item).and_then(|it| it.resource.broker());
        broker.map_or(Target::Controller, Target::Node)
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.changes.get(*item));
        let resources = wanted.map(|row| {
            let configs = row.operations.iter().map(|change| AlterableConfig {
                name: change.name.as_str().into(),
                config_operation: change.operation.0,
                value: change.value.as_deref().map(Into::into),
                ..Default::default()
            });
            AlterConfigsResource {
                resource_type: row.resource.kind.0,
                resource_name: row.resource.name.as_str().into(),
                configs: configs.collect(),
                ..Default::default()
            }
        });
        Request::IncrementalAlterConfigs(IncrementalAlterConfigsRequest {
            resources: resources.collect(),
            validate_only: self.validate_only,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::IncrementalAlterConfigs(answer) = response else {
            return Vec::new();
        };
        results(items, "a resource", |asked| {
            let resource = &self.changes.get(asked.item)?.resource;
            let mut rows = answer.responses.iter();
            let row = rows.find(|row| resource.is(row.resource_type, &row.resource_name))?;
            Some(match ErrorCode(row.error_code) {
                code if code.is_error() => {
                    Err(Error::from_code(code, row.error_message.as_deref()))
                }
                _ => Ok(()),
            })
        })
    }

    fn changes(&self) -> bool {
        !self.validate_only
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        crate::call::controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let resources = self.changes.into_iter().map(|row| row.resource);
        ByItem::new(resources.collect(), found)
    }
}

/// Lists resources that have a configuration of their own (KIP-1142); before Kafka 4.1 those of client metrics (KIP-1000).
#[derive(Clone, Debug, Deserialize)]
pub struct ListConfigResources {
    /// Only those of these types; none for all.
    pub types: Vec<ConfigResourceType>,
}

impl Call for ListConfigResources {
    type Found = Vec<ConfigResource>;
    /// Sorted.
    type Answer = Rows<ConfigResource>;
    const API: ApiKey = ApiKey::ListConfigResources;

    fn versions(&self) -> (i16, i16) {
        match self.types.as_slice() {
            [CLIENT_METRICS] => (0, i16::MAX),
            _ => (1, i16::MAX),
        }
    }

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        let types = self.types.iter().filter(|_| about.version >= 1);
        Request::ListConfigResources(ListConfigResourcesRequest {
            resource_types: types.map(|kind| kind.0).collect(),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ListConfigResources(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return vec![Err(Error::from_code(code, None))];
        }
        let rows = answer.config_resources.iter().map(|row| ConfigResource {
            kind: ConfigResourceType(row.resource_type),
            name: row.resource_name.to_string(),
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        vec![Ok(rows)]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the resources").map(Rows)
    }
}
