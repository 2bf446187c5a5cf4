//! AlterClientQuotas, versions 0 and 1 (KIP-546).

use ottla_protocol::messages::alter_client_quotas_request::{EntryData as Asked, OpData};
use ottla_protocol::messages::alter_client_quotas_response::{EntityData, EntryData};
use ottla_protocol::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::security::quota::{Entity, Part, QuotaKey};

impl Api for AlterClientQuotasRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AlterClientQuotasResponse> {
        let allowed = cx.check(Operation::AlterConfigs, Resource::CLUSTER);
        let entries = self.entries.iter().map(|entry| {
            let altered = match allowed {
                Ok(()) => alter(cx, entry, self.validate_only),
                Err(code) => Err((code, code.name().to_owned())),
            };
            let (code, message) = match altered {
                Ok(()) => (ErrorCode::NONE, None),
                Err((code, message)) => (code, Some(message.into())),
            };
            let entity = entry.entity.iter().map(|part| EntityData {
                entity_type: part.entity_type.clone(),
                entity_name: part.entity_name.clone(),
                ..Default::default()
            });
            EntryData {
                error_code: code.0,
                error_message: message,
                entity: entity.collect(),
                ..Default::default()
            }
        });
        Outcome::Answer(AlterClientQuotasResponse {
            entries: entries.collect(),
            ..Default::default()
        })
    }
}

fn alter(cx: &Cx<'_>, entry: &Asked, validate_only: bool) -> Result<(), (ErrorCode, String)> {
    let invalid = |what: String| (ErrorCode::INVALID_REQUEST, what);
    let mut entity = Entity::default();
    for part in &entry.entity {
        let name = match part.entity_name.as_deref() {
            None => Part::Default,
            Some("") => return Err(invalid(format!("Empty {} not supported", part.entity_type))),
            Some(name) => Part::Named(name.to_owned()),
        };
        let place = match &*part.entity_type {
            "user" => &mut entity.user,
            "client-id" => &mut entity.client_id,
            other => {
                return Err(invalid(format!(
                    "Unhandled client quota entity type: {other}"
                )));
            }
        };
        if place.replace(name).is_some() {
            let what = format!("Duplicate entity type: {}", part.entity_type);
            return Err(invalid(what));
        }
    }
    if entity == Entity::default() {
        return Err(invalid("Invalid empty client quota entity".to_owned()));
    }
    let read = |op: &OpData| {
        let key = QuotaKey::from_name(&op.key)
            .ok_or_else(|| invalid(format!("Invalid configuration key {}", op.key)))?;
        if op.remove {
            return Ok((key, None));
        }
        if op.value.is_finite() && op.value > 0.0 {
            Ok((key, Some(op.value)))
        } else {
            let what = format!("Quota {} must be greater than 0", op.key);
            Err(invalid(what))
        }
    };
    let ops: Vec<(QuotaKey, Option<f64>)> = entry.ops.iter().map(read).collect::<Result<_, _>>()?;
    if !validate_only {
        let mut quotas = cx.core.security.quotas.lock();
        for (key, limit) in ops {
            quotas.set(&entity, key, limit);
        }
    }
    Ok(())
}
