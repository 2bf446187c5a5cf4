//! An assignor that a member offers: built in, or the caller's.

use std::sync::Arc;

use crate::config::CustomAssignor;
use crate::group::assignor::{Assignor, RebalanceProtocol, by_name};

#[derive(Clone, Debug)]
pub(super) enum Strategy {
    Own(&'static dyn Assignor),
    Custom(CustomAssignor),
}

impl Strategy {
    /// The assignor of this name, as the settings list it.
    pub(super) fn find(name: &str, customs: &[CustomAssignor]) -> Option<Strategy> {
        let custom = customs.iter().find(|it| *it.name == *name);
        let custom = custom.cloned().map(Strategy::Custom);
        custom.or_else(|| by_name(name).map(Strategy::Own))
    }

    pub(super) fn name(&self) -> Arc<str> {
        match self {
            Strategy::Own(own) => own.name().into(),
            Strategy::Custom(custom) => Arc::clone(&custom.name),
        }
    }

    pub(super) fn cooperates(&self) -> bool {
        match self {
            Strategy::Own(own) => own.protocols().contains(&RebalanceProtocol::Cooperative),
            Strategy::Custom(custom) => custom.cooperates,
        }
    }
}
