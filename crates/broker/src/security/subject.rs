//! The name in a client's certificate, as Kafka's principal has it: the subject as Java's X500Principal prints it (RFC 2253).

/// The short names that RFC 2253 and Java print; other attributes are printed by their numbers.
const SHORT_NAMES: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 25],
        "DC",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 1],
        "UID",
    ),
];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xA0;

/// The subject of an X.509 certificate in DER; `None` where the bytes are no certificate.
pub(crate) fn of_certificate(der: &[u8]) -> Option<Subject> {
    let (certificate, _) = take(der, SEQUENCE)?;
    let (mut fields, _) = take(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        (_, fields) = any(fields)?;
    }
    // Serial number, signature, issuer, validity.
    for _ in 0..4 {
        (_, fields) = any(fields)?;
    }
    let (mut names, _) = take(fields, SEQUENCE)?;
    let mut parts = Vec::new();
    while !names.is_empty() {
        let (mut set, rest) = take(names, SET)?;
        let mut joined = Vec::new();
        while !set.is_empty() {
            let (attribute, others) = take(set, SEQUENCE)?;
            joined.push(Attribute::read(attribute)?);
            set = others;
        }
        parts.push(joined);
        names = rest;
    }
    parts.reverse();
    Some(Subject(parts))
}

/// A distinguished name, its most specific part first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Subject(Vec<Vec<Attribute>>);

#[derive(Debug, PartialEq, Eq)]
struct Attribute {
    name: String,
    /// `None`: not text, and printed as the hexadecimal digits of `der`.
    text: Option<String>,
    der: Vec<u8>,
}

impl Subject {
    /// The first common name.
    pub(crate) fn common_name(&self) -> Option<&str> {
        let mut all = self.0.iter().flatten();
        all.find(|part| part.name == "CN")
            .and_then(|part| part.text.as_deref())
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = |joined: &Vec<Attribute>| {
            let all: Vec<String> = joined.iter().map(Attribute::printed).collect();
            all.join("+")
        };
        let parts: Vec<String> = self.0.iter().map(part).collect();
        f.write_str(&parts.join(","))
    }
}

impl Attribute {
    fn read(sequence: &[u8]) -> Option<Self> {
        let (identifier, value) = take(sequence, OBJECT_IDENTIFIER)?;
        let known = SHORT_NAMES.iter().find(|(bytes, _)| *bytes == identifier);
        let (tag, (content, _)) = (*value.first()?, any(value)?);
        // UTF8String, PrintableString, IA5String, TeletexString: text. BMPString has two bytes a letter.
        let text = match (known, tag) {
            (Some(_), 0x0C | 0x13 | 0x14 | 0x16) => String::from_utf8(content.to_vec()).ok(),
            (Some(_), 0x1E) => {
                let units = content.chunks_exact(2).map(|pair| match pair {
                    [high, low] => u16::from_be_bytes([*high, *low]),
                    _ => 0,
                });
                char::decode_utf16(units).collect::<Result<_, _>>().ok()
            }
            _ => None,
        };
        Some(Self {
            name: known.map_or_else(|| dotted(identifier), |(_, name)| (*name).to_owned()),
            text,
            der: value.to_vec(),
        })
    }

    fn printed(&self) -> String {
        match &self.text {
            Some(text) => format!("{}={}", self.name, escaped(text)),
            None => {
                let digits: String = self.der.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{}=#{digits}", self.name)
            }
        }
    }
}

/// RFC 2253, section 2.4.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, letter) in text.chars().enumerate() {
        let is_special = matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || (letter == '#' && at == 0)
            || (letter == ' ' && (at == 0 || at == last));
        if is_special {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn dotted(identifier: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number: u64 = 0;
    for byte in identifier {
        number = number
            .saturating_mul(128)
            .saturating_add(u64::from(byte & 0x7F));
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

/// The content of an element with that tag, and what follows it.
fn take(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    if der.first() == Some(&tag) {
        any(der)
    } else {
        None
    }
}

/// The content of an element, and what follows it.
fn any(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, mut rest) = der.get(1..)?.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let digits = usize::from(first & 0x7F);
        if digits > 4 {
            return None;
        }
        length = rest
            .get(..digits)?
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        rest = rest.get(digits..)?;
    }
    Some((rest.get(..length)?, rest.get(length..)?))
}

#[cfg(test)]
mod tests {
    use super::super::certificates::Authority;
    use super::*;

    #[test]
    fn a_subject_reads_as_java_prints_it() {
        let authority = Authority::new("an authority", 0, 1_000_000).unwrap();
        let of = |name| authority.client(name, 0, 1_000_000).unwrap().der;
        let subject = of_certificate(&of("alice")).unwrap();
        assert_eq!(subject.to_string(), "CN=alice");
        assert_eq!(subject.common_name(), Some("alice"));
        let odd = of_certificate(&of(" #a, b+\"c\" ")).unwrap();
        assert_eq!(odd.to_string(), r#"CN=\ #a\, b\+\"c\"\ "#);
    }

    #[test]
    fn parts_come_most_specific_first_and_unknown_ones_by_number() {
        let attribute = |name: &str, text: &str| Attribute {
            name: name.to_owned(),
            text: Some(text.to_owned()),
            der: Vec::new(),
        };
        let subject = Subject(vec![
            vec![attribute("CN", "alice"), attribute("UID", "7")],
            vec![attribute("O", "Example")],
        ]);
        assert_eq!(subject.to_string(), "CN=alice+UID=7,O=Example");
        assert_eq!(
            dotted(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1]),
            "1.2.840.113549.1.9.1"
        );
    }

    #[test]
    fn no_prefix_of_a_certificate_is_one_and_nothing_panics() {
        let authority = Authority::new("an authority", 0, 1_000_000).unwrap();
        let der = authority.client("alice", 0, 1_000_000).unwrap().der;
        for end in 0..der.len() {
            assert_eq!(of_certificate(&der[..end]), None, "{end}");
        }
        for at in 0..der.len() {
            for value in [0, 0x7F, 0x80, 0x84, 0xFF] {
                let mut damaged = der.clone();
                damaged[at] = value;
                let _ = of_certificate(&damaged);
            }
        }
    }
}
