//! Metadata from the controller on its way to a node: in order, and as late as the driver of the
//! cluster wants.
//!
//! A node without the newest metadata goes on with the old: it leads what others lead by now, and
//! knows nothing of new topics.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ottla_protocol::Str;

use super::image::Image;

/// Something that nodes must know.
#[derive(Debug, Clone)]
pub(crate) enum Word {
    /// A topic is so from now on.
    Topic(Image),
    /// A topic is gone.
    Gone(Str),
}

/// What a node has not heard yet.
#[derive(Debug, Default)]
pub(crate) struct Way {
    delay: Duration,
    /// When each is heard; `None` until somebody who knows the time has looked.
    words: VecDeque<(Option<Instant>, Word)>,
}

impl Way {
    /// Whether a word that is spoken now is heard at once.
    pub(crate) fn is_open(&self) -> bool {
        self.delay.is_zero() && self.words.is_empty()
    }

    /// Whether the node has heard everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn push(&mut self, word: Word) {
        self.words.push_back((None, word));
    }

    /// What is spoken from now on takes so long. If that is no time, the rest is heard at once.
    pub(crate) fn set_delay(&mut self, delay: Duration, now: Instant) {
        self.delay = delay;
        if delay.is_zero() {
            self.words.iter_mut().for_each(|(due, _)| *due = Some(now));
        }
    }

    /// The next word that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Word> {
        let fresh = self.words.iter_mut().filter(|(due, _)| due.is_none());
        fresh.for_each(|(due, _)| *due = now.checked_add(self.delay));
        let is_due = self.next_timeout().is_some_and(|due| due <= now);
        is_due
            .then(|| self.words.pop_front())?
            .map(|(_, word)| word)
    }

    /// When the next word is heard.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.words.front().and_then(|(due, _)| *due)
    }

    /// Drops what was not heard: the node learns it otherwise.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(way: &mut Way, now: Instant) -> Vec<String> {
        let words = std::iter::from_fn(|| way.pop(now));
        let name = |word| match word {
            Word::Topic(image) => image.name.to_string(),
            Word::Gone(name) => name.to_string(),
        };
        words.map(name).collect()
    }

    #[test]
    fn words_are_heard_in_order_and_late() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let mut way = Way::default();
        assert!(way.is_open());
        way.set_delay(Duration::from_millis(100), start);
        assert!(!way.is_open() && way.is_empty());
        way.push(Word::Gone("a".into()));
        assert_eq!(names(&mut way, start), [""; 0]);
        assert_eq!(way.next_timeout(), Some(later(100)));
        way.set_delay(Duration::from_millis(10), later(50));
        way.push(Word::Gone("b".into()));
        // It does not overtake the word before it.
        assert_eq!(names(&mut way, later(70)), [""; 0]);
        assert_eq!(names(&mut way, later(100)), ["a", "b"]);
        way.push(Word::Gone("c".into()));
        assert_eq!(names(&mut way, later(100)), [""; 0]);
        way.set_delay(Duration::ZERO, later(101));
        assert!(!way.is_open());
        assert_eq!(names(&mut way, later(101)), ["c"]);
        assert!(way.is_open());
    }
}
