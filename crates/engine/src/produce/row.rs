//! A record as its caller has it.

/// One record to be sent. Everything is borrowed: it is encoded into the open batch at once.
#[derive(Clone, Debug)]
pub struct Row<'a, H> {
    /// The partition; `None` lets the key decide, or the partitioner if there is no key.
    pub partition: Option<i32>,
    /// Milliseconds since 1970 UTC; `None` is now.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Names and values of headers.
    pub headers: H,
}

/// The headers of a row that has none.
pub type NoHeaders<'a> = std::iter::Empty<(&'a str, Option<&'a [u8]>)>;

impl<'a> Row<'a, NoHeaders<'a>> {
    /// A row without headers.
    pub fn new(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> Self {
        Row {
            partition: None,
            timestamp_ms: None,
            key,
            value,
            headers: std::iter::empty(),
        }
    }
}

impl<'a, H> Row<'a, H>
where
    H: Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
{
    /// The approximate bytes of the record in a batch.
    pub fn size(&self) -> usize {
        let headers = self
            .headers
            .clone()
            .map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len) + 10);
        64 + self.key.map_or(0, <[u8]>::len)
            + self.value.map_or(0, <[u8]>::len)
            + headers.sum::<usize>()
    }
}
