//! From the arguments of a call to a verb, whose fields have the arguments' names.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer,
    MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::results::Failed;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::clients::options;
use crate::values::numbers::whole;
use crate::values::partitions::Named;

/// The verb with these arguments.
pub(super) fn verb<V: DeserializeOwned>(arguments: &Bound<'_, PyDict>) -> PyResult<V> {
    V::deserialize(Arguments(arguments)).map_err(|Failed(error)| error)
}

/// All arguments of a call.
struct Arguments<'a, 'py>(&'a Bound<'py, PyDict>);

// Whatever is not generic in this file stays out of line: it would be compiled into each verb.
impl<'py> Arguments<'_, 'py> {
    /// The arguments of these names.
    #[inline(never)]
    fn fields(
        &self,
        verb: &'static str,
        names: &'static [&'static str],
    ) -> Result<Fields<'py>, Failed> {
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            if let Some(object) = self.0.get_item(name)? {
                let class = None;
                fields.push(Argument {
                    object,
                    name,
                    class,
                });
            }
        }
        if fields.len() < self.0.len() {
            let given = self.0.keys().as_any().guarded_repr()?;
            return Err(Failed::custom(format_args!(
                "{verb} takes the arguments {names:?}, not {given}"
            )));
        }
        Ok(Fields(fields.into_iter(), None))
    }
}

impl<'de> Deserializer<'de> for Arguments<'_, '_> {
    type Error = Failed;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        verb: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        visitor.visit_map(self.fields(verb, names)?)
    }

    /// A call without arguments.
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        if !self.0.is_empty() {
            return self.deserialize_struct(name, &[], visitor);
        }
        visitor.visit_unit()
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        Err(Failed::custom(&visitor as &dyn Expected))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

/// Fields of a struct, by their names.
struct Fields<'py>(std::vec::IntoIter<Argument<'py>>, Option<Argument<'py>>);

impl<'py> Fields<'py> {
    #[inline(never)]
    fn next_name(&mut self) -> Option<&'static str> {
        self.1 = self.0.next();
        self.1.as_ref().map(|field| field.name)
    }

    #[inline(never)]
    fn next_field(&mut self) -> Result<Argument<'py>, Failed> {
        self.1
            .take()
            .ok_or_else(|| Failed::custom("a value without a name"))
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Failed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failed> {
        match self.next_name() {
            Some(name) => seed.deserialize(name.into_deserializer()).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failed> {
        let field = self.next_field()?;
        let (py, name, class) = (field.object.py(), field.name, field.class);
        seed.deserialize(field)
            .map_err(|failed| noted(py, name, class, failed))
    }
}

/// The error about a field; that about an argument has a note, as PyO3 notes the argument of a function.
#[cold]
#[inline(never)]
fn noted(py: Python<'_>, name: &str, class: Option<&str>, Failed(error): Failed) -> Failed {
    let text = format!("while processing '{name}'");
    let noted = match class {
        None => errors::note(py, &error, &text),
        Some(_) => Ok(()),
    };
    Failed(noted.err().unwrap_or(error))
}

/// A value: an argument, a part of one, or a field of an object.
struct Argument<'py> {
    object: Bound<'py, PyAny>,
    name: &'static str,
    /// The class of the object that it is a field of.
    class: Option<&'static str>,
}

impl<'py> Argument<'py> {
    #[inline(never)]
    fn extracted<T>(&self) -> Result<T, Failed>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let found: PyResult<T> = self.object.extract().map_err(Into::into);
        found.map_err(Failed)
    }

    #[inline(never)]
    fn int<T>(&self) -> Result<T, Failed>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        let Some(class) = self.class else {
            return Ok(self.object.guarded_int()?);
        };
        let what = format!("{} of a {class}", self.name);
        let wanted = format!("an int that fits {} bits", 8 * size_of::<T>());
        Ok(whole(&what, &wanted, &self.object)?)
    }

    fn part(&self, object: Bound<'py, PyAny>) -> Argument<'py> {
        Argument {
            object,
            name: self.name,
            class: None,
        }
    }

    /// The items of an iterable. A str is one of them.
    #[inline(never)]
    fn items(&self) -> Result<std::vec::IntoIter<Argument<'py>>, Failed> {
        if self.object.is_instance_of::<PyString>() {
            return Ok(vec![self.part(self.object.clone())].into_iter());
        }
        let items = self.object.guarded_items()?;
        let items = items.map(|item| Ok(self.part(item?)));
        Ok(items.collect::<PyResult<Vec<_>>>()?.into_iter())
    }

    #[inline(never)]
    fn pair(&self) -> Result<std::array::IntoIter<Argument<'py>, 2>, Failed> {
        let (one, other): (Bound<'_, PyAny>, Bound<'_, PyAny>) = self.extracted()?;
        Ok([one, other].map(|object| self.part(object)).into_iter())
    }

    /// Topic and number of a partition.
    #[inline(never)]
    fn partition(&self) -> Result<std::array::IntoIter<Argument<'py>, 2>, Failed> {
        let py = self.object.py();
        let Named {
            topic, partition, ..
        } = self.extracted()?;
        let topic = PyString::new(py, &topic).into_any();
        let partition = partition.into_pyobject(py).map_err(PyErr::from)?.into_any();
        Ok([topic, partition]
            .map(|object| self.part(object))
            .into_iter())
    }

    /// Properties by their names, as texts.
    #[inline(never)]
    fn texts(&self) -> Result<std::vec::IntoIter<(String, String)>, Failed> {
        let mut texts = Vec::new();
        if !self.object.is_none() {
            let mapping: &Bound<'_, PyMapping> = self.object.cast().map_err(PyErr::from)?;
            options::texts(None, mapping, &mut texts)?;
        }
        Ok(texts.into_iter())
    }

    /// The attributes of these names; a str alone is the first of them.
    #[inline(never)]
    fn attributes(
        &self,
        class: &'static str,
        names: &'static [&'static str],
        wanted: &dyn Expected,
    ) -> Result<Fields<'py>, Failed> {
        let mut fields = Vec::with_capacity(names.len());
        let field = |name, object| Argument {
            object,
            name,
            class: Some(class),
        };
        if self.object.is_instance_of::<PyString>() {
            fields.extend(names.first().map(|name| field(name, self.object.clone())));
        } else {
            for name in names {
                let text = PyString::new(self.object.py(), name);
                let Some(object) = self.object.guarded_optional(&text)? else {
                    let found = self.object.get_type().qualname()?;
                    return Err(Failed::custom(format_args!("{wanted}, not {found}")));
                };
                fields.push(field(name, object));
            }
        }
        Ok(Fields(fields.into_iter(), None))
    }
}

impl<'de> IntoDeserializer<'de, Failed> for Argument<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! ints {
    ($($method:ident: $visit:ident,)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
            visitor.$visit(self.int()?)
        }
    )* };
}

impl<'de> Deserializer<'de> for Argument<'_> {
    type Error = Failed;

    ints! {
        deserialize_i16: visit_i16,
        deserialize_u16: visit_u16,
        deserialize_i32: visit_i32,
        deserialize_i64: visit_i64,
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_f64(self.extracted()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_bool(self.extracted()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_string(self.extracted()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_bytes(self.extracted::<Bound<'_, PyBytes>>()?.as_bytes())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        if self.object.is_none() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_seq(SeqDeserializer::new(self.items()?))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_seq(SeqDeserializer::new(self.pair()?))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_map(MapDeserializer::new(self.texts()?))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        class: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failed> {
        if class == "TopicPartition" {
            return visitor.visit_seq(SeqDeserializer::new(self.partition()?));
        }
        let fields = self.attributes(class, names, &visitor)?;
        visitor.visit_map(fields)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        let wanted = &visitor as &dyn Expected;
        Err(Failed::custom(format_args!(
            "argument '{}' is {wanted}, which no argument can be",
            self.name
        )))
    }

    forward_to_deserialize_any! {
        i8 i128 u8 u32 u64 u128 f32 char str byte_buf unit unit_struct tuple_struct enum identifier ignored_any
    }
}
