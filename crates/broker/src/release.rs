//! Releases of Kafka that the broker can be: which versions of each API it takes, and what it does with others.
//!
//! The versions are those that brokers of these releases advertise. 0.8.2 and 0.9.0 advertise none,
//! so they are those that these support.

use ottla_protocol::{ApiKey, Versions};

use crate::storage::producers::REMEMBERED;

/// A release, by the place of its column in [`SPOKEN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(usize);

/// The oldest first.
const NAMES: [&str; 11] = [
    "0.8.2", "0.9.0", "0.10.0", "0.10.2", "0.11.0", "1.1", "2.3", "2.8", "3.9", "4.0", "4.4",
];

/// The range of a release that does not have an API.
const NONE: (i16, i16) = (0, -1);

/// The least and the most version of each API, a column for each release.
#[rustfmt::skip]
const SPOKEN: &[(ApiKey, [(i16, i16); NAMES.len()])] = &[
    (ApiKey::Produce, [(0, 0), (0, 1), (0, 2), (0, 2), (0, 3), (0, 5), (0, 7), (0, 9), (0, 11), (0, 12), (0, 13)]),
    (ApiKey::Fetch, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 5), (0, 7), (0, 11), (0, 12), (0, 17), (4, 17), (4, 18)]),
    (ApiKey::ListOffsets, [(0, 0), (0, 0), (0, 0), (0, 1), (0, 2), (0, 2), (0, 5), (0, 6), (0, 9), (1, 10), (1, 11)]),
    (ApiKey::Metadata, [(0, 0), (0, 0), (0, 1), (0, 2), (0, 4), (0, 5), (0, 8), (0, 11), (0, 12), (0, 13), (0, 13)]),
    (ApiKey::OffsetCommit, [(0, 1), (0, 2), (0, 2), (0, 2), (0, 3), (0, 3), (0, 7), (0, 8), (0, 9), (2, 9), (2, 10)]),
    (ApiKey::OffsetFetch, [(0, 1), (0, 1), (0, 1), (0, 2), (0, 3), (0, 3), (0, 5), (0, 7), (0, 9), (1, 9), (1, 10)]),
    (ApiKey::FindCoordinator, [(0, 0), (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (0, 3), (0, 6), (0, 6), (0, 6)]),
    (ApiKey::JoinGroup, [NONE, (0, 0), (0, 0), (0, 1), (0, 2), (0, 2), (0, 5), (0, 7), (0, 9), (0, 9), (0, 9)]),
    (ApiKey::Heartbeat, [NONE, (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 3), (0, 4), (0, 4), (0, 4), (0, 4)]),
    (ApiKey::LeaveGroup, [NONE, (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (0, 4), (0, 5), (0, 5), (0, 5)]),
    (ApiKey::SyncGroup, [NONE, (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 3), (0, 5), (0, 5), (0, 5), (0, 5)]),
    (ApiKey::DescribeGroups, [NONE, (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 3), (0, 5), (0, 5), (0, 6), (0, 6)]),
    (ApiKey::ListGroups, [NONE, (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (0, 4), (0, 5), (0, 5), (0, 5)]),
    (ApiKey::SaslHandshake, [NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1)]),
    (ApiKey::ApiVersions, [NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (0, 3), (0, 4), (0, 4), (0, 5)]),
    (ApiKey::CreateTopics, [NONE, NONE, NONE, (0, 1), (0, 2), (0, 2), (0, 3), (0, 7), (0, 7), (2, 7), (2, 7)]),
    (ApiKey::DeleteTopics, [NONE, NONE, NONE, (0, 0), (0, 1), (0, 1), (0, 3), (0, 6), (0, 6), (1, 6), (1, 6)]),
    (ApiKey::DeleteRecords, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 2), (0, 2), (0, 2), (0, 2)]),
    (ApiKey::InitProducerId, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 4), (0, 5), (0, 5), (0, 5)]),
    (ApiKey::OffsetForLeaderEpoch, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 3), (0, 4), (0, 4), (2, 4), (2, 4)]),
    (ApiKey::AddPartitionsToTxn, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 3), (0, 5), (0, 5), (0, 5)]),
    (ApiKey::AddOffsetsToTxn, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 3), (0, 4), (0, 4), (0, 4)]),
    (ApiKey::EndTxn, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 3), (0, 4), (0, 5), (0, 5)]),
    (ApiKey::WriteTxnMarkers, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (1, 1), (1, 2)]),
    (ApiKey::TxnOffsetCommit, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6)]),
    (ApiKey::DescribeAcls, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 3)]),
    (ApiKey::CreateAcls, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 3)]),
    (ApiKey::DeleteAcls, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 3)]),
    (ApiKey::DescribeConfigs, [NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 4), (0, 4), (1, 4), (1, 4)]),
    (ApiKey::SaslAuthenticate, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 2), (0, 2), (0, 2)]),
    (ApiKey::CreatePartitions, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 3), (0, 3), (0, 3), (0, 3)]),
    (ApiKey::CreateDelegationToken, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 3)]),
    (ApiKey::RenewDelegationToken, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 2)]),
    (ApiKey::ExpireDelegationToken, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 2)]),
    (ApiKey::DescribeDelegationToken, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 3)]),
    (ApiKey::DeleteGroups, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 2), (0, 2), (0, 3)]),
    (ApiKey::AlterConfigs, [NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1), (0, 2), (0, 2), (0, 2), (0, 2)]),
    (ApiKey::IncrementalAlterConfigs, [NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 1), (0, 1), (0, 1)]),
    (ApiKey::OffsetDelete, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 0)]),
    // Brokers of 3.9 list these two, and reject them without the feature group.version.
    (ApiKey::ConsumerGroupHeartbeat, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 1)]),
    (ApiKey::ConsumerGroupDescribe, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 1)]),
    (ApiKey::DescribeClientQuotas, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 1), (0, 1), (0, 1), (0, 1)]),
    (ApiKey::AlterClientQuotas, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 1), (0, 1), (0, 1), (0, 1)]),
    (ApiKey::DescribeUserScramCredentials, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 0)]),
    (ApiKey::AlterUserScramCredentials, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 0)]),
    (ApiKey::DescribeCluster, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 2)]),
    (ApiKey::DescribeProducers, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 0)]),
    (ApiKey::DescribeTransactions, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0)]),
    (ApiKey::ListTransactions, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 1), (0, 1), (0, 2)]),
    (ApiKey::GetTelemetrySubscriptions, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0)]),
    (ApiKey::PushTelemetry, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0)]),
    (ApiKey::ShareGroupHeartbeat, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (1, 1)]),
    (ApiKey::ShareGroupDescribe, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (1, 1)]),
    (ApiKey::ShareFetch, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (1, 2)]),
    (ApiKey::DescribeShareGroupOffsets, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 1)]),
    (ApiKey::AlterShareGroupOffsets, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0)]),
    (ApiKey::DeleteShareGroupOffsets, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0)]),
    (ApiKey::AlterReplicaLogDirs, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 2), (1, 2), (1, 2)]),
    (ApiKey::DescribeLogDirs, [NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 4), (1, 4), (1, 5)]),
    (ApiKey::ElectLeaders, [NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 2), (0, 2), (0, 2), (0, 2)]),
    (ApiKey::AlterPartitionReassignments, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 1)]),
    (ApiKey::ListPartitionReassignments, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0), (0, 0)]),
    (ApiKey::DescribeQuorum, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 2), (0, 2), (0, 2)]),
    (ApiKey::UpdateFeatures, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 1), (0, 2), (0, 2)]),
    (ApiKey::UnregisterBroker, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0)]),
    (ApiKey::UnregisterController, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0)]),
    (ApiKey::ListConfigResources, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1)]),
    (ApiKey::AddRaftVoter, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 1)]),
    (ApiKey::RemoveRaftVoter, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0)]),
    (ApiKey::StreamsGroupDescribe, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 1)]),
    (ApiKey::DescribeTopicPartitions, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0), (0, 0), (0, 0)]),
    (ApiKey::StreamsGroupHeartbeat, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 1)]),
    (ApiKey::StreamsGroupTopologyDescriptionUpdate, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (0, 0)]),
    (ApiKey::ShareAcknowledge, [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, (1, 2)]),
];

/// The most version of what is not final, in the newest release (`unstable.api.versions.enable`).
const UNSTABLE: &[(ApiKey, i16)] = &[(ApiKey::InitProducerId, 6)];

/// The version of Produce that came with the memory of several batches.
const FIRST_THAT_REMEMBERS_FIVE: i16 = 4;

/// What a broker does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It takes it for one of this version, or refuses that as its API refuses a version that it does not know.
    Take(i16),
    /// It never responds, and the connection stays.
    Ignore,
    /// It closes the connection.
    Close,
}

impl Release {
    /// The newest.
    pub const NEWEST: Release = Release(NAMES.len() - 1);

    /// All of them, the oldest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Release> + Clone {
        (0..NAMES.len()).map(Release)
    }

    /// The release of this name, such as `2.8` or `2.8.1`.
    ///
    /// # Errors
    /// Which there are.
    pub fn parse(text: &str) -> Result<Release, String> {
        let is_called = |name: &str| {
            let rest = text.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let found = NAMES.iter().position(|name| is_called(name));
        found.map(Release).ok_or_else(|| {
            format!(
                "there is no release \"{text}\" to be; there are {}",
                NAMES.join(", ")
            )
        })
    }

    /// Its name, as in `2.8`.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(self.0).copied().unwrap_or_default()
    }

    /// The versions of an API that it advertises; `None` if it does not have it.
    pub(crate) fn versions(self, api: ApiKey) -> Option<Versions> {
        let (_, row) = SPOKEN.iter().find(|(key, _)| *key == api)?;
        let (min, max) = row.get(self.0).copied().filter(|range| *range != NONE)?;
        Some(Versions { min, max })
    }

    /// As [`Self::versions`], with those that are not final.
    pub(crate) fn versions_with_unstable(self, api: ApiKey) -> Option<Versions> {
        let told = self.versions(api)?;
        let unstable = UNSTABLE.iter().find(|(key, _)| *key == api);
        let unstable = unstable.filter(|_| self == Self::NEWEST);
        Some(Versions {
            max: unstable.map_or(told.max, |(_, most)| *most),
            ..told
        })
    }

    /// The level of the feature `transaction.version` that its clusters begin with (KIP-890); `None` where it has no such
    /// feature.
    pub(crate) fn transaction_version(self) -> Option<i16> {
        match self.name() {
            "4.0" | "4.4" => Some(2),
            _ => None,
        }
    }

    /// The level of the feature `group.version` that its clusters begin with (KIP-848); `None` where it has no such feature.
    pub(crate) fn group_version(self) -> Option<i16> {
        match self.name() {
            "4.0" | "4.4" => Some(1),
            _ => None,
        }
    }

    /// The level of the feature `share.version` that its clusters begin with (KIP-932); `None` where it has no such feature, or
    /// a preview of it.
    pub(crate) fn share_version(self) -> Option<i16> {
        match self.name() {
            "4.4" => Some(2),
            _ => None,
        }
    }

    /// How many batches of a producer its brokers know again in a partition: those before 1.0 the last one only
    /// (KAFKA-5494).
    pub(crate) fn remembered_batches(self) -> usize {
        match self.versions(ApiKey::Produce) {
            Some(told) if told.max < FIRST_THAT_REMEMBERS_FIVE => 1,
            _ => REMEMBERED,
        }
    }

    /// What it does with a request of this version.
    pub(crate) fn manner(self, api: ApiKey, version: i16) -> Manner {
        let told = self.versions(api);
        match (self.name(), api, version) {
            // It advertises them for the sake of old clients' feature checks only (KAFKA-18659).
            ("4.0" | "4.4", ApiKey::Produce, 0..=2) => Manner::Close,
            _ if told.is_some_and(|told| told.contains(version)) => Manner::Take(version),
            // Its reader of these requests looks at no version.
            ("0.8.2", ApiKey::Produce | ApiKey::Fetch, 1..=2) => Manner::Take(0),
            ("0.9.0", ApiKey::Produce | ApiKey::Fetch, 2) => Manner::Take(1),
            ("0.9.0", ..) => Manner::Ignore,
            (_, ApiKey::ApiVersions, _) if told.is_some() => Manner::Take(version),
            _ => Manner::Close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Release {
        Release::parse(name).unwrap()
    }

    #[test]
    fn every_cell_is_a_range() {
        for release in Release::all() {
            for (api, row) in SPOKEN {
                let versions = release.versions(*api);
                let is_empty = row[release.0] == NONE;
                assert_eq!(versions.is_none(), is_empty, "{} {api:?}", release.name());
                assert!(versions.is_none_or(|it| it.min <= it.max));
            }
        }
    }

    #[test]
    fn unstable_versions_are_the_newest_releases() {
        let api = ApiKey::InitProducerId;
        let most = |name| named(name).versions_with_unstable(api).unwrap().max;
        assert_eq!((most("4.4"), most("4.0"), most("2.8")), (6, 5, 4));
    }

    #[test]
    fn brokers_before_1_0_remember_one_batch() {
        let remembered = |name| named(name).remembered_batches();
        assert_eq!((remembered("0.11.0"), remembered("1.1")), (1, 5));
        assert_eq!(remembered("4.4"), 5);
    }

    #[test]
    fn a_release_is_found_by_its_name_and_its_patches() {
        assert_eq!(named("2.8"), named("2.8.2"));
        assert_eq!(named("0.10.2.2").name(), "0.10.2");
        let error = Release::parse("2.80").unwrap_err();
        assert!(
            error.contains("\"2.80\"") && error.contains("2.8, 3.9"),
            "{error}"
        );
    }

    #[test]
    fn old_brokers_have_their_manners() {
        let manner = |name, api, version| named(name).manner(api, version);
        assert_eq!(manner("0.8.2", ApiKey::ApiVersions, 0), Manner::Close);
        assert_eq!(manner("0.8.2", ApiKey::Produce, 2), Manner::Take(0));
        assert_eq!(manner("0.8.2", ApiKey::Fetch, 3), Manner::Close);
        assert_eq!(manner("0.9.0", ApiKey::ApiVersions, 0), Manner::Ignore);
        assert_eq!(manner("0.9.0", ApiKey::Produce, 2), Manner::Take(1));
        assert_eq!(manner("0.10.0", ApiKey::ApiVersions, 3), Manner::Take(3));
        assert_eq!(manner("0.10.0", ApiKey::Produce, 3), Manner::Close);
        assert_eq!(manner("4.4", ApiKey::Produce, 2), Manner::Close);
        assert_eq!(manner("3.9", ApiKey::Produce, 0), Manner::Take(0));
    }
}
