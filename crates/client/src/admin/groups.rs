//! Groups of both protocols.

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::call::{DescribeConsumerGroups, DescribeGroups, ListGroups};
pub use ottla_engine::call::{Epochs, GroupDescription, GroupListing, MemberDescription};
use ottla_engine::{Error, ErrorCode, Kind};

use crate::admin::handle::{Admin, Each};

impl Admin {
    /// All groups that the client may see, sorted by id.
    ///
    /// # Errors
    /// A broker does not answer for the groups that it coordinates, or refuses; no answer by the deadline.
    pub async fn list_groups(&self, timeout: Option<Duration>) -> Result<Vec<GroupListing>, Error> {
        self.ask(ListGroups, timeout).await
    }

    /// Describes groups of the classic protocol and of the consumer protocol (KIP-848), which come back in the order given. One that
    /// does not exist is an error of its own, whatever the age of the brokers.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn describe_groups(
        &self,
        groups: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, GroupDescription>, Error> {
        let all: Vec<Arc<str>> = groups.iter().map(|group| Arc::from(&**group)).collect();
        let limit = timeout.unwrap_or(self.config().default_api_timeout);
        let deadline = self.driver.with(|_, now| now + limit);
        let call = DescribeGroups {
            groups: all.clone(),
        };
        let mut found = self.ask(call, Some(limit)).await?;
        // A coordinator does not know a group of the one protocol by the call of the other.
        let unknown = |each: &Result<GroupDescription, Error>| {
            let code = each.as_ref().err().and_then(Error::code);
            code == Some(ErrorCode::GROUP_ID_NOT_FOUND)
        };
        let places: Vec<usize> = (0..found.len())
            .filter(|place| found.get(*place).is_some_and(unknown))
            .collect();
        if places.is_empty() {
            return Ok(groups.iter().cloned().zip(found).collect());
        }
        let call = DescribeConsumerGroups {
            groups: places
                .iter()
                .filter_map(|it| all.get(*it).cloned())
                .collect(),
        };
        let left = self
            .driver
            .with(|_, now| deadline.saturating_duration_since(now));
        let described = match self.ask(call, Some(left)).await {
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
        Ok(groups.iter().cloned().zip(found).collect())
    }
}
