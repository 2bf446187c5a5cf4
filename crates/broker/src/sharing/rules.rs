//! What holds for the records of a share group: its own settings, or the broker's.

use std::time::Duration;

pub(crate) const SHARE_DELIVERIES: &str = "share.delivery.count.limit";
pub(crate) const SHARE_ISOLATION: &str = "share.isolation.level";
pub(crate) const SHARE_LOCK: &str = "share.record.lock.duration.ms";
pub(crate) const SHARE_LOCKS: &str = "share.partition.max.record.locks";
pub(crate) const SHARE_RENEW: &str = "share.renew.acknowledge.enable";
pub(crate) const SHARE_RESET: &str = "share.auto.offset.reset";

/// Where a group begins in a partition that it has not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    Earliest,
    Latest,
    /// At the records of this long ago.
    ByDuration(Duration),
}

impl Reset {
    /// The value of `share.auto.offset.reset`; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "earliest" => Some(Self::Earliest),
            "latest" => Some(Self::Latest),
            _ => duration(text.strip_prefix("by_duration:")?).map(Self::ByDuration),
        }
    }
}

/// A duration as ISO 8601 has it, of days and less: `P1DT2H3M4.5S`.
fn duration(text: &str) -> Option<Duration> {
    let (days, times) = match text.strip_prefix('P')?.split_once('T') {
        Some((_, "")) => return None,
        Some((days, times)) => (days, times),
        None => (text.strip_prefix('P')?, ""),
    };
    let mut total = Duration::ZERO;
    let mut is_empty = true;
    for (mut rest, units) in [
        (days, [('D', 86_400.0)].as_slice()),
        (times, [('H', 3600.0), ('M', 60.0), ('S', 1.0)].as_slice()),
    ] {
        for (unit, seconds) in units {
            if let Some((number, after)) = rest.split_once(*unit) {
                let number: f64 = number.parse().ok()?;
                total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
                rest = after;
                is_empty = false;
            }
        }
        if !rest.is_empty() {
            return None;
        }
    }
    (!is_empty).then_some(total)
}

/// What holds for the records of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharingRules {
    /// How long a member has a record.
    pub(crate) lock: Duration,
    /// How often a record is delivered at most.
    pub(crate) most_deliveries: i16,
    /// How many records of a partition are under way at once.
    pub(crate) most_locks: i64,
    pub(crate) reset: Reset,
    /// Whether it gets only what is committed.
    pub(crate) committed: bool,
    /// Whether members may renew locks (KIP-1222).
    pub(crate) renews: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_a_word_or_a_duration() {
        let seconds = |seconds| Some(Reset::ByDuration(Duration::from_secs_f64(seconds)));
        assert_eq!(Reset::parse("earliest"), Some(Reset::Earliest));
        assert_eq!(Reset::parse("latest"), Some(Reset::Latest));
        assert_eq!(Reset::parse("by_duration:PT1H"), seconds(3600.0));
        assert_eq!(Reset::parse("by_duration:P1DT2H3M4.5S"), seconds(93_784.5));
        assert_eq!(Reset::parse("by_duration:P2D"), seconds(172_800.0));
        for wrong in [
            "",
            "none",
            "by_duration:",
            "by_duration:P",
            "by_duration:PT",
            "by_duration:P1H",
        ] {
            assert_eq!(Reset::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Reset::parse("by_duration:PT-1S"), None);
        assert_eq!(Reset::parse("by_duration:P1DT1"), None);
    }
}
