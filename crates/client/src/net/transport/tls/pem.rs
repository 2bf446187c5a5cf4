//! Reads PEM (RFC 7468): sections of base64 between BEGIN and END lines; and the headers of old encrypted keys (RFC 1421).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A section of a text.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// The label of the BEGIN line, such as `CERTIFICATE`.
    pub(super) label: String,
    /// Names and values between the BEGIN line and the bytes.
    pub(super) headers: Vec<(String, String)>,
    pub(super) bytes: Vec<u8>,
}

/// The sections of a text, in order. What stands between them is passed over, as everywhere.
///
/// # Errors
/// What is wrong with which section.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut sections = Vec::new();
    // An inline text from a properties file may have its line breaks written out, or none.
    let text = text.replace("\\n", "\n");
    let mut rest = text.as_str();
    while let Some((_, begun)) = rest.split_once("-----BEGIN ") {
        let (label, begun) = begun.split_once("-----").ok_or("a BEGIN line has no end")?;
        let end = format!("-----END {label}-----");
        let (body, after) = begun
            .split_once(&end)
            .ok_or_else(|| format!("the section {label} has no line {end}"))?;
        sections.push(section(label, body)?);
        rest = after;
    }
    Ok(sections)
}

fn section(label: &str, body: &str) -> Result<Section, String> {
    let mut headers = Vec::new();
    let mut encoded = String::new();
    for line in body.lines().map(str::trim) {
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.trim().to_owned(), value.trim().to_owned())),
            None => encoded.extend(line.split_whitespace()),
        }
    }
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| format!("the section {label} is not base64"))?;
    Ok(Section {
        label: label.to_owned(),
        headers,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<Vec<u8>> {
        let sections = sections(text).unwrap().into_iter();
        sections.map(|section| section.bytes).collect()
    }

    #[test]
    fn sections_are_found_among_other_text() {
        let text = "Bag Attributes: x\r\n-----BEGIN A-----\r\nAQI=\r\n-----END A-----\r\nrest\n\
                    -----BEGIN B C-----\nName: 1,2\n\nAw\n==\n-----END B C-----\n";
        assert_eq!(bytes(text), [vec![1, 2], vec![3]]);
        let found = sections(text).unwrap();
        assert_eq!(found[1].label, "B C");
        assert_eq!(found[1].headers, [("Name".to_owned(), "1,2".to_owned())]);
        assert_eq!(bytes("nothing"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_text_on_one_line_is_read_as_well() {
        assert_eq!(bytes("-----BEGIN A----- AQ I= -----END A-----"), [[1, 2]]);
        let written_out = "-----BEGIN A-----\\nAQI=\\n-----END A-----\\n";
        assert_eq!(bytes(written_out), [[1, 2]]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("-----BEGIN A", "has no end"),
            ("-----BEGIN A-----\nAQI=\n", "has no line -----END A-----"),
            ("-----BEGIN A-----\n?\n-----END A-----", "A is not base64"),
        ] {
            assert!(sections(text).err().unwrap().contains(said), "{text}");
        }
    }
}
