//! Unclean elections: a leader is chosen whatever it has, and what others have more is lost.

use std::sync::Arc;

use super::World;
use crate::history::Seen;

impl World {
    /// A partition gets another leader that may lack records; with `lags` only one that is out of sync.
    pub(super) fn elect_unclean(&mut self, topic: usize, partition: i32, lags: bool) -> bool {
        let Some((name, count)) = self.topics.get(topic) else {
            return false;
        };
        let place = (Arc::clone(name), partition % (*count).max(1));
        let elected = match lags {
            true => self.brokers.elect_laggard(&place.0, place.1),
            false => self.brokers.move_leader(&place.0, place.1, true),
        };
        if !elected {
            return false;
        }
        let history = &mut self.book.history;
        history.leaders_lost = true;
        history.lossy.insert(place.clone(), history.sends.len());
        for seen in &mut history.seen {
            seen.push(Seen::Elected(place.clone()));
        }
        // The leader before it goes on taking records until it has heard.
        if !self.wrong.deaf.is_empty() {
            self.unheard.push(place);
        }
        true
    }

    /// A node has heard of what it had missed. Once all have, nobody takes records any more that are lost.
    pub(super) fn hear_of_elections(&mut self) {
        if self.wrong.deaf.is_empty() {
            let history = &mut self.book.history;
            for place in self.unheard.drain(..) {
                history.lossy.insert(place, history.sends.len());
            }
        }
    }
}
