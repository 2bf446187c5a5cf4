//! The forms of what fields are made of.

use super::{Form, FormError, FormValue, IntRange, Sink};
use crate::wire::{Bytes, Ints, Str, Uuid};

macro_rules! integers {
    ($($kind:ty: $name:literal),*) => {$(
        impl Form for $kind {
            fn show(&self, _: i16, out: &mut dyn Sink) {
                out.int(i64::from(*self));
            }

            fn take(_: i16, from: &dyn FormValue) -> Result<Self, FormError> {
                const RANGE: IntRange = IntRange { name: $name, min: <$kind>::MIN as i64, max: <$kind>::MAX as i64 };
                let value = from.int(RANGE)?;
                Self::try_from(value).map_err(|_| RANGE.misses(value))
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

            fn take(_: i16, from: &dyn FormValue) -> Result<Self, FormError> {
                from.$method()
            }
        }
    )*};
}
leaves!(bool: bool(*), f64: float(*), Uuid: uuid(*), Str: string(), Bytes: bytes());

impl<T: Form> Form for Option<T> {
    fn show(&self, version: i16, out: &mut dyn Sink) {
        match self {
            Some(value) => value.show(version, out),
            None => out.null(),
        }
    }

    fn take(version: i16, from: &dyn FormValue) -> Result<Self, FormError> {
        if from.is_null() {
            Ok(None)
        } else {
            T::take(version, from).map(Some)
        }
    }
}

impl<T: Form> Form for Vec<T> {
    fn show(&self, version: i16, out: &mut dyn Sink) {
        out.begin_array(self.len());
        for element in self {
            element.show(version, out);
        }
        out.end_array();
    }

    fn take(version: i16, from: &dyn FormValue) -> Result<Self, FormError> {
        let mut array = Self::new();
        from.elements(&mut |element| {
            match T::take(version, element) {
                Ok(element) => array.push(element),
                Err(error) => return Err(error.at_index(array.len())),
            }
            Ok(())
        })?;
        Ok(array)
    }
}

impl Form for Ints {
    fn show(&self, version: i16, out: &mut dyn Sink) {
        out.begin_array(self.len());
        for number in self {
            number.show(version, out);
        }
        out.end_array();
    }

    fn take(version: i16, from: &dyn FormValue) -> Result<Self, FormError> {
        Vec::take(version, from).map(Self::from)
    }
}
