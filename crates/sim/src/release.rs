//! Releases that a node can tell it is: what its answer to ApiVersions leaves out, so that clients speak as they would with it.

use ottla_protocol::ApiKey;
use ottla_protocol::messages::ApiVersionsResponse;

/// A release, by the highest versions that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its number.
    pub name: &'static str,
    highest: &'static [(ApiKey, i16)],
}

/// The oldest first. The last one speaks everything.
pub const RELEASES: &[Release] = &[
    Release {
        name: "1.0",
        highest: &[
            (ApiKey::Produce, 5),
            (ApiKey::Fetch, 6),
            (ApiKey::ListOffsets, 2),
            (ApiKey::Metadata, 5),
            (ApiKey::InitProducerId, 0),
            (ApiKey::ApiVersions, 1),
            (ApiKey::SaslAuthenticate, 0),
        ],
    },
    Release {
        name: "2.1",
        highest: &[
            (ApiKey::Produce, 7),
            (ApiKey::Fetch, 10),
            (ApiKey::ListOffsets, 4),
            (ApiKey::Metadata, 7),
            (ApiKey::InitProducerId, 1),
            (ApiKey::ApiVersions, 2),
            (ApiKey::SaslAuthenticate, 0),
        ],
    },
    Release {
        name: "2.8",
        highest: &[
            (ApiKey::Produce, 9),
            (ApiKey::Fetch, 12),
            (ApiKey::ListOffsets, 6),
            (ApiKey::Metadata, 11),
            (ApiKey::InitProducerId, 4),
            (ApiKey::ApiVersions, 3),
        ],
    },
    Release {
        name: "3.5",
        highest: &[
            (ApiKey::Produce, 9),
            (ApiKey::Fetch, 15),
            (ApiKey::ListOffsets, 8),
            (ApiKey::Metadata, 12),
            (ApiKey::InitProducerId, 4),
            (ApiKey::ApiVersions, 3),
        ],
    },
    Release {
        name: "newest",
        highest: &[],
    },
];

impl Release {
    /// Leaves out of an answer what this release does not speak.
    pub fn limit(self, answer: &mut ApiVersionsResponse) {
        for row in &mut answer.api_keys {
            let known = self
                .highest
                .iter()
                .find(|(api, _)| api.as_i16() == row.api_key);
            if let Some((_, highest)) = known {
                row.max_version = row.max_version.min(*highest);
            }
        }
    }
}
