//! Fields of fixed sizes that follow each other: one check and one copy for all of them.

use super::Uuid;

/// The bytes of a group, read or written from the first to the last.
///
/// The generated code takes out or puts in exactly what `N` counts, so that all positions are known when it is compiled.
#[derive(Debug)]
pub(crate) struct Group<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

macro_rules! both_ways {
    ($($name:ident $put:ident $kind:ty),*) => {$(
        #[allow(dead_code)] // not every type stands in a group today; a schema may put it there tomorrow
        #[inline(always)]
        pub(crate) fn $name(&mut self) -> $kind {
            <$kind>::from_be_bytes(self.take())
        }

        #[allow(dead_code)]
        #[inline(always)]
        pub(crate) fn $put(&mut self, value: $kind) {
            self.put(value.to_be_bytes());
        }
    )*};
}

impl<const N: usize> Group<N> {
    /// To be filled.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self::of([0; N])
    }

    /// To be read.
    #[inline(always)]
    pub(crate) fn of(bytes: [u8; N]) -> Self {
        Self { bytes, at: 0 }
    }

    /// What was put in.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8; N] {
        &self.bytes
    }

    #[inline(always)]
    fn take<const M: usize>(&mut self) -> [u8; M] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += M;
        rest.first_chunk().copied().unwrap_or([0; M])
    }

    #[inline(always)]
    fn put<const M: usize>(&mut self, value: [u8; M]) {
        let rest = self.bytes.get_mut(self.at..).unwrap_or_default();
        if let Some(place) = rest.first_chunk_mut() {
            *place = value;
        }
        self.at += M;
    }

    both_ways!(i8 put_i8 i8, i16 put_i16 i16, u16 put_u16 u16, i32 put_i32 i32, u32 put_u32 u32, i64 put_i64 i64, f64 put_f64 f64);

    #[inline(always)]
    pub(crate) fn bool(&mut self) -> bool {
        self.i8() != 0
    }

    #[inline(always)]
    pub(crate) fn put_bool(&mut self, value: bool) {
        self.put_i8(i8::from(value));
    }

    #[inline(always)]
    pub(crate) fn uuid(&mut self) -> Uuid {
        Uuid(self.take())
    }

    #[inline(always)]
    pub(crate) fn put_uuid(&mut self, value: Uuid) {
        self.put(value.0);
    }
}
