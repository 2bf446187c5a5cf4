//! JSON to columns: one walk over the text, without a tree in between.
//!
//! What a token may become is what Spark's `from_json` makes of it: a string column takes any token as its text, a timestamp is
//! ISO 8601 or whole seconds since 1970, a decimal is rounded half up, a binary is base64. A field that is missing is null, one
//! that the schema does not name is passed over, and the last of several with one name counts.
//!
//! It differs from Spark in this: text behind the value makes a row bad, and so does an empty value; the text of a token stays as it
//! was written; a number from 128 to 255 is out of the range of int8; zones are offsets, not regions.

mod cursor;
mod fill;
mod schema;

pub(crate) use fill::{check, object};
pub(crate) use schema::fields;
