//! Groups of both protocols.

use std::sync::Arc;

use ottla_protocol::ErrorCode;
use serde::Deserialize;

use super::verb::{Ask, Verb, verbs};
use crate::call::{self, ByItem, DescribeConsumerGroups, GroupDescription, ListGroups, values};
use crate::error::{Error, Kind};

verbs! {
    list_groups: ListGroups,
    describe_groups: DescribeGroups,
}

/// Describes groups of the classic protocol and of the consumer protocol (KIP-848). One that does not exist is an error of its own,
/// whatever the age of the brokers.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeGroups {
    /// Their ids.
    #[serde(deserialize_with = "values::names")]
    pub groups: Vec<Arc<str>>,
}

impl Verb for DescribeGroups {
    type Outcome = ByItem<GroupDescription>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let groups = self.groups;
        let call = call::DescribeGroups {
            groups: groups.clone(),
        };
        let mut found = admin.ask(call).await?;
        // A coordinator does not know a group of the one protocol by the call of the other.
        let unknown = |each: &Result<GroupDescription, Error>| {
            let code = each.as_ref().err().and_then(Error::code);
            code == Some(ErrorCode::GROUP_ID_NOT_FOUND)
        };
        let places: Vec<usize> = (0..found.len())
            .filter(|place| found.get(*place).is_some_and(unknown))
            .collect();
        if places.is_empty() {
            return ByItem::new(groups, found);
        }
        let call = DescribeConsumerGroups {
            groups: places
                .iter()
                .filter_map(|it| groups.get(*it).cloned())
                .collect(),
        };
        let described = match admin.ask(call).await {
            Ok(described) => described,
            Err(error) if error.kind() == Kind::Unsupported => Vec::new(),
            Err(error) => return Err(error),
        };
        for (place, each) in places.into_iter().zip(described) {
            // Where brokers do not have that call, or do not know the group by it either, the first answer stands.
            let stays = |error: &Error| {
                error.kind() == Kind::Unsupported
                    || error.code() == Some(ErrorCode::GROUP_ID_NOT_FOUND)
            };
            let is_better = !each.as_ref().is_err_and(stays);
            if let Some(slot) = found.get_mut(place).filter(|_| is_better) {
                *slot = each;
            }
        }
        ByItem::new(groups, found)
    }
}
