//! Subscriptions to client metrics (KIP-714): kept in the data folder, and what they request of a client.

use ottla_protocol::ErrorCode;

use super::{Core, TopicError};
use crate::error::BrokerError;
use crate::telemetry::{Attributes, Subscription, Wanted};

impl Core {
    /// Reads back the subscriptions of the data folder.
    pub(super) fn recover_subscriptions(&self) -> Result<(), BrokerError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        for (name, subscription) in folder.subscriptions()? {
            self.subscriptions
                .set(&name, subscription, |_| Ok::<_, BrokerError>(()))?;
        }
        Ok(())
    }

    /// Replaces a subscription. It holds at once.
    pub(crate) fn set_subscription(
        &self,
        name: &str,
        subscription: Subscription,
    ) -> Result<(), (ErrorCode, String)> {
        let kept = self.subscriptions.set(name, subscription, |all| {
            let folder = self.folder.as_ref();
            folder.map_or(Ok(()), |folder| folder.write_subscriptions(all))
        });
        kept.map_err(|cause| {
            let error = TopicError::storage(&cause);
            (error.code, error.message)
        })
    }

    /// Whether clients know of telemetry: as in Kafka only where it is wanted.
    pub(crate) fn asks_for_metrics(&self) -> bool {
        self.settings.telemetry.is_on() || self.subscriptions.has_begun()
    }

    /// What is requested of a client; `None` where clients do not know of telemetry.
    pub(crate) fn wanted(&self, client: &Attributes) -> Option<Wanted> {
        let own = &self.settings.telemetry;
        self.asks_for_metrics()
            .then(|| self.subscriptions.wanted(own, client))
    }
}
