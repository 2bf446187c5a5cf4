//! Consumer groups of the classic protocol.

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Error;
use ottla_engine::call::{DescribeGroups, ListGroups};
pub use ottla_engine::call::{GroupDescription, GroupListing, MemberDescription};

use crate::admin::handle::{Admin, Each};

impl Admin {
    /// All groups that the client may see, sorted by id.
    ///
    /// # Errors
    /// A broker does not answer for the groups that it coordinates, or refuses; no answer by the deadline.
    pub async fn list_groups(&self, timeout: Option<Duration>) -> Result<Vec<GroupListing>, Error> {
        self.ask(ListGroups, timeout).await
    }

    /// Describes groups, which come back in the order given. One that does not exist is an error of its own, whatever the age of
    /// the brokers.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn describe_groups(
        &self,
        groups: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, GroupDescription>, Error> {
        let call = DescribeGroups {
            groups: groups.iter().map(|group| Arc::from(&**group)).collect(),
        };
        let found = self.ask(call, timeout).await?;
        Ok(groups.iter().cloned().zip(found).collect())
    }
}
