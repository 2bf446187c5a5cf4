//! From the outcome of a verb to Python: a struct becomes the class of its name in `ottla._admin`, called with the struct's fields
//! as keywords.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;

use ottla_client::Error;
use ottla_client::verbs::{FROZENSET, ROWS, UUID};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyList, PyModule, PyString, PyTuple};
use serde::de::{Expected, Unexpected};
use serde::ser::{
    Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, Serializer,
};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::values::scalars;

/// The Python error behind an error of serde.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct Failed(#[from] pub(super) PyErr);

impl serde::ser::Error for Failed {
    fn custom<T: Display>(text: T) -> Failed {
        Failed(PyTypeError::new_err(text.to_string()))
    }
}

impl serde::de::Error for Failed {
    fn custom<T: Display>(text: T) -> Failed {
        Failed(PyTypeError::new_err(text.to_string()))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Failed {
        let found = match found {
            Unexpected::Str(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        Failed(PyValueError::new_err(format!("{found} is not {wanted}")))
    }
}

/// The Python value of an outcome.
///
/// # Errors
/// The error of the call. Where it stands for those of many items, its `failures` has them all, and its `results` the values of the
/// others; it is the first of them.
pub(super) fn to_python<T: Serialize + 'static>(
    py: Python<'_>,
    outcome: Result<T, Error>,
) -> PyResult<Py<PyAny>> {
    let classes = Classes::new(py)?;
    match outcome {
        Ok(outcome) => Ok(classes.object(&outcome)?.unbind()),
        Err(error) => {
            let successes = error.successes::<T>().map(|found| classes.object(found));
            Err(classes.error(py, &error, successes.transpose()?)?)
        }
    }
}

/// The classes that an outcome needs: one lookup each, however many objects there are.
struct Classes<'py> {
    module: Bound<'py, PyModule>,
    found: RefCell<BTreeMap<&'static str, Bound<'py, PyAny>>>,
}

// Whatever is not generic here stays out of line: it would be compiled into each outcome.
impl<'py> Classes<'py> {
    #[inline(never)]
    fn new(py: Python<'py>) -> PyResult<Classes<'py>> {
        Ok(Classes {
            module: calls::module(py, "ottla._admin")?,
            found: RefCell::default(),
        })
    }

    #[inline(never)]
    fn get(&self, name: &'static str) -> PyResult<Bound<'py, PyAny>> {
        if let Some(class) = self.found.borrow().get(name) {
            return Ok(class.clone());
        }
        let text = PyString::new(self.module.py(), name);
        let class = self.module.guarded_attribute(&text)?;
        self.found.borrow_mut().insert(name, class.clone());
        Ok(class)
    }

    fn object(&self, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
        value
            .serialize(Results(self))
            .map_err(|Failed(error)| error)
    }

    #[inline(never)]
    fn error(
        &self,
        py: Python<'py>,
        error: &Error,
        successes: Option<Bound<'py, PyAny>>,
    ) -> PyResult<PyErr> {
        let raised = errors::to_python(py, error);
        let Some(((first, _), others)) = error.failures().split_first() else {
            return Ok(raised);
        };
        let failures = PyDict::new(py);
        failures.set_item(self.object(first)?, raised.value(py))?;
        for (item, error) in others {
            let error = errors::to_python(py, error).into_value(py);
            failures.set_item(self.object(item)?, error)?;
        }
        raised.value(py).setattr("failures", failures)?;
        if let Some(successes) = successes {
            raised.value(py).setattr("results", successes)?;
        }
        Ok(raised)
    }
}

type Made<'py> = Result<Bound<'py, PyAny>, Failed>;

#[derive(Clone, Copy)]
struct Results<'a, 'py>(&'a Classes<'py>);

impl<'py> Results<'_, 'py> {
    fn py(self) -> Python<'py> {
        self.0.module.py()
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty,)*) => { $(
        fn $method(self, value: $type) -> Made<'py> {
            Ok(value.into_bound_py_any(self.py())?)
        }
    )* };
}

impl<'a, 'py> Serializer for Results<'a, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;
    type SerializeSeq = Items<'a, 'py>;
    type SerializeTuple = Items<'a, 'py>;
    type SerializeMap = Entries<'a, 'py>;
    type SerializeStruct = Fields<'a, 'py>;
    type SerializeTupleStruct = Impossible<Self::Ok, Failed>;
    type SerializeTupleVariant = Impossible<Self::Ok, Failed>;
    type SerializeStructVariant = Impossible<Self::Ok, Failed>;

    scalars! {
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_f32: f32,
        serialize_f64: f64,
        serialize_char: char,
        serialize_str: &str,
    }

    fn serialize_bytes(self, value: &[u8]) -> Made<'py> {
        Ok(PyBytes::new(self.py(), value).into_any())
    }

    fn serialize_none(self) -> Made<'py> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Made<'py> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Made<'py> {
        Ok(self.py().None().into_bound(self.py()))
    }

    fn serialize_unit_struct(self, _: &'static str) -> Made<'py> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Made<'py> {
        self.serialize_str(name)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Made<'py> {
        let made = value.serialize(self)?;
        match name {
            FROZENSET => {
                let items = made.cast_into::<PyList>().map_err(PyErr::from)?;
                Ok(PyFrozenSet::new(self.py(), items)?.into_any())
            }
            ROWS => Ok(self.0.get(ROWS)?.guarded_call((made,))?),
            UUID => {
                let bytes = made.extract()?;
                Ok(scalars::uuid(self.py(), bytes)?.into_bound(self.py()))
            }
            _ => Ok(made),
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Made<'py> {
        Err(no_class(name))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items<'a, 'py>, Failed> {
        self.serialize_tuple(length.unwrap_or(0))
    }

    fn serialize_tuple(self, length: usize) -> Result<Items<'a, 'py>, Failed> {
        Ok(Items {
            results: self,
            items: Vec::with_capacity(length),
        })
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Failed> {
        Err(no_class(name))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Failed> {
        Err(no_class(name))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Entries<'a, 'py>, Failed> {
        Ok(Entries {
            results: self,
            key: None,
            entries: PyDict::new(self.py()),
        })
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'a, 'py>, Failed> {
        Ok(Fields {
            results: self,
            class: self.0.get(name)?,
            fields: PyDict::new(self.py()),
        })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Failed> {
        Err(no_class(name))
    }
}

fn no_class(name: &str) -> Failed {
    serde::ser::Error::custom(format_args!("{name} has no class in Python"))
}

/// A list or a tuple.
struct Items<'a, 'py> {
    results: Results<'a, 'py>,
    items: Vec<Bound<'py, PyAny>>,
}

impl<'py> SerializeSeq for Items<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        self.items.push(value.serialize(self.results)?);
        Ok(())
    }

    fn end(self) -> Made<'py> {
        Ok(PyList::new(self.results.py(), self.items)?.into_any())
    }
}

impl<'py> SerializeTuple for Items<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Made<'py> {
        Ok(PyTuple::new(self.results.py(), self.items)?.into_any())
    }
}

/// A dict.
struct Entries<'a, 'py> {
    results: Results<'a, 'py>,
    key: Option<Bound<'py, PyAny>>,
    entries: Bound<'py, PyDict>,
}

impl<'py> SerializeMap for Entries<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failed> {
        self.key = Some(key.serialize(self.results)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failed> {
        let value = value.serialize(self.results)?;
        Ok(self.entries.set_item(self.key.take(), value)?)
    }

    fn end(self) -> Made<'py> {
        Ok(self.entries.into_any())
    }
}

/// An object of a class of `ottla._admin`.
struct Fields<'a, 'py> {
    results: Results<'a, 'py>,
    class: Bound<'py, PyAny>,
    fields: Bound<'py, PyDict>,
}

impl<'py> Fields<'_, 'py> {
    #[inline(never)]
    fn set(&self, name: &'static str, value: Bound<'py, PyAny>) -> Result<(), Failed> {
        Ok(self.fields.set_item(name, value)?)
    }
}

impl<'py> SerializeStruct for Fields<'_, 'py> {
    type Ok = Bound<'py, PyAny>;
    type Error = Failed;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Failed> {
        let value = value.serialize(self.results)?;
        self.set(name, value)
    }

    fn end(self) -> Made<'py> {
        Ok(self.class.guarded_call_by_name(&self.fields)?)
    }
}
