//! What no codec can beat: for plain batches a copy of their bytes, for compressed ones the compression library alone.

use anyhow::Result;
use ottla_protocol::compression::{self, Compression};
use ottla_protocol::records::BatchHeader;

use crate::Work;
use crate::samples::{Row, Samples, Way};

pub fn work(row: &Row, samples: &Samples) -> Result<Option<Work>> {
    let Row::Records(size, codec, way) = *row else {
        return Ok(None);
    };
    let bytes = samples.batch(size, codec)?;
    let plain = samples.batch(size, Compression::None)?;
    let mut to = vec![0; plain.len()];
    Ok(Some(match (codec, way) {
        (Compression::None, _) => Box::new(move || {
            to.copy_from_slice(&bytes);
            Ok(to.len())
        }),
        (_, Way::In) => Box::new(move || {
            compression::decompress_into(
                codec,
                &bytes[BatchHeader::SIZE..],
                usize::MAX >> 1,
                &mut to,
            )?;
            Ok(to.len())
        }),
        (_, Way::Out) => Box::new(move || {
            to.clear();
            compression::compress(codec, None, &plain[BatchHeader::SIZE..], &mut to)?;
            Ok(to.len())
        }),
    }))
}
