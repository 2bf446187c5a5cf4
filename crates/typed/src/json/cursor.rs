//! A place in a JSON text, and its tokens.

use std::borrow::Cow;

use crate::error::{Bad, Filled};

/// How deep values nest that the schema does not name.
const DEEPEST: usize = 500;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// More digits may not fit 64 bits.
const MOST_DIGITS: usize = 19;

/// A number as it is written.
#[derive(Debug)]
pub(crate) struct Number<'a> {
    pub(crate) text: &'a str,
    /// It has neither a point nor an exponent.
    pub(crate) is_whole: bool,
    pub(crate) is_negative: bool,
    /// Its digits as a number, and how many of them stand behind the point; `None` if it is longer or has an exponent.
    pub(crate) digits: Option<(u64, usize)>,
}

#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The byte of the next token, which is not taken; 0 at the end.
    #[inline]
    pub(crate) fn peek(&mut self) -> u8 {
        loop {
            match self.byte() {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return byte,
            }
        }
    }

    /// Takes a byte if it is the next token.
    #[inline]
    pub(crate) fn take(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == wanted;
        self.at += usize::from(is_next);
        is_next
    }

    pub(crate) fn expect(&mut self, wanted: u8, place: &str) -> Filled {
        if self.take(wanted) {
            return Ok(());
        }
        Err(self.malformed(&format!("{:?} is wanted {place}", char::from(wanted))))
    }

    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek() == 0 && self.at >= self.text.len()
    }

    #[cold]
    pub(crate) fn malformed(&self, what: &str) -> Bad {
        Bad::new(format!("it is not JSON: {what}, at byte {}", self.at))
    }

    /// What stands here is of another kind than the column.
    #[cold]
    pub(crate) fn wanted(&mut self, wanted: &str) -> Bad {
        self.peek();
        let start = self.at;
        match self.skip(0) {
            Ok(()) => Bad::wanted(wanted, self.since(start)),
            Err(bad) => bad,
        }
    }

    /// Whether a token that is a whole word stands here; it is taken.
    pub(crate) fn word(&mut self, word: &str) -> bool {
        self.peek();
        let is_here = self.rest().starts_with(word);
        self.at += if is_here { word.len() } else { 0 };
        is_here
    }

    /// The string that begins here, without a copy unless it has escapes.
    #[inline]
    pub(crate) fn string(&mut self) -> Filled<Cow<'a, str>> {
        match self.byte() {
            b'\'' => self.quoted::<b'\''>(),
            _ => self.quoted::<b'"'>(),
        }
    }

    #[inline]
    fn quoted<const QUOTE: u8>(&mut self) -> Filled<Cow<'a, str>> {
        let start = self.at + 1;
        self.at = start;
        if self.run::<QUOTE>()? == QUOTE {
            return Ok(Cow::Borrowed(self.closed(start)));
        }
        let mut text = self.since(start).to_owned();
        self.unescape::<QUOTE>(&mut text)?;
        Ok(Cow::Owned(text))
    }

    /// Takes a field's name, which is written without escapes, and the colon behind it, if just these stand here.
    #[inline]
    pub(crate) fn field(&mut self, name: &str) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let rest = rest
            .strip_prefix(b"\"")
            .and_then(|rest| rest.strip_prefix(name.as_bytes()));
        let is_here = rest.is_some_and(|rest| rest.starts_with(b"\":"));
        self.at += if is_here { name.len() + 3 } else { 0 };
        is_here
    }

    /// A number, which is read as it is checked.
    #[inline]
    pub(crate) fn number(&mut self) -> Filled<Number<'a>> {
        self.peek();
        let start = self.at;
        let is_negative = self.byte() == b'-';
        self.at += usize::from(is_negative);
        let (first, mut count, mut digits) = (self.byte(), 0, 0);
        self.digits(&mut count, &mut digits);
        match (first, count) {
            (_, 0) => return Err(self.malformed("a number has no digits")),
            (b'0', 2..) => {
                self.at = start + usize::from(is_negative) + 1;
                return Err(self.malformed("a number begins with 0"));
            }
            _ => {}
        }
        let (whole, mut is_whole) = (count, true);
        if self.byte() == b'.' {
            is_whole = false;
            self.at += 1;
            self.digits(&mut count, &mut digits);
            if count == whole {
                return Err(self.malformed("a number lacks a digit"));
            }
        }
        let exact = (count <= MOST_DIGITS).then_some((digits, count - whole));
        let has_exponent = matches!(self.byte(), b'e' | b'E');
        if has_exponent {
            self.exponent()?;
        }
        Ok(Number {
            text: self.since(start),
            is_whole: is_whole && !has_exponent,
            is_negative,
            digits: exact.filter(|_| !has_exponent),
        })
    }

    /// The text of whatever value stands here.
    pub(crate) fn raw(&mut self) -> Filled<&'a str> {
        self.peek();
        let start = self.at;
        self.skip(0)?;
        Ok(self.since(start))
    }

    /// Passes over a value.
    pub(crate) fn skip(&mut self, depth: usize) -> Filled {
        if depth > DEEPEST {
            return Err(Bad::new(format!("it nests more than {DEEPEST} levels")));
        }
        match self.peek() {
            b'"' => self.skip_string::<b'"'>(),
            b'\'' => self.skip_string::<b'\''>(),
            b'{' => {
                self.at += 1;
                if self.take(b'}') {
                    return Ok(());
                }
                loop {
                    match self.peek() {
                        b'"' => self.skip_string::<b'"'>()?,
                        b'\'' => self.skip_string::<b'\''>()?,
                        _ => return Err(self.malformed("a field's name is wanted")),
                    }
                    self.expect(b':', "behind a field's name")?;
                    self.skip(depth + 1)?;
                    if !self.take(b',') {
                        return self.expect(b'}', "behind a field");
                    }
                }
            }
            b'[' => {
                self.at += 1;
                if self.take(b']') {
                    return Ok(());
                }
                loop {
                    self.skip(depth + 1)?;
                    if !self.take(b',') {
                        return self.expect(b']', "behind an element");
                    }
                }
            }
            b'0'..=b'9' => self.number().map(drop),
            b'-' if !self.rest().starts_with("-I") => self.number().map(drop),
            // Not of JSON's standard, but of Python's json.dumps, and read by Spark.
            _ if ["true", "false", "null", "NaN"]
                .iter()
                .any(|word| self.word(word))
                || self.infinity().is_some() =>
            {
                Ok(())
            }
            0 if self.at >= self.text.len() => Err(self.malformed("it ends too early")),
            _ => Err(self.malformed("no value begins so")),
        }
    }

    /// An infinity that is written as a word, in the ways that Spark reads.
    pub(crate) fn infinity(&mut self) -> Option<f64> {
        let words = [
            ("Infinity", f64::INFINITY),
            ("+Infinity", f64::INFINITY),
            ("+INF", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("-INF", f64::NEG_INFINITY),
        ];
        words
            .into_iter()
            .find_map(|(word, value)| self.word(word).then_some(value))
    }

    fn skip_string<const QUOTE: u8>(&mut self) -> Filled {
        self.at += 1;
        while self.run::<QUOTE>()? == b'\\' {
            self.at += 2;
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The text up to the quote that stands here, which is taken.
    fn closed(&mut self, start: usize) -> &'a str {
        let text = self.since(start);
        self.at += 1;
        text
    }

    /// Takes digits, counts them, and appends them to a number.
    #[inline]
    fn digits(&mut self, count: &mut usize, number: &mut u64) {
        let start = self.at;
        while self.byte().is_ascii_digit() {
            let digit = u64::from(self.byte() - b'0');
            *number = number.wrapping_mul(10).wrapping_add(digit);
            self.at += 1;
        }
        *count += self.at - start;
    }

    #[cold]
    fn exponent(&mut self) -> Filled {
        self.at += 1;
        self.at += usize::from(matches!(self.byte(), b'+' | b'-'));
        let (mut count, mut digits) = (0, 0);
        self.digits(&mut count, &mut digits);
        match count {
            0 => Err(self.malformed("a number lacks a digit")),
            _ => Ok(()),
        }
    }

    /// Goes on inside of a string to its next quote or backslash, which is returned and not taken. Eight bytes at a time.
    #[inline]
    fn run<const QUOTE: u8>(&mut self) -> Filled<u8> {
        let bytes = self.text.as_bytes();
        while let Some(eight) = bytes
            .get(self.at..self.at + 8)
            .and_then(|eight| <[u8; 8]>::try_from(eight).ok())
        {
            let word = u64::from_le_bytes(eight);
            let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH_BITS;
            // Bit 7 of a byte is set for a quote, a backslash and what is below a space; a borrow can set it wrongly only in a
            // byte behind a right one.
            let special = zero(word ^ (ONES * u64::from(QUOTE)))
                | zero(word ^ (ONES * u64::from(b'\\')))
                | (word.wrapping_sub(ONES * 0x20) & !word & HIGH_BITS);
            if special != 0 {
                self.at += (special.trailing_zeros() / 8) as usize;
                break;
            }
            self.at += 8;
        }
        loop {
            match bytes.get(self.at) {
                Some(byte) if *byte == QUOTE || *byte == b'\\' => return Ok(*byte),
                Some(0..=0x1f) => return Err(self.malformed("a string holds a control character")),
                Some(_) => self.at += 1,
                None => return Err(self.malformed("a string does not end")),
            }
        }
    }

    /// The rest of a string from its first backslash on.
    #[cold]
    fn unescape<const QUOTE: u8>(&mut self, text: &mut String) -> Filled {
        loop {
            let start = self.at;
            if self.run::<QUOTE>()? == QUOTE {
                text.push_str(self.closed(start));
                return Ok(());
            }
            text.push_str(self.since(start));
            self.at += 1;
            let escape = self.byte();
            self.at += 1;
            text.push(match escape {
                b'"' | b'\'' | b'\\' | b'/' => char::from(escape),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.unicode()?,
                _ => {
                    return Err(self.malformed(
                        "a backslash stands before a character that it does not escape",
                    ));
                }
            });
        }
    }

    /// The character of an escape, or of two that are a pair of surrogates. A surrogate that stands alone is `?`, as where Java
    /// writes such a text as UTF-8.
    fn unicode(&mut self) -> Filled<char> {
        let first = self.hex()?;
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            let behind_first = self.at;
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let pair = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(pair).unwrap_or('?'));
            }
            self.at = behind_first;
        }
        Ok(char::from_u32(first).unwrap_or('?'))
    }

    fn hex(&mut self) -> Filled<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let value = digits.and_then(|digits| {
            digits.iter().try_fold(0, |value, digit| {
                Some(value * 16 + char::from(*digit).to_digit(16)?)
            })
        });
        let value = value.ok_or_else(|| {
            self.malformed("\\u is followed by other than four hexadecimal digits")
        })?;
        self.at += 4;
        Ok(value)
    }
}
