//! Consecutive fields of fixed sizes: one bounds check for all of them.
//!
//! The generated code gives the position of each field in the group as a constant, so that no further check is needed.

use super::Uuid;

/// A group to read.
#[derive(Debug)]
pub(crate) struct Group<'a, const N: usize>(pub(super) &'a [u8; N]);

/// A group to write; `None` without space, which never happens.
#[derive(Debug)]
pub(crate) struct GroupMut<'a, const N: usize>(pub(super) Option<&'a mut [u8; N]>);

impl<const N: usize> Group<'_, N> {
    #[inline(always)]
    fn take<const AT: usize, const M: usize>(&self) -> [u8; M] {
        let from = self.0.get(AT..).unwrap_or_default();
        from.first_chunk().copied().unwrap_or([0; M])
    }

    #[inline(always)]
    pub(crate) fn bool<const AT: usize>(&self) -> bool {
        self.i8::<AT>() != 0
    }

    #[inline(always)]
    pub(crate) fn uuid<const AT: usize>(&self) -> Uuid {
        Uuid(self.take::<AT, 16>())
    }
}

impl<const N: usize> GroupMut<'_, N> {
    #[inline(always)]
    fn put<const AT: usize, const M: usize>(&mut self, value: [u8; M]) {
        let place = self.0.as_mut().and_then(|group| group.get_mut(AT..));
        if let Some(place) = place.and_then(<[u8]>::first_chunk_mut) {
            *place = value;
        }
    }

    #[inline(always)]
    pub(crate) fn bool<const AT: usize>(&mut self, value: bool) {
        self.put::<AT, 1>([u8::from(value)]);
    }

    #[inline(always)]
    pub(crate) fn uuid<const AT: usize>(&mut self, value: Uuid) {
        self.put::<AT, 16>(value.0);
    }
}

macro_rules! numbers {
    ($($kind:ident)*) => {$(
        impl<const N: usize> Group<'_, N> {
            #[allow(dead_code)] // not every type stands in a group today; a schema may put it there tomorrow
            #[inline(always)]
            pub(crate) fn $kind<const AT: usize>(&self) -> $kind {
                $kind::from_be_bytes(self.take::<AT, { size_of::<$kind>() }>())
            }
        }

        impl<const N: usize> GroupMut<'_, N> {
            #[allow(dead_code)]
            #[inline(always)]
            pub(crate) fn $kind<const AT: usize>(&mut self, value: $kind) {
                self.put::<AT, { size_of::<$kind>() }>(value.to_be_bytes());
            }
        }
    )*};
}

numbers!(i8 i16 u16 i32 u32 i64 f64);
