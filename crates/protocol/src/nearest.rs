//! Suggests a name for one that is unknown.

/// The name with the fewest edits, ignoring case; the first of several with equally many.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    measured(name, known).map(|(_, nearest)| nearest)
}

/// The same, where at most half of `name` is edited (three letters of a short one): no guess is better than a wild one.
pub fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = name.chars().count().max(6) / 2;
    measured(name, known)
        .filter(|(edits, _)| *edits <= most)
        .map(|(_, near)| near)
}

fn measured<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    // A name is shown, so what is compared need not be longer than names are.
    let name: String = name.chars().take(64).collect();
    let name = name.to_lowercase();
    known
        .map(|known| (strsim::levenshtein(&name, &known.to_lowercase()), known))
        .min_by_key(|(edits, _)| *edits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_the_first_of_the_nearest() {
        let known = ["maxBytes", "maxWaitMs", "minBytes"];
        assert_eq!(nearest("max_bytes", known.into_iter()), Some("maxBytes"));
        assert_eq!(nearest("MINBYTES", known.into_iter()), Some("minBytes"));
        assert_eq!(nearest("x", std::iter::empty()), None);
    }

    #[test]
    fn what_is_far_from_every_name_is_near_none() {
        let known = ["linger.ms", "acks"];
        assert_eq!(near("linger", known.into_iter()), Some("linger.ms"));
        assert_eq!(near("ack", known.into_iter()), Some("acks"));
        assert_eq!(near("ling", known.into_iter()), None);
        assert_eq!(near("zzzzzzzz", known.into_iter()), None);
        assert_eq!(nearest("zzzzzzzz", known.into_iter()), Some("acks"));
    }
}
