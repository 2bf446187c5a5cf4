//! Quotas of users, client ids and addresses (KIP-546): DescribeClientQuotas and AlterClientQuotas.

use ottla_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use ottla_protocol::messages::alter_client_quotas_response;
use ottla_protocol::messages::describe_client_quotas_request::ComponentData;
use ottla_protocol::messages::{AlterClientQuotasRequest, DescribeClientQuotasRequest};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::{only, results};
use crate::call::{About, Asked, ByItem, Call, Retry, Rows, Target, controller};
use crate::error::{Error, Item};

verbs! {
    describe_client_quotas: DescribeClientQuotas,
    alter_client_quotas: AlterClientQuotas,
}

/// The type of an entity's part, such as `user`, and its name; `None` is the default of that type.
type Part = (String, Option<String>);

/// How a filter matches a part: its name exactly, the default, or any name.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

/// A part of an entity that quotas are looked for.
#[derive(Clone, Debug, Deserialize)]
pub struct QuotaFilter {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name; `None` for the default of the type.
    pub name: Option<String>,
    /// Whether any name matches.
    pub any: bool,
}

/// Quotas of an entity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientQuota {
    /// Its parts, sorted by type.
    #[serde(serialize_with = "by_type")]
    pub entity: Vec<Part>,
    /// The quotas by name.
    pub quotas: ByName,
}

fn by_type<S: serde::Serializer>(entity: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entity.iter().map(|(kind, name)| (kind, name)))
}

/// Numbers by name.
#[derive(Clone, Debug, PartialEq)]
pub struct ByName(pub Vec<(String, f64)>);

impl Serialize for ByName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Describes quotas.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeClientQuotas {
    /// The parts that an entity has; none for all entities.
    pub filter: Vec<QuotaFilter>,
    /// Whether an entity with other parts too does not match.
    pub strict: bool,
}

impl Call for DescribeClientQuotas {
    type Found = Vec<ClientQuota>;
    /// Sorted by entity.
    type Answer = Rows<ClientQuota>;
    const API: ApiKey = ApiKey::DescribeClientQuotas;

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let components = self.filter.iter().map(|part| ComponentData {
            entity_type: part.kind.as_str().into(),
            match_type: match (part.any, &part.name) {
                (true, _) => ANY,
                (false, Some(_)) => EXACT,
                (false, None) => DEFAULT,
            },
            r#match: part.name.as_deref().filter(|_| !part.any).map(Into::into),
            ..Default::default()
        });
        Request::DescribeClientQuotas(DescribeClientQuotasRequest {
            components: components.collect(),
            strict: self.strict,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeClientQuotas(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let text = answer.error_message.as_deref();
            return vec![Err(Error::from_code(code, text))];
        }
        let rows = answer.entries.iter().flatten().map(|row| {
            let entity = row.entity.iter().map(|part| {
                let name = part.entity_name.as_ref().map(|name| name.to_string());
                (part.entity_type.to_string(), name)
            });
            let mut entity: Vec<Part> = entity.collect();
            entity.sort();
            let quotas = row.values.iter();
            let mut quotas: Vec<_> = quotas.map(|row| (row.key.to_string(), row.value)).collect();
            quotas.sort_by(|(one, _), (other, _)| one.cmp(other));
            ClientQuota {
                entity,
                quotas: ByName(quotas),
            }
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|one, other| one.entity.cmp(&other.entity));
        vec![Ok(rows)]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the quotas").map(Rows)
    }
}

/// A part of an entity whose quotas change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct QuotaPart {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name; `None` for the default of the type.
    pub name: Option<String>,
}

/// A quota that changes.
#[derive(Clone, Debug, Deserialize)]
pub struct QuotaChange {
    /// Its name, such as `producer_byte_rate`.
    pub key: String,
    /// Its value; `None` removes it.
    pub value: Option<f64>,
}

/// Changes of an entity's quotas.
#[derive(Clone, Debug, Deserialize)]
pub struct QuotaAlteration {
    /// The entity's parts.
    pub entity: Vec<QuotaPart>,
    /// The changes.
    pub changes: Vec<QuotaChange>,
}

impl QuotaAlteration {
    fn is_about(&self, row: &alter_client_quotas_response::EntryData) -> bool {
        row.entity.len() == self.entity.len()
            && self.entity.iter().all(|part| {
                row.entity.iter().any(|other| {
                    *other.entity_type == *part.kind
                        && other.entity_name.as_deref() == part.name.as_deref()
                })
            })
    }
}

/// Changes quotas. An item is an entity.
#[derive(Clone, Debug, Deserialize)]
pub struct AlterClientQuotas {
    /// The changes.
    pub alterations: Vec<QuotaAlteration>,
    /// Whether nothing is changed.
    pub validate_only: bool,
}

impl Call for AlterClientQuotas {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::AlterClientQuotas;

    fn items(&self) -> usize {
        self.alterations.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.alterations.get(*item));
        let entries = wanted.map(|row| {
            let entity = row.entity.iter().map(|part| EntityData {
                entity_type: part.kind.as_str().into(),
                entity_name: part.name.as_deref().map(Into::into),
                ..Default::default()
            });
            let ops = row.changes.iter().map(|change| OpData {
                key: change.key.as_str().into(),
                value: change.value.unwrap_or(0.0),
                remove: change.value.is_none(),
                ..Default::default()
            });
            EntryData {
                entity: entity.collect(),
                ops: ops.collect(),
                ..Default::default()
            }
        });
        Request::AlterClientQuotas(AlterClientQuotasRequest {
            entries: entries.collect(),
            validate_only: self.validate_only,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::AlterClientQuotas(answer) = response else {
            return Vec::new();
        };
        results(items, "an entity", |asked| {
            let wanted = self.alterations.get(asked.item)?;
            let row = answer.entries.iter().find(|row| wanted.is_about(row))?;
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
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let entities = self.alterations.into_iter().map(|mut row| {
            row.entity.sort();
            let parts = row.entity.into_iter().map(|part| {
                let name = part.name.map_or(Item::Nothing, Item::Name);
                Item::Tuple(vec![Item::Name(part.kind), name])
            });
            Item::Tuple(parts.collect())
        });
        ByItem::new(entities.collect(), found)
    }
}
