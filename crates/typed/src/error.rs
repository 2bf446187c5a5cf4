//! What is wrong with a schema, and what is wrong with a row.

use std::fmt::{self, Display, Formatter};

/// How much of a value an error shows, in characters.
const SHOWN: usize = 40;

/// A decoder cannot be made: a schema does not parse, holds a type without a column, or two schemas do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

impl SchemaError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Why a decode ended without columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A row does not decode, and the mode is [`Mode::Fail`](crate::Mode::Fail).
    #[error("row {}: {}", .0.row, .0)]
    Row(BadRow),
    /// A column of text, bytes or lists passed 2 GiB, the limit of offsets of 32 bits.
    #[error("column {0} would take more than 2 GiB: decode a slice of the batch")]
    TooLarge(String),
    /// A row names a schema that was not brought yet, and the decode was to end at such a one.
    #[error("a row names a schema that is not known yet")]
    UnknownSchema,
    /// The columns do not form a record batch. Never seen.
    #[error("the columns do not fit together: {0}")]
    Arrow(String),
}

/// A row that does not decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Counted from 0 within what was decoded.
    pub row: usize,
    /// Where in the schema, such as `order.items[3].price`; empty if it is the value as a whole.
    pub column: String,
    /// One sentence without its full stop.
    pub reason: String,
}

impl Display for BadRow {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.column.is_empty() {
            write!(out, "{}", self.reason)
        } else {
            write!(out, "column {}: {}", self.column, self.reason)
        }
    }
}

pub(crate) type Filled<T = ()> = Result<T, Bad>;

/// A [`BadRow`] on its way up: each level adds its name. Boxed, since nearly every row is good.
#[derive(Debug)]
pub(crate) struct Bad(Box<Inner>);

#[derive(Debug)]
struct Inner {
    /// Innermost first.
    path: Vec<Step>,
    reason: String,
    end: Option<End>,
}

/// Why it is not the row that is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The column has no space for more, whatever the row holds.
    Full,
    /// The row's schema has to be brought first.
    UnknownSchema,
}

#[derive(Debug)]
enum Step {
    Field(String),
    Element(usize),
}

impl Bad {
    #[cold]
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            path: Vec::new(),
            reason: reason.into(),
            end: None,
        }))
    }

    /// The column has no space for more, whatever the row holds.
    #[cold]
    pub(crate) fn full() -> Self {
        Self::new("the column is full").ends(End::Full)
    }

    /// The row's schema has to be brought before anything can be said of it.
    #[cold]
    pub(crate) fn unknown_schema() -> Self {
        Self::new("its schema is not known yet").ends(End::UnknownSchema)
    }

    fn ends(mut self, end: End) -> Self {
        self.0.end = Some(end);
        self
    }

    #[cold]
    pub(crate) fn wanted(wanted: impl Display, found: &str) -> Self {
        Self::new(format!("{wanted} is wanted, not {}", shown(found)))
    }

    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    #[cold]
    pub(crate) fn within(mut self, field: &str) -> Self {
        self.0.path.push(Step::Field(field.to_owned()));
        self
    }

    #[cold]
    pub(crate) fn element(mut self, index: usize) -> Self {
        self.0.path.push(Step::Element(index));
        self
    }

    /// The row, or the end of the whole decode.
    pub(crate) fn at(self, row: usize) -> Result<BadRow, DecodeError> {
        match self.0.end {
            None => Ok(self.named(row)),
            Some(End::Full) => Err(DecodeError::TooLarge(self.named(row).column)),
            Some(End::UnknownSchema) => Err(DecodeError::UnknownSchema),
        }
    }

    /// The row.
    pub(crate) fn named(self, row: usize) -> BadRow {
        let mut column = String::new();
        for step in self.0.path.iter().rev() {
            match step {
                Step::Field(name) => {
                    if !column.is_empty() {
                        column.push('.');
                    }
                    column.push_str(name);
                }
                Step::Element(index) => column.push_str(&format!("[{index}]")),
            }
        }
        BadRow {
            row,
            column,
            reason: self.0.reason,
        }
    }
}

/// The beginning of a text, fit for a line.
pub(crate) fn shown(text: &str) -> String {
    let visible = |char: char| if char.is_control() { '\u{fffd}' } else { char };
    let mut start: String = text.chars().take(SHOWN).map(visible).collect();
    if text.chars().nth(SHOWN).is_some() {
        start.push('…');
    }
    start
}
