//! The topics of the cluster as groups see them: which there are, and how many partitions each has.

use std::collections::BTreeMap;

use ottla_protocol::{Str, Uuid};

/// All topics at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    /// Another one has another version.
    pub(crate) version: u64,
    by_name: BTreeMap<Str, (Uuid, i32)>,
    names: BTreeMap<Uuid, Str>,
}

impl Catalogue {
    /// Topics as name, id and number of partitions.
    pub(crate) fn new(version: u64, topics: impl Iterator<Item = (Str, Uuid, i32)>) -> Self {
        let mut catalogue = Self {
            version,
            ..Self::default()
        };
        for (name, id, partitions) in topics {
            catalogue.names.insert(id, name.clone());
            catalogue.by_name.insert(name, (id, partitions));
        }
        catalogue
    }

    /// A topic's id and number of partitions.
    pub(crate) fn topic(&self, name: &str) -> Option<(Uuid, i32)> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name(&self, id: Uuid) -> Option<&Str> {
        self.names.get(&id)
    }

    /// The names of all topics, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Str> {
        self.by_name.keys()
    }
}
