//! The only clock of the broker, read by its shell and handed on as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::now::Now;

pub(crate) fn now() -> Now {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Now {
        instant: Instant::now().into_std(),
        unix_ms: i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX),
    }
}
