//! The forms of what fields are made of.

use super::{Form, FormError, FormValue, IntRange, Sink};
use crate::wire::{Bytes, Ints, Str, Uuid};

macro_rules! integers {
    ($($kind:ty: $name:literal),*) => {$(
        impl Form for $kind {
            fn show(&self, _: i16, out: &mut dyn Sink) {
                out.int(i64::from(*self));
            }

            fn fill(&mut self, _: i16, from: &dyn FormValue) -> Result<(), FormError> {
                const RANGE: IntRange = IntRange { name: $name, min: <$kind>::MIN as i64, max: <$kind>::MAX as i64 };
                let value = from.int(RANGE)?;
                *self = Self::try_from(value).map_err(|_| RANGE.misses(value))?;
                Ok(())
            }
        }
    )*};
}
integers!(i8: "int8", i16: "int16", u16: "uint16", i32: "int32", u32: "uint32", i64: "int64");

macro_rules! leaves {
    ($($kind:ty: $method:ident($($by:tt)*)),*) => {$(
        impl Form for $kind {
            fn show(&self, _: i16, out: &mut dyn Sink) {
                out.$method($($by)* self);
            }

            fn fill(&mut self, _: i16, from: &dyn FormValue) -> Result<(), FormError> {
                *self = from.$method()?;
                Ok(())
            }
        }
    )*};
}
leaves!(bool: bool(*), f64: float(*), Uuid: uuid(*), Str: string(), Bytes: bytes());

impl<T: Form + Default> Form for Option<T> {
    fn show(&self, version: i16, out: &mut dyn Sink) {
        match self {
            Some(value) => value.show(version, out),
            None => out.null(),
        }
    }

    fn fill(&mut self, version: i16, from: &dyn FormValue) -> Result<(), FormError> {
        if from.is_null() {
            *self = None;
            return Ok(());
        }
        self.insert(T::default()).fill(version, from)
    }
}

impl<T: Form + Default> Form for Vec<T> {
    fn show(&self, version: i16, out: &mut dyn Sink) {
        out.begin_array(self.len());
        for element in self {
            element.show(version, out);
        }
        out.end_array();
    }

    fn fill(&mut self, version: i16, from: &dyn FormValue) -> Result<(), FormError> {
        self.clear();
        elements(self, version, from)
    }
}

/// An array that grows.
trait Array {
    /// Appends a default element, and returns it.
    fn grow(&mut self) -> Option<&mut dyn Form>;
}

impl<T: Form + Default> Array for Vec<T> {
    fn grow(&mut self) -> Option<&mut dyn Form> {
        self.push(T::default());
        self.last_mut().map(|element| element as &mut dyn Form)
    }
}

fn elements(array: &mut dyn Array, version: i16, from: &dyn FormValue) -> Result<(), FormError> {
    let mut index = 0;
    from.elements(&mut |element| {
        if let Some(slot) = array.grow() {
            slot.fill(version, element)
                .map_err(|error| error.at_index(index))?;
        }
        index += 1;
        Ok(())
    })
}

impl Form for Ints {
    fn show(&self, version: i16, out: &mut dyn Sink) {
        out.begin_array(self.len());
        for number in self {
            number.show(version, out);
        }
        out.end_array();
    }

    fn fill(&mut self, version: i16, from: &dyn FormValue) -> Result<(), FormError> {
        *self = Vec::take(version, from).map(Self::from)?;
        Ok(())
    }
}
