//! Regular expressions that must match a whole name: those that members subscribe with (KIP-848), of subscriptions to metrics
//! (KIP-714), and of transactional ids (KIP-1152). RE2's syntax, and what of Java's is the same.
//!
//! Of RE2 the Unicode classes (`\pL`) are missing: topics' names are ASCII. Of Java's syntax lookarounds and back references are.

use regex_lite::Regex;

/// An expression that matches whole names.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn compile(expression: &str) -> Result<Regex, String> {
    // By itself first: a parenthesis too many must not close the group around it.
    let expression = unquoted(expression);
    Regex::new(&expression)
        .and_then(|_| Regex::new(&format!("^(?:{expression})$")))
        .map_err(|cause| cause.to_string())
}

/// The same without RE2's quotes, `\Q...\E`.
fn unquoted(expression: &str) -> String {
    let mut plain = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some((before, quoted)) = split_at_quote(rest) {
        plain.push_str(before);
        let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        plain.push_str(&regex_lite::escape(literal));
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// What stands before the first `\Q` that is not itself escaped, and behind it.
fn split_at_quote(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        if escaped && byte == b'Q' {
            return Some((text.get(..index - 1)?, text.get(index + 1..)?));
        }
        escaped = byte == b'\\' && !escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(expression: &str, name: &str) -> bool {
        compile(expression).unwrap().is_match(name)
    }

    #[test]
    fn an_expression_matches_whole_names() {
        assert!(matches("a|b.*", "a") && matches("a|b.*", "bcd"));
        assert!(!matches("a|b.*", "ab") && !matches("a", "aa"));
        assert!(matches("[[:alpha:]]+-\\d{2}", "topic-07"));
        assert!(matches("", ""));
    }

    #[test]
    fn quotes_are_literal() {
        assert!(matches("\\Qa.b\\E.*", "a.b-1") && !matches("\\Qa.b\\E.*", "axb-1"));
        assert!(matches("\\Qa.b", "a.b") && matches("x\\Q.\\Ey\\Q.\\E", "x.y."));
        assert!(matches("\\\\Q?", "\\"), "the backslash itself is escaped");
    }

    #[test]
    fn what_is_no_expression_is_told() {
        for bad in ["(", "a)(b", "[a", "*", "\\"] {
            assert!(compile(bad).is_err(), "{bad}");
        }
    }
}
