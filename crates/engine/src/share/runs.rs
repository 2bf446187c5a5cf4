//! Ranges of offsets, each with a value, without overlaps. A broker's claims cost memory by their
//! ranges, never by their offsets.

use std::collections::BTreeMap;

/// A range of offsets, both ends included, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run<T> {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) value: T,
}

/// By the first offset of each range: its last one, and the value.
#[derive(Clone, Debug)]
pub(super) struct Runs<T>(BTreeMap<i64, (i64, T)>);

impl<T> Default for Runs<T> {
    fn default() -> Runs<T> {
        Runs(BTreeMap::new())
    }
}

impl<T: Copy + PartialEq> Runs<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Run<T>> {
        self.0
            .iter()
            .map(|(&first, &(last, value))| Run { first, last, value })
    }

    /// Gives a range this value. Returns what it had before.
    pub(super) fn set(&mut self, first: i64, last: i64, value: T) -> Vec<Run<T>> {
        let before = self.take(first, last);
        let (mut first, mut last) = (first, last);
        if let Some((&left, &(end, known))) = self.0.range(..first).next_back()
            && end.checked_add(1) == Some(first)
            && known == value
        {
            self.0.remove(&left);
            first = left;
        }
        let next = last.checked_add(1);
        if let Some(next) = next.filter(|next| self.0.get(next).is_some_and(|it| it.1 == value)) {
            last = self.0.remove(&next).map_or(last, |(end, _)| end);
        }
        self.0.insert(first, (last, value));
        before
    }

    /// Takes out the part in a range.
    pub(super) fn take(&mut self, first: i64, last: i64) -> Vec<Run<T>> {
        if first > last {
            return Vec::new();
        }
        self.cut(first);
        if let Some(next) = last.checked_add(1) {
            self.cut(next);
        }
        let within: Vec<i64> = self.0.range(first..=last).map(|(key, _)| *key).collect();
        let taken = within.into_iter().filter_map(|first| {
            let (last, value) = self.0.remove(&first)?;
            Some(Run { first, last, value })
        });
        taken.collect()
    }

    /// The part in a range, cut off at its ends.
    pub(super) fn within(&self, first: i64, last: i64) -> Vec<Run<T>> {
        let left = self.0.range(..first).next_back();
        let inside = (first <= last).then(|| self.0.range(first..=last));
        left.into_iter()
            .chain(inside.into_iter().flatten())
            .filter(|(_, (end, _))| *end >= first)
            .map(|(&begin, &(end, value))| Run {
                first: begin.max(first),
                last: end.min(last),
                value,
            })
            .collect()
    }

    /// Takes out all for which `take` returns true.
    pub(super) fn extract(&mut self, take: impl Fn(T) -> bool) -> Vec<Run<T>> {
        let mut taken = Vec::new();
        self.0.retain(|&first, &mut (last, value)| {
            let goes = take(value);
            if goes {
                taken.push(Run { first, last, value });
            }
            !goes
        });
        taken
    }

    /// Sees to it that no range holds both this offset and the one before it.
    fn cut(&mut self, at: i64) {
        let Some((_, run)) = self.0.range_mut(..at).next_back() else {
            return;
        };
        let (last, value) = *run;
        if last >= at {
            run.0 = at - 1;
            self.0.insert(at, (last, value));
        }
    }
}

/// Whether the ranges cover every offset from `first` to `last`.
pub(super) fn cover<T>(runs: &[Run<T>], first: i64, last: i64) -> bool {
    let mut due = Some(first);
    for run in runs {
        if due != Some(run.first) {
            return false;
        }
        due = run.last.checked_add(1);
    }
    due == last.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(runs: &Runs<char>) -> Vec<(i64, i64, char)> {
        runs.iter()
            .map(|run| (run.first, run.last, run.value))
            .collect()
    }

    #[test]
    fn ranges_are_cut_replaced_and_joined() {
        let mut runs = Runs::default();
        assert!(runs.set(10, 19, 'a').is_empty());
        let before = runs.set(13, 15, 'b');
        assert_eq!(before.len(), 1);
        assert_eq!(listed(&runs), [(10, 12, 'a'), (13, 15, 'b'), (16, 19, 'a')]);
        assert_eq!(runs.set(13, 15, 'a').len(), 1);
        assert_eq!(listed(&runs), [(10, 19, 'a')]);
        assert_eq!(runs.take(0, 11).len(), 1);
        assert_eq!(listed(&runs), [(12, 19, 'a')]);
        runs.set(20, i64::MAX, 'a');
        assert_eq!(listed(&runs), [(12, i64::MAX, 'a')]);
        assert!(runs.take(9, 5).is_empty());
    }

    #[test]
    fn a_look_at_a_range_changes_nothing() {
        let mut runs = Runs::default();
        runs.set(0, 4, 'a');
        runs.set(5, 9, 'b');
        runs.set(12, 14, 'c');
        let within = runs.within(3, 12);
        let seen: Vec<_> = within.iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(seen, [(3, 4), (5, 9), (12, 12)]);
        assert!(!cover(&within, 3, 12));
        assert!(cover(&runs.within(3, 9), 3, 9));
        assert!(!cover(&runs.within(15, 20), 15, 20));
        assert_eq!(listed(&runs), [(0, 4, 'a'), (5, 9, 'b'), (12, 14, 'c')]);
    }

    #[test]
    fn chosen_values_are_taken_out() {
        let mut runs = Runs::default();
        runs.set(0, 4, 'a');
        runs.set(5, 9, 'b');
        assert_eq!(runs.extract(|value| value == 'b').len(), 1);
        assert_eq!(listed(&runs), [(0, 4, 'a')]);
    }
}
