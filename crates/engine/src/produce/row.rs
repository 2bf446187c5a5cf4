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

/// The rows of one call that are not appended yet. Each is read by its number when its turn comes, which takes less than a copy that
/// waits for its turn.
#[derive(Debug)]
pub struct Rows<F> {
    row: F,
    next: usize,
    end: usize,
}

impl<'a, F, H> Rows<F>
where
    F: Fn(usize) -> Option<Row<'a, H>>,
{
    /// `count` rows, each of which `row` returns by its number, from 0 up.
    pub fn new(count: usize, row: F) -> Self {
        Rows {
            row,
            next: 0,
            end: count,
        }
    }

    /// The next row, if there is one.
    #[inline]
    pub fn peek(&self) -> Option<Row<'a, H>> {
        (self.row)(self.next)
    }

    /// Passes over the next row.
    #[inline]
    pub fn pass(&mut self) {
        self.next += 1;
    }

    /// How many rows are left.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.next)
    }
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
