//! Text from bytes that are not UTF-8.

/// A text with U+FFFD where it is not UTF-8, as Java's readers have it: one for the three bytes of a surrogate, too.
pub(crate) fn replaced(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(chunk) = rest.utf8_chunks().next() {
        text.push_str(chunk.valid());
        let (_, behind) = rest.split_at(chunk.valid().len());
        rest = match behind {
            [] => break,
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, rest @ ..] => rest,
            _ => behind.get(chunk.invalid().len()..).unwrap_or_default(),
        };
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}
