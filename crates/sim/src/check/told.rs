//! R20 at malicious brokers: whatever they send, a member of a share group receives a result for
//! each of its final acknowledgements. Only what applications did and received is checked.

use std::collections::BTreeMap;

use ottla_engine::share_consumer::AcknowledgeType;

use crate::history::{Anomaly, History};
use crate::shared::{Range, Shared};

/// Acknowledgements without a result until their member had left, or the run was over.
pub(super) fn check(history: &History) -> Vec<Anomaly> {
    let mut found = Vec::new();
    let mut open: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for (_, process, shared) in &history.shared {
        let open = open.entry(*process).or_default();
        match shared {
            Shared::Said(range, kind) if *kind != AcknowledgeType::Renew => {
                open.push((range, *kind));
            }
            Shared::Told(told, kind, _) => open.retain(|(said, known)| {
                let within = told.first <= said.first && said.last <= told.last;
                Some(*known) != *kind || told.place != said.place || !within
            }),
            // Its process cannot receive results.
            Shared::Died => open.clear(),
            Shared::Left(_) => found.extend(open.drain(..).map(|it| untold(*process, &it))),
            _ => {}
        }
    }
    for (process, open) in &open {
        found.extend(open.iter().map(|it| untold(*process, it)));
    }
    found
}

fn untold(process: usize, said: &(&Range, AcknowledgeType)) -> Anomaly {
    Anomaly {
        invariant: "R20",
        name: "ack-unresolved",
        text: format!("sharer {process} received no result of {said:?}"),
    }
}
