//! Takes choices from the front of an input; missing bytes are zero.

/// The rest of an input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.0 = rest;
                *taken
            }
            None => {
                self.0 = &[];
                [0; N]
            }
        }
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    /// Two bytes.
    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take())
    }

    /// Two bytes.
    pub(crate) fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take())
    }

    /// Four bytes.
    pub(crate) fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    /// A piece after its length in two bytes, or the part of it that is there.
    pub(crate) fn long_piece(&mut self) -> &'a [u8] {
        let length = usize::from(self.u16()).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        piece
    }
}
