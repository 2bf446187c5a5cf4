//! Reads DER (X.690): tags, lengths and what is between them; no more of it than keys and certificates need.

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of a constructed element in the context of its parent.
pub(super) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    /// What it holds.
    pub(super) body: &'a [u8],
    /// All of it, with tag and length.
    pub(super) whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// The elements that it holds.
    pub(super) fn parts(&self) -> Parts<'a> {
        Parts(self.body)
    }

    /// A whole number from 0 to 2^31.
    pub(super) fn number(&self) -> Result<u32, Malformed> {
        let value = self.body.iter().try_fold(0_u32, |value, byte| {
            let value = value.checked_mul(256)?;
            value.checked_add(u32::from(*byte))
        });
        match value {
            Some(value) if value < 1 << 31 && !self.body.is_empty() => Ok(value),
            _ => Err(Malformed),
        }
    }
}

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a>(pub(super) &'a [u8]);

impl<'a> Parts<'a> {
    /// The next element, whatever it is; `None` at the end.
    pub(super) fn any(&mut self) -> Result<Option<Element<'a>>, Malformed> {
        let all = self.0;
        let [tag, rest @ ..] = all else {
            return Ok(None);
        };
        // No tag here has more than one byte, and DER has no length without an end.
        let [first, rest @ ..] = rest else {
            return Err(Malformed);
        };
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long @ 0x81..=0x84 => {
                let count = usize::from(long & 0x7f);
                let (length, rest) = rest.split_at_checked(count).ok_or(Malformed)?;
                let length = length
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return Err(Malformed),
        };
        let (body, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        let whole = all.get(..all.len() - rest.len()).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Some(Element {
            tag: *tag,
            body,
            whole,
        }))
    }

    /// The next element, which must have this tag.
    pub(super) fn take(&mut self, tag: u8) -> Result<Element<'a>, Malformed> {
        match self.any()? {
            Some(element) if element.tag == tag => Ok(element),
            _ => Err(Malformed),
        }
    }

    /// The next element if it has this tag; else nothing is taken.
    pub(super) fn maybe(&mut self, tag: u8) -> Result<Option<Element<'a>>, Malformed> {
        if self.0.first() == Some(&tag) {
            self.any()
        } else {
            Ok(None)
        }
    }
}

/// The first element of `bytes`, which must have this tag.
pub(super) fn read(bytes: &[u8], tag: u8) -> Result<Element<'_>, Malformed> {
    Parts(bytes).take(tag)
}

/// An element with this tag around `body`.
pub(super) fn write(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut element = vec![tag];
    let length = body.len().to_be_bytes();
    let digits: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    match body.len() {
        0..=0x7f => element.push(u8::try_from(body.len()).unwrap_or(0)),
        _ => {
            element.push(0x80 | u8::try_from(digits.len()).unwrap_or(0));
            element.extend(digits);
        }
    }
    element.extend(body);
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let body = vec![7; length];
            let bytes = write(OCTETS, &body);
            let mut parts = Parts(&bytes);
            assert_eq!(parts.maybe(SEQUENCE), Ok(None));
            let element = parts.take(OCTETS).unwrap();
            assert_eq!((element.body, element.whole), (&body[..], &bytes[..]));
            assert_eq!(parts.any(), Ok(None));
        }
        assert_eq!(read(&[2, 2, 1, 0], INTEGER).unwrap().number(), Ok(256));
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_refused() {
        for bytes in [
            &[0x30][..],
            &[0x30, 1],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x82, 1],
            &[0x30, 0x85, 1, 1, 1, 1, 1],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(Parts(bytes).any(), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(read(&[2, 0], INTEGER).unwrap().number(), Err(Malformed));
        let large = [2, 4, 0x80, 0, 0, 0];
        assert_eq!(read(&large, INTEGER).unwrap().number(), Err(Malformed));
        assert_eq!(read(&[2, 1, 1], OCTETS), Err(Malformed));
    }
}
