//! What AlterConfigs and IncrementalAlterConfigs reject alike: a resource that is named twice, and a setting that is.

use std::collections::BTreeMap;

use ottla_protocol::ErrorCode;

/// A code, and the message with it.
pub(super) type Rejected = (ErrorCode, String);

/// The types of resources with settings.
pub(super) const TOPIC: i8 = 2;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// The type and name of a resource, and the names of its settings.
pub(super) type Named<'a> = (i8, &'a str, Vec<&'a str>);

/// For each resource of a request, why it is rejected before anything is looked up.
pub(super) fn repeated(resources: &[Named<'_>]) -> Vec<Result<(), Rejected>> {
    let mut counts = BTreeMap::new();
    for (kind, name, _) in resources {
        *counts.entry((*kind, *name)).or_insert(0) += 1;
    }
    let check = |(kind, name, settings): &Named<'_>| {
        let invalid = |text: &str| Err((ErrorCode::INVALID_REQUEST, text.to_owned()));
        if counts.get(&(*kind, *name)).is_some_and(|count| *count > 1) {
            return invalid("the request names this resource more than once");
        }
        let mut sorted = settings.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair.first() == pair.last()) {
            return invalid("the request names a setting of this resource more than once");
        }
        Ok(())
    };
    resources.iter().map(check).collect()
}
