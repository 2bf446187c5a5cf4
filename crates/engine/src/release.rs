//! Which release of Kafka supports which versions: how a broker's release is recognized by its
//! versions, what brokers support that do not return them, and with which release each API came.
//!
//! The facts are those of the message definitions in the releases' client jars, of 0.8 and 0.9 those of real brokers.

use ottla_protocol::ApiKey;

/// A generation of brokers that do not return their versions: ApiVersions came with 0.10.0
/// (KIP-35).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 0.8.2. It closes a connection on a request that it does not know, and responds to an unknown
    /// version in the layout of one that it knows.
    V0_8,
    /// 0.9. It never responds to a request that it does not know.
    V0_9,
}

impl Era {
    /// The release, as in an error's text.
    pub const fn name(self) -> &'static str {
        match self {
            Era::V0_8 => "0.8",
            Era::V0_9 => "0.9",
        }
    }

    /// The APIs for clients that its brokers serve, from version 0 to this one.
    pub(crate) const fn speaks(self) -> &'static [(ApiKey, i16)] {
        match self {
            Era::V0_8 => &[
                (ApiKey::Produce, 0),
                (ApiKey::Fetch, 0),
                (ApiKey::ListOffsets, 0),
                (ApiKey::Metadata, 0),
                (ApiKey::OffsetCommit, 1),
                (ApiKey::OffsetFetch, 1),
                (ApiKey::FindCoordinator, 0),
            ],
            Era::V0_9 => &[
                (ApiKey::Produce, 1),
                (ApiKey::Fetch, 1),
                (ApiKey::ListOffsets, 0),
                (ApiKey::Metadata, 0),
                (ApiKey::OffsetCommit, 2),
                (ApiKey::OffsetFetch, 1),
                (ApiKey::FindCoordinator, 0),
                (ApiKey::JoinGroup, 0),
                (ApiKey::Heartbeat, 0),
                (ApiKey::LeaveGroup, 0),
                (ApiKey::SyncGroup, 0),
                (ApiKey::DescribeGroups, 0),
                (ApiKey::ListGroups, 0),
            ],
        }
    }
}

/// How a connection finds out its broker's versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approach {
    /// Request them.
    #[default]
    Ask,
    /// Request them with a short timeout: a probe comes next.
    AskBriefly,
    /// Find out whether the broker is too old for ApiVersions.
    Probe,
    /// Treat the broker as one of this era, if it responds as one.
    Assume(Era),
}

/// How to treat a broker that does not return its versions (`broker.version.fallback`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Find out on another connection what it is.
    #[default]
    Probe,
    /// Take it for this.
    Old(Era),
    /// It is an error: all brokers return them.
    Never,
}

impl Fallback {
    /// The fallback that the name of a release stands for.
    ///
    /// # Errors
    /// The rule, if `text` names no release.
    pub(crate) fn parse(text: &str) -> Result<Fallback, String> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some([0, 8, ..]) => Ok(Fallback::Old(Era::V0_8)),
            Some([0, 9, ..]) => Ok(Fallback::Old(Era::V0_9)),
            Some([0, minor, ..]) if *minor >= 10 => Ok(Fallback::Never),
            Some([major, ..]) if *major >= 1 => Ok(Fallback::Never),
            _ => Err("must be a release of Kafka, 0.8 or newer, such as 0.8.2 or 0.9.0".to_owned()),
        }
    }
}

/// Each release with a version of an API that no earlier one supports, the newest first. Releases
/// between two rows cannot be distinguished by the versions that they return.
const FIRST_WITH: &[(&str, ApiKey, i16)] = &[
    ("4.4", ApiKey::TxnOffsetCommit, 6),
    ("4.3", ApiKey::DescribeLogDirs, 5),
    ("4.2", ApiKey::ListOffsets, 11),
    ("4.1", ApiKey::Produce, 13),
    ("4.0", ApiKey::Produce, 12),
    ("3.9", ApiKey::Fetch, 17),
    ("3.8", ApiKey::Produce, 11),
    ("3.7", ApiKey::Produce, 10),
    ("3.6", ApiKey::AddPartitionsToTxn, 4),
    ("3.5", ApiKey::Fetch, 15),
    ("3.4", ApiKey::UpdateMetadata, 8),
    ("3.3", ApiKey::DescribeLogDirs, 4),
    ("3.2", ApiKey::JoinGroup, 9),
    ("3.1", ApiKey::Fetch, 13),
    ("3.0", ApiKey::ListOffsets, 7),
    ("2.8", ApiKey::Produce, 9),
    ("2.7", ApiKey::Fetch, 12),
    ("2.6", ApiKey::DescribeClientQuotas, 0),
    ("2.5", ApiKey::InitProducerId, 3),
    ("2.4", ApiKey::Produce, 8),
    ("2.3", ApiKey::IncrementalAlterConfigs, 0),
    ("2.2", ApiKey::ListOffsets, 5),
    ("2.1", ApiKey::Produce, 7),
    ("2.0", ApiKey::Produce, 6),
    ("1.1", ApiKey::Fetch, 7),
    ("1.0", ApiKey::Produce, 5),
    ("0.11", ApiKey::Produce, 3),
    ("0.10.2", ApiKey::CreateTopics, 1),
    ("0.10.1", ApiKey::CreateTopics, 0),
    ("0.10.0", ApiKey::ApiVersions, 0),
    (Era::V0_9.name(), ApiKey::ListGroups, 0),
];

/// The newest release whose brokers support the same versions: `highest` returns the highest
/// version of an API that the broker supports. Other makers' brokers resemble one, too.
pub(crate) fn resembled(highest: impl Fn(ApiKey) -> Option<i16>) -> &'static str {
    let mut rows = FIRST_WITH.iter();
    let row = rows.find(|(_, api, version)| highest(*api).is_some_and(|max| max >= *version));
    row.map_or(Era::V0_8.name(), |(release, ..)| release)
}

/// The release that served an API first, at any version.
pub(crate) const fn first_with(api: ApiKey) -> &'static str {
    match api.as_i16() {
        ..=9 => "0.8",
        10 => "0.8.2",
        11..=16 => "0.9",
        17..=18 => "0.10.0",
        19..=20 => "0.10.1",
        21..=33 => "0.11",
        34..=37 => "1.0",
        38..=42 => "1.1",
        43 => "2.2",
        44 => "2.3",
        45..=47 => "2.4",
        48..=49 => "2.6",
        50..=57 => "2.7",
        58..=64 => "2.8",
        65..=67 => "3.0",
        68 | 70..=74 => "3.7",
        69 | 75 => "3.8",
        80..=82 => "3.9",
        76..=79 | 83..=87 | 90..=92 => "4.1",
        88..=89 => "4.2",
        93.. => "4.4",
    }
}

/// Whether a release came before another.
pub(crate) fn is_before(one: &str, other: &str) -> bool {
    let numbers = |release: &str| -> Vec<u32> {
        release
            .split('.')
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    numbers(one) < numbers(other)
}

/// The first release in which an API has at least `version`, where a row has it.
pub(crate) fn first_with_version(api: ApiKey, version: i16) -> Option<&'static str> {
    if version == 0 {
        return Some(first_with(api));
    }
    let rows = FIRST_WITH.iter().rev();
    let mut rows = rows.filter(|(_, of, _)| *of == api);
    rows.find(|(_, _, first)| *first >= version)
        .map(|(release, ..)| *release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_recognized_by_what_it_speaks_first() {
        for (at, (release, api, version)) in FIRST_WITH.iter().enumerate() {
            let older = FIRST_WITH.get(at..).unwrap();
            let highest = |wanted: ApiKey| {
                let rows = older.iter().filter(|(_, of, _)| *of == wanted);
                rows.map(|(.., max)| *max).max()
            };
            assert_eq!(resembled(highest), *release);
            assert_eq!(highest(*api), Some(*version), "rows of one API descend");
        }
        assert_eq!(resembled(|_| None), "0.8");
        for era in [Era::V0_8, Era::V0_9] {
            let of = |wanted| {
                let mut rows = era.speaks().iter();
                rows.find(|(api, _)| *api == wanted).map(|(_, max)| *max)
            };
            assert_eq!(resembled(of), era.name());
        }
    }

    #[test]
    fn a_fallback_is_a_release() {
        for (text, wanted) in [
            ("0.8.0", Fallback::Old(Era::V0_8)),
            ("0.8.2.2", Fallback::Old(Era::V0_8)),
            ("0.9.0", Fallback::Old(Era::V0_9)),
            ("0.10.0", Fallback::Never),
            ("2.8", Fallback::Never),
            ("4", Fallback::Never),
        ] {
            assert_eq!(Fallback::parse(text), Ok(wanted), "{text}");
        }
        for text in ["", "0.7.2", "0", "old", "0.9.x", "-1.0"] {
            let rule = Fallback::parse(text).unwrap_err();
            assert!(rule.contains("0.8.2"), "{text}: {rule}");
        }
    }

    #[test]
    fn says_which_release_is_needed() {
        assert!(
            is_before("0.9", "0.10.1") && is_before("0.10.2", "0.11") && is_before("0.11", "4.0")
        );
        assert!(!is_before("2.8", "2.8") && !is_before("4.4", "0.8"));
        assert_eq!(first_with(ApiKey::CreateTopics), "0.10.1");
        assert_eq!(first_with(ApiKey::InitProducerId), "0.11");
        assert_eq!(first_with(ApiKey::DescribeProducers), "2.8");
        assert_eq!(first_with_version(ApiKey::Produce, 7), Some("2.1"));
        assert_eq!(first_with_version(ApiKey::Produce, 4), Some("1.0"));
        assert_eq!(first_with_version(ApiKey::SaslHandshake, 1), None);
        assert_eq!(
            first_with_version(ApiKey::FindCoordinator, 0),
            Some("0.8.2")
        );
    }
}
