//! DescribeClientQuotas, versions 0 and 1 (KIP-546).

use ottla_protocol::messages::describe_client_quotas_request::ComponentData;
use ottla_protocol::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use ottla_protocol::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::security::quota::{Entity, Part};

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

impl Api for DescribeClientQuotasRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeClientQuotasResponse> {
        let allowed = cx.check(Operation::DescribeConfigs, Resource::CLUSTER);
        if let Err(code) = allowed.and_then(|()| check(&self.components)) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let quotas = cx.core.security.quotas.lock();
        let matching = quotas
            .iter()
            .filter(|(entity, _)| matches(entity, &self.components, self.strict));
        let entries = matching.map(|(entity, limits)| EntryData {
            entity: parts(entity)
                .map(|(kind, part)| EntityData {
                    entity_type: Str::from_static(kind),
                    entity_name: match part {
                        Part::Default => None,
                        Part::Named(name) => Some(name.clone().into()),
                    },
                    ..Default::default()
                })
                .collect(),
            values: limits
                .iter()
                .map(|(key, value)| ValueData {
                    key: Str::from_static(key.name()),
                    value: *value,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
        Outcome::Answer(DescribeClientQuotasResponse {
            entries: Some(entries.collect()),
            ..Default::default()
        })
    }
}

fn check(components: &[ComponentData]) -> Result<(), ErrorCode> {
    let is_known = |component: &ComponentData| {
        let is_exact = component.match_type == EXACT;
        matches!(&*component.entity_type, "user" | "client-id")
            && matches!(component.match_type, EXACT | DEFAULT | SPECIFIED)
            && is_exact == component.r#match.is_some()
    };
    let is_twice = |at: usize, component: &ComponentData| {
        let before = components.iter().take(at);
        before
            .into_iter()
            .any(|it| it.entity_type == component.entity_type)
    };
    for (at, component) in components.iter().enumerate() {
        // Quotas of addresses limit what is not limited here.
        if &*component.entity_type == "ip" {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        if !is_known(component) || is_twice(at, component) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
    }
    Ok(())
}

fn matches(entity: &Entity, components: &[ComponentData], strict: bool) -> bool {
    let has = |component: &ComponentData| {
        let part = parts(entity)
            .find(|(kind, _)| **kind == *component.entity_type)
            .map(|(_, part)| part);
        match (component.match_type, part) {
            (_, None) => false,
            (EXACT, Some(Part::Named(name))) => component.r#match.as_deref() == Some(name.as_str()),
            (DEFAULT, Some(part)) => *part == Part::Default,
            (SPECIFIED, Some(_)) => true,
            _ => false,
        }
    };
    components.iter().all(has) && (!strict || parts(entity).count() == components.len())
}

/// The types and names of an entity.
pub(super) fn parts(entity: &Entity) -> impl Iterator<Item = (&'static str, &Part)> {
    let user = entity.user.iter().map(|part| ("user", part));
    user.chain(entity.client_id.iter().map(|part| ("client-id", part)))
}
