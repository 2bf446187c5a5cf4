//! The name that was probably meant.

/// The name that takes the fewest edits to become; the first of those that take equally many.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A name is shown, so what is compared need not be longer than names are.
    let name: Vec<char> = name.chars().take(64).flat_map(char::to_lowercase).collect();
    known.min_by_key(|candidate| edits(&name, candidate))
}

/// How many letters must be put in, taken out or changed (Levenshtein), whatever their case.
fn edits(name: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, letter) in candidate.chars().flat_map(char::to_lowercase).enumerate() {
        let mut before = i;
        let mut left = i + 1;
        for (place, own) in row
            .iter_mut()
            .zip(std::iter::once(None).chain(name.iter().map(Some)))
        {
            let above = *place;
            let Some(own) = own else {
                *place = left;
                continue;
            };
            left = (before + usize::from(*own != letter))
                .min(above + 1)
                .min(left + 1);
            before = above;
            *place = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_both_ways() {
        let edits = |a: &str, b: &str| edits(&a.chars().collect::<Vec<_>>(), b);
        for (a, b, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("topic", "Topics", 1),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
        ] {
            assert_eq!(edits(a, b), count, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_is_the_first_of_the_nearest() {
        let known = ["maxBytes", "maxWaitMs", "minBytes"];
        assert_eq!(nearest("max_bytes", known.into_iter()), Some("maxBytes"));
        assert_eq!(nearest("MINBYTES", known.into_iter()), Some("minBytes"));
        assert_eq!(nearest("x", std::iter::empty()), None);
    }
}
