//! Which segments a log need not keep any longer (`retention.ms`, `retention.bytes`): whole ones, the oldest first.

use crate::config::LogConfig;

/// A segment, as far as its age and its size matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The offset after its last record, where the next segment begins.
    pub(crate) end: i64,
    pub(crate) bytes: u64,
    /// The time of its newest record, by its timestamp or, without one, when it was written. `None` where nobody knows.
    pub(crate) newest: Option<i64>,
}

/// How many of a log's segments go, because they are too many or too old. As in Kafka, nothing goes that clients may not see
/// yet; the last segment can go too.
pub(crate) fn expired(
    config: &LogConfig,
    segments: &[Extent],
    high_watermark: i64,
    now: i64,
) -> usize {
    let spare = oversized(config, segments, high_watermark);
    let Some(kept) = config.retention_ms else {
        return spare;
    };
    let is_old = |segment: &&Extent| {
        let newest = segment.newest;
        newest.is_some_and(|newest| now.saturating_sub(newest) > kept)
    };
    let left = deletable(config, segments, high_watermark).skip(spare);
    spare + left.take_while(is_old).count()
}

/// How many segments go so that what is left is no smaller than the topic wants to keep.
pub(crate) fn oversized(config: &LogConfig, segments: &[Extent], high_watermark: i64) -> usize {
    let Some(kept) = config.retention_bytes else {
        return 0;
    };
    let mut left: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let is_spare = |segment: &&Extent| {
        left -= segment.bytes;
        left >= kept
    };
    let all = deletable(config, segments, high_watermark);
    all.take_while(is_spare).count()
}

fn deletable<'a>(
    config: &LogConfig,
    segments: &'a [Extent],
    high_watermark: i64,
) -> impl Iterator<Item = &'a Extent> {
    let segments = match segments.split_last() {
        _ if !config.deletes => &[],
        Some((last, rest)) if last.bytes == 0 => rest,
        _ => segments,
    };
    let is_visible = move |segment: &&Extent| segment.end <= high_watermark;
    segments.iter().take_while(is_visible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BrokerConfig, Settings, TOPIC_KEYS, Values};

    fn config(settings: &[(&str, &str)]) -> LogConfig {
        let mut values = Values::default();
        for (name, value) in settings {
            values.set(TOPIC_KEYS, name, value).unwrap();
        }
        Settings::new(&BrokerConfig::default())
            .unwrap()
            .log_config(&values)
    }

    /// Segments of ten records each, of these sizes and times.
    fn segments(of: &[(u64, i64)]) -> Vec<Extent> {
        let extent = |(end, (bytes, newest)): (i64, &(u64, i64))| Extent {
            end: 10 * end,
            bytes: *bytes,
            newest: Some(*newest),
        };
        (1..).zip(of).map(extent).collect()
    }

    #[test]
    fn segments_go_by_age_from_the_oldest_on() {
        let config = config(&[("retention.ms", "100")]);
        let count = |of, high_watermark, now| expired(&config, &segments(of), high_watermark, now);
        let three: &[_] = &[(9, 10), (9, 50), (9, 20)];
        assert_eq!(count(three, 30, 110), 0, "not older than that");
        assert_eq!(count(three, 30, 111), 1);
        assert_eq!(
            count(three, 30, 140),
            1,
            "the second is younger than the third"
        );
        assert_eq!(count(three, 30, 151), 3, "the last one too");
        assert_eq!(count(three, 29, 151), 2, "nobody has seen its end");
        assert_eq!(count(&[(9, 10), (0, 0)], 20, 1000), 1, "it is empty");
    }

    #[test]
    fn segments_go_by_size_while_enough_is_left() {
        let config = config(&[("retention.bytes", "20"), ("retention.ms", "-1")]);
        let count = |of, high_watermark| expired(&config, &segments(of), high_watermark, i64::MAX);
        assert_eq!(count(&[(10, 0), (10, 0), (9, 0)], 30), 0);
        assert_eq!(count(&[(10, 0), (10, 0), (10, 0)], 30), 1);
        assert_eq!(count(&[(10, 0), (10, 0), (10, 0)], 9), 0);
        assert_eq!(count(&[(5, 0), (30, 0), (19, 0), (1, 0)], 40), 2);
    }

    #[test]
    fn a_log_that_is_only_compacted_keeps_all() {
        let bounds = [("retention.bytes", "0"), ("retention.ms", "0")];
        for (policy, gone) in [("compact", 0), ("compact,delete", 2), ("delete", 2)] {
            let config = config(&[bounds[0], bounds[1], ("cleanup.policy", policy)]);
            assert_eq!(
                expired(&config, &segments(&[(9, 0), (9, 0)]), 20, 5),
                gone,
                "{policy}"
            );
        }
    }
}
