//! The topics of the cluster as groups see them: which there are, and how many partitions each has.

use std::collections::{BTreeMap, BTreeSet};

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

    /// A number that differs when these topics do, of which not all have to be there: FNV-1a (Fowler, Noll and Vo), 0 without
    /// any.
    pub(crate) fn hash(&self, names: BTreeSet<&String>) -> u64 {
        let mut hash = 0;
        for name in names {
            let Some((id, partitions)) = self.topic(name) else {
                continue;
            };
            if hash == 0 {
                hash = 0xCBF2_9CE4_8422_2325_u64;
            }
            let bytes = name.bytes().chain(id.0).chain(partitions.to_be_bytes());
            for byte in bytes {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        hash
    }

    /// The names of all topics, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Str> {
        self.by_name.keys()
    }
}
