//! Features of the cluster (KIP-584): what ApiVersions returns of them, and UpdateFeatures.

use ottla_protocol::messages::update_features_request::FeatureUpdateKey;
use ottla_protocol::messages::{ApiVersionsRequest, UpdateFeaturesRequest};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::codes::UpgradeType;
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::only;
use crate::call::{About, Asked, ByItem, Call, Retry, Target, controller};
use crate::error::{Error, Kind};

verbs! {
    describe_features: DescribeFeatures,
    update_features: UpdateFeatures,
}

/// The first version of ApiVersions with features.
const FEATURES: i16 = 3;

/// The first version of UpdateFeatures that only validates, and that distinguishes types of downgrades.
const VALIDATE: i16 = 1;

/// Levels of a feature, the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FeatureLevels {
    /// The lowest.
    pub min: i16,
    /// The highest.
    pub max: i16,
}

/// The features of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct FeatureMetadata {
    /// Those that the cluster has agreed on.
    pub finalized: ByItem<FeatureLevels>,
    /// The epoch of these; `None` if the broker returns none.
    pub epoch: Option<i64>,
    /// Those that the broker could do.
    pub supported: ByItem<FeatureLevels>,
}

/// Describes features.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeFeatures {
    /// The broker of the request; `None` for any.
    pub broker: Option<i32>,
}

impl Call for DescribeFeatures {
    type Found = FeatureMetadata;
    type Answer = FeatureMetadata;
    const API: ApiKey = ApiKey::ApiVersions;

    fn versions(&self) -> (i16, i16) {
        (FEATURES, i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        self.broker.map_or(Target::Any, Target::Node)
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::ApiVersions(ApiVersionsRequest {
            client_software_name: "ottla".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ApiVersions(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return vec![Err(Error::from_code(code, None))];
        }
        let finalized = answer.finalized_features.iter().map(|row| {
            let (min, max) = (row.min_version_level, row.max_version_level);
            (row.name.to_string(), FeatureLevels { min, max })
        });
        let supported = answer.supported_features.iter().map(|row| {
            let (min, max) = (row.min_version, row.max_version);
            (row.name.to_string(), FeatureLevels { min, max })
        });
        let sorted = |mut rows: Vec<(String, FeatureLevels)>| {
            rows.sort_by(|(one, _), (other, _)| one.cmp(other));
            ByItem::of(rows)
        };
        vec![Ok(FeatureMetadata {
            finalized: sorted(finalized.collect()),
            epoch: Some(answer.finalized_features_epoch).filter(|epoch| *epoch >= 0),
            supported: sorted(supported.collect()),
        })]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the features")
    }
}

/// The level that a feature is to have.
#[derive(Clone, Debug, Deserialize)]
pub struct FeatureUpdate {
    /// The feature.
    pub feature: String,
    /// Its highest level; 0 removes it.
    pub level: i16,
    /// Whether the level may become lower.
    pub upgrade_type: UpgradeType,
}

/// Changes levels of features, all or none where brokers support version 2 (Kafka 4.0).
#[derive(Clone, Debug, Deserialize)]
pub struct UpdateFeatures {
    /// The levels.
    pub updates: Vec<FeatureUpdate>,
    /// Whether nothing is changed.
    pub validate_only: bool,
}

impl Call for UpdateFeatures {
    /// Failed features with their errors.
    type Found = Vec<(String, Error)>;
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::UpdateFeatures;

    fn versions(&self) -> (i16, i16) {
        let is_old = !self.validate_only
            && self
                .updates
                .iter()
                .all(|row| row.upgrade_type == UpgradeType(1));
        (if is_old { 0 } else { VALIDATE }, i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        let updates = self.updates.iter().map(|row| FeatureUpdateKey {
            feature: row.feature.as_str().into(),
            max_version_level: row.level,
            upgrade_type: row.upgrade_type.0,
            ..Default::default()
        });
        Request::UpdateFeatures(UpdateFeaturesRequest {
            timeout_ms: about.timeout_ms,
            feature_updates: updates.collect(),
            validate_only: self.validate_only,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::UpdateFeatures(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let text = answer.error_message.as_deref();
            return vec![Err(Error::from_code(code, text))];
        }
        let rows = answer.results.iter();
        let rows = rows.filter(|row| ErrorCode(row.error_code).is_error());
        let failed = rows.map(|row| {
            let code = ErrorCode(row.error_code);
            let error = Error::from_code(code, row.error_message.as_deref());
            (row.feature.to_string(), error.calling(Self::API.name()))
        });
        vec![Ok(failed.collect())]
    }

    fn changes(&self) -> bool {
        !self.validate_only
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        let failed = match only(found, "the features") {
            Ok(failed) => failed,
            // The response contains no results: no feature was changed.
            Err(error) if error.kind() == Kind::Broker => {
                let names = self.updates.iter().map(|row| row.feature.clone());
                names.map(|name| (name, error.clone())).collect()
            }
            Err(error) => return Err(error),
        };
        let results = self.updates.iter().map(|row| {
            let error = failed.iter().find(|(name, _)| *name == row.feature);
            error.map_or(Ok(()), |(_, error)| Err(error.clone()))
        });
        let results = results.collect();
        let names = self.updates.into_iter().map(|row| row.feature);
        ByItem::new(names.collect(), results)
    }
}
