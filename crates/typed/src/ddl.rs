//! Columns as Spark's SQL declares them: `item string, price decimal(8,2), tags array<string>, at struct<x: double>`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use crate::column;
use crate::error::{SchemaError, shown};

/// How deep types nest.
const DEEPEST: usize = 50;

/// Whether the text of a schema declares columns: those of JSON Schema and of Avro are JSON.
#[must_use]
pub fn is_ddl(text: &str) -> bool {
    !matches!(
        text.trim_start().bytes().next(),
        None | Some(b'{' | b'[' | b'"')
    )
}

/// The columns that a text declares. A name in backticks may hold any character; a colon may stand behind a name, and `NOT NULL` and
/// `COMMENT '...'` behind a type.
///
/// # Errors
/// [`SchemaError`] for a text that declares no columns, or types that are not known.
pub fn ddl_fields(text: &str) -> Result<Fields, SchemaError> {
    let mut scan = Scan { text, rest: text };
    let fields = scan.fields(0)?;
    scan.space();
    if scan.rest.is_empty() {
        return Ok(fields);
    }
    Err(scan.wanted("a comma or the end"))
}

struct Scan<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Scan<'a> {
    fn fields(&mut self, depth: usize) -> Result<Fields, SchemaError> {
        let mut fields = Vec::new();
        loop {
            let name = self.name()?;
            self.take(":");
            let data_type = self.data_type(depth)?;
            let is_nullable = !self.clauses()?;
            fields.push(Field::new(name, data_type, is_nullable));
            if !self.take(",") {
                return Ok(fields.into());
            }
        }
    }

    fn name(&mut self) -> Result<String, SchemaError> {
        self.space();
        let Some(quoted) = self.rest.strip_prefix('`') else {
            return match self.word() {
                "" => Err(self.wanted("the name of a column")),
                name => Ok(name.to_owned()),
            };
        };
        self.rest = quoted;
        let mut name = String::new();
        loop {
            let (part, rest) = self
                .rest
                .split_once('`')
                .ok_or_else(|| self.wanted("the end of a name in backticks"))?;
            name.push_str(part);
            self.rest = rest;
            match rest.strip_prefix('`') {
                Some(more) => {
                    name.push('`');
                    self.rest = more;
                }
                None => return Ok(name),
            }
        }
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType, SchemaError> {
        if depth > DEEPEST {
            return Err(SchemaError(format!(
                "the columns nest more than {DEEPEST} levels"
            )));
        }
        self.space();
        let before = self.rest;
        let word = self.word().to_ascii_lowercase();
        Ok(match word.as_str() {
            "boolean" => DataType::Boolean,
            "tinyint" | "byte" => DataType::Int8,
            "smallint" | "short" => DataType::Int16,
            "int" | "integer" => DataType::Int32,
            "bigint" | "long" => DataType::Int64,
            "float" | "real" => DataType::Float32,
            "double" => DataType::Float64,
            "string" => DataType::Utf8,
            "char" | "varchar" => {
                self.numbers()?;
                DataType::Utf8
            }
            "binary" => DataType::Binary,
            "void" => DataType::Null,
            "date" => DataType::Date32,
            "timestamp" | "timestamp_ltz" => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "decimal" | "dec" | "numeric" => match self.numbers()?.as_slice() {
                [] => DataType::Decimal128(10, 0),
                [precision @ 1..=38] => DataType::Decimal128(*precision, 0),
                [precision @ 1..=38, scale] if scale <= precision => {
                    DataType::Decimal128(*precision, *scale as i8)
                }
                _ => {
                    self.rest = before;
                    return Err(self.wanted("a decimal with at most 38 digits"));
                }
            },
            "array" => {
                self.expect("<")?;
                let items = self.data_type(depth + 1)?;
                self.expect(">")?;
                DataType::List(Arc::new(Field::new("element", items, true)))
            }
            "map" => {
                self.expect("<")?;
                let keys = self.data_type(depth + 1)?;
                self.expect(",")?;
                let values = self.data_type(depth + 1)?;
                self.expect(">")?;
                column::map(keys, values, true)
            }
            "struct" => {
                self.expect("<")?;
                let fields = self.fields(depth + 1)?;
                self.expect(">")?;
                DataType::Struct(fields)
            }
            _ => {
                self.rest = before;
                return Err(self.wanted(
                    "a type, such as boolean, int, bigint, double, decimal(10,2), string, binary, date, timestamp, array<int>, \
                     map<string, int> or struct<a: int>",
                ));
            }
        })
    }

    /// Numbers in parentheses, if there are some.
    fn numbers(&mut self) -> Result<Vec<u8>, SchemaError> {
        let mut found = Vec::new();
        if !self.take("(") {
            return Ok(found);
        }
        loop {
            self.space();
            let number = self.word();
            // The length of a text may be larger, and is of no matter.
            let number: u32 = number.parse().map_err(|_| self.wanted("a number"))?;
            found.push(u8::try_from(number).unwrap_or(u8::MAX));
            if !self.take(",") {
                self.expect(")")?;
                return Ok(found);
            }
        }
    }

    /// What may stand behind a type. True for `NOT NULL`.
    fn clauses(&mut self) -> Result<bool, SchemaError> {
        let mut is_required = false;
        loop {
            self.space();
            let before = self.rest;
            match self.word().to_ascii_lowercase().as_str() {
                "" => return Ok(is_required),
                "null" => {}
                "not" => {
                    self.space();
                    if !self.word().eq_ignore_ascii_case("null") {
                        self.rest = before;
                        return Err(self.wanted("NOT NULL"));
                    }
                    is_required = true;
                }
                "comment" => {
                    self.space();
                    let quoted = self.rest.strip_prefix('\'');
                    let behind = quoted.and_then(|text| text.split_once('\''));
                    self.rest = behind.ok_or_else(|| self.wanted("a comment in quotes"))?.1;
                }
                _ => {
                    self.rest = before;
                    return Err(self.wanted("a comma"));
                }
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let is_outside = |char: char| char.is_whitespace() || "<>(),:`'\"".contains(char);
        let end = self.rest.find(is_outside).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: &str) -> Result<(), SchemaError> {
        if self.take(sign) {
            return Ok(());
        }
        Err(self.wanted(sign))
    }

    fn wanted(&self, what: &str) -> SchemaError {
        let place = self.text.len() - self.rest.len();
        let found = match self.rest {
            "" => "the end".to_owned(),
            rest => shown(rest),
        };
        SchemaError(format!(
            "the columns {} are not those of Spark's SQL: {what} is wanted at character {place}, not {found}",
            shown(self.text)
        ))
    }
}
