//! The name that was probably meant.

/// The name that takes the fewest edits to become, whatever their case; the first of those that take equally many.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A name is shown, so what is compared need not be longer than names are.
    let name: String = name.chars().take(64).collect();
    let name = name.to_lowercase();
    known.min_by_key(|candidate| strsim::levenshtein(&name, &candidate.to_lowercase()))
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
}
