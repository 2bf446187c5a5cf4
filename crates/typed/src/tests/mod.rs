mod avro;
mod avro_resolution;
mod editions;
mod encode;
mod encode_avro;
mod encode_protobuf;
mod hostile;
mod json;
mod modes;
mod protobuf;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Fields};

use crate::{DecodeError, Decoded, Decoder, Missing, Mode, Row};

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn row(value: &[u8]) -> Row<'_> {
    Row {
        value: Some(value),
        schema_id: None,
    }
}

fn decode(decoder: &Decoder, values: &[&[u8]], mode: Mode) -> Result<Decoded, DecodeError> {
    let schema = decoder.schema(mode, "_corrupt").unwrap();
    decoder.decode(
        values.iter().map(|value| row(value)),
        &schema,
        mode,
        Some(&Missing::default()),
    )
}

/// Decodes one JSON document to one column `x`; `Err` is why the row is bad.
fn one(data_type: DataType, json: &str) -> Result<RecordBatch, String> {
    let decoder = Decoder::json(
        Fields::from(vec![field("x", data_type)]),
        crate::Framing::Plain,
    )
    .unwrap();
    match decode(&decoder, &[json.as_bytes()], Mode::Fail) {
        Ok(decoded) => Ok(decoded.batch),
        Err(DecodeError::Row(bad)) => Err(bad.to_string()),
        Err(other) => panic!("{other}"),
    }
}

fn numbers(batch: &RecordBatch, column: usize) -> Vec<Option<i64>> {
    batch
        .column(column)
        .as_primitive::<Int64Type>()
        .iter()
        .collect()
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<Option<&str>> {
    batch.column(column).as_string::<i32>().iter().collect()
}
