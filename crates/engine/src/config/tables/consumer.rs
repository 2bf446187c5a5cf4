//! The properties that only a consumer has.

macro_rules! consumer {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* BOTH_CONSUMERS {
        /// Bytes that a broker collects before it responds to a fetch.
        "fetch.min.bytes" => fetch_min_bytes: i32 = "1", bytes(0);
        /// Most bytes in the response to one fetch. A larger batch is still returned.
        "fetch.max.bytes" => fetch_max_bytes: i32 = "16777216", bytes(1);
        /// How long a broker waits for fetch.min.bytes.
        "fetch.max.wait.ms" => fetch_max_wait: Duration = "500", millis(0);
        /// Most records that one poll returns. A share consumer has a default of 500, and requests that many from
        /// brokers: other members do not get the records that one member has acquired.
        "max.poll.records" => max_poll_records: usize = "100000", whole(1, i32::MAX as i64);
        /// Most bytes that one batch may decompress to. A larger batch is an error.
        "decompress.max.bytes" => decompress_max_bytes: usize = "268435456", bytes(1);
        /// Whether the checksum of every batch is verified.
        "check.crcs" => check_crcs: bool = "true", bool();
        /// Whether reading a topic that does not exist creates it, if the broker's auto.create.topics.enable allows that. With
        /// false, such a topic is an error.
        "allow.auto.create.topics" => allow_auto_create_topics: bool = "false", bool();
    } CONSUMER {
        /// Most bytes of one partition in the response to one fetch. A larger batch is still returned.
        "max.partition.fetch.bytes" => max_partition_fetch_bytes: i32 = "4194304", bytes(1);
        /// Most bytes that are requested from brokers or wait for a poll; at this limit fetching pauses.
        "prefetch.max.bytes" => prefetch_max_bytes: usize = "33554432", bytes(1, i64::MAX);
        /// Most bytes that are requested or wait for a poll in all consumers of the process. Each has the same part of it for its
        /// own, at most prefetch.max.bytes.
        "prefetch.total.max.bytes" => prefetch_total_max_bytes: usize = "1073741824", bytes(1, i64::MAX);
        /// Where to start without a position, or if the records at the position are gone: at the first record
        /// (earliest), after the last one (latest), at the first record that is not older than a duration (by_duration:
        /// and a duration of ISO 8601, such as by_duration:PT6H or by_duration:P1DT12H; KIP-1106), or nowhere, with an
        /// error (none). Where a log was truncated, as after an unclean election, reading goes on where it was, and
        /// none is an error (KIP-320).
        "auto.offset.reset" => auto_offset_reset: OffsetReset = "latest", text(offset_reset);
        /// Whether records of open and aborted transactions are hidden.
        "isolation.level" => read_committed: bool = "read_uncommitted", choice(
            "read_uncommitted" => false,
            "read_committed" => true
        );
    } PRODUCER_AND_CONSUMERS {
        /// The rack of this client, in the terms of the brokers' broker.rack. A leader with a replica selector then
        /// sends a consumer to a nearer replica (KIP-392); a producer uses it with partitioner.rack.aware.
        "client.rack" => client_rack: Option<String>, text(optional);
    } } };
}
pub(in crate::config) use consumer;

use std::time::Duration;

const BY_DURATION: &str = "by_duration:";
/// Nothing in a log is older.
const OLDEST: u64 = 100 * 366 * 86_400;

/// Where to start without a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record there is.
    Earliest,
    /// After the last record there is.
    #[default]
    Latest,
    /// At the first record that is at most so old; after the last one, if all are older.
    ByDuration(Duration),
    /// Nowhere: it is an error.
    None,
}

pub(in crate::config) fn offset_reset(text: &str) -> Result<OffsetReset, String> {
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "earliest" => return Ok(OffsetReset::Earliest),
        "latest" => return Ok(OffsetReset::Latest),
        "none" => return Ok(OffsetReset::None),
        _ => {}
    }
    let Some(written) = text.strip_prefix(BY_DURATION) else {
        return Err("must be earliest, latest, by_duration: and a duration, or none".to_owned());
    };
    match duration(written) {
        Some(duration) if duration.as_secs() <= OLDEST => Ok(OffsetReset::ByDuration(duration)),
        _ => Err(
            "must name a duration of ISO 8601 after by_duration:, of days, hours, minutes and seconds, at most 100 years, such as \
             PT6H or P1DT12H30M"
                .to_owned(),
        ),
    }
}

/// A duration of ISO 8601 in lower case, of days of 24 hours and of parts of days, as Java's `Duration` reads it; not below 0.
fn duration(text: &str) -> Option<Duration> {
    let (days, clock) = match text.strip_prefix('p')?.split_once('t') {
        Some((days, clock)) if !clock.is_empty() => (days, clock),
        Some(_) => return None,
        None => (text.strip_prefix('p')?, ""),
    };
    let (days, rest) = part(days, 'd', 86_400)?;
    let (hours, clock) = part(clock, 'h', 3600)?;
    let (minutes, clock) = part(clock, 'm', 60)?;
    let (seconds, end) = seconds(clock)?;
    let parts = [days, hours, minutes, seconds];
    if !rest.is_empty() || !end.is_empty() || parts.iter().all(Option::is_none) {
        return None;
    }
    let mut parts = parts.into_iter().flatten();
    parts.try_fold(Duration::ZERO, Duration::checked_add)
}

/// A whole number before `unit`, of which each is `seconds` seconds, if there is one, and the text
/// after it.
fn part(text: &str, unit: char, seconds: u64) -> Option<(Option<Duration>, &str)> {
    let Some((number, rest)) = text.split_once(unit) else {
        return Some((None, text));
    };
    let seconds = whole(number)?.checked_mul(seconds)?;
    Some((Some(Duration::from_secs(seconds)), rest))
}

/// As `part`, of seconds, which may have up to nine decimals.
fn seconds(text: &str) -> Option<(Option<Duration>, &str)> {
    let Some((number, rest)) = text.split_once('s') else {
        return Some((None, text));
    };
    let (number, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let nanos = whole(&format!("{decimals:0<9}")).filter(|_| decimals.len() <= 9)?;
    let nanos = u32::try_from(nanos).ok()?;
    Some((Some(Duration::new(whole(number)?, nanos)), rest))
}

fn whole(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_java_reads_them() {
        let read = |text: &str| match offset_reset(&format!("by_duration:{text}")) {
            Ok(OffsetReset::ByDuration(duration)) => Some(duration.as_millis()),
            _ => None,
        };
        for (text, millis) in [
            ("PT6H", 21_600_000),
            ("P1D", 86_400_000),
            ("p1dt2h3m4.5s", 93_784_500),
            ("PT0S", 0),
            ("PT90M", 5_400_000),
            ("PT1.000000001S", 1_000),
        ] {
            assert_eq!(read(text), Some(millis), "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1DT",
            "1D",
            "PT-6H",
            "-PT6H",
            "P1M",
            "P1W",
            "PT1M2H",
            "PT1H2",
            "PT1.5H",
            "PT1.0000000001S",
            "P99999999999D",
            "P18446744073709551615D",
            "PT6H ",
            "PT+6H",
            "PTS",
            "PT.5S",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(offset_reset("Earliest"), Ok(OffsetReset::Earliest));
        assert!(offset_reset("smallest").is_err());
    }
}
