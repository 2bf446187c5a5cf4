//! Calls of Python code below a call of ours: partitioners, listeners, iterators of a user, functions and classes of the facades.
//!
//! Before 3.14, Python ends a daemon thread by `pthread_exit` when the thread requests the GIL while the interpreter ends.
//! The exit unwinds the stack, and Rust aborts the process when such an unwinding reaches a frame that must not unwind. PyO3
//! keeps the thread parked where it attaches again by itself, but not where Python code releases the GIL and requests it
//! again below a call of Rust. The functions here park the thread for ever, as Python 3.14 does. All code of Python is called
//! by them: `tests/architecture` forbids PyO3's own.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;
use std::thread;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyMapping, PyModule, PyString, PyTuple};

type Object = *mut ffi::PyObject;

/// Parks the thread that drops it.
struct Hang;

impl Drop for Hang {
    fn drop(&mut self) {
        loop {
            thread::park();
        }
    }
}

/// Run `code`, and park this thread if Python ends it meanwhile.
pub(crate) fn parked<T>(code: impl FnOnce() -> T) -> T {
    let hang = Hang;
    let value = code();
    std::mem::forget(hang);
    value
}

/// `function(arguments)` of a C interface that may run Python's code, in [`parked`].
macro_rules! guarded {
    ($function:expr, ($($argument:expr => $type:ty),*) -> $result:ty) => {{
        type Plain = unsafe extern "C" fn($($type),*) -> $result;
        type Unwinding = unsafe extern "C-unwind" fn($($type),*) -> $result;
        // SAFETY: the two types differ only in what the compiler assumes of unwinding.
        let function = unsafe { std::mem::transmute::<Plain, Unwinding>($function) };
        // Opaque: the compiler knows the function itself as one that does not unwind, and would remove the guard.
        let function = std::hint::black_box(function);
        // SAFETY: the objects are alive, and this thread is attached where the function wants it.
        $crate::bridge::calls::parked(|| unsafe { function($($argument),*) })
    }};
}

pub(crate) use guarded;

/// A new reference, or the error that is set where it is null.
fn owned(py: Python<'_>, object: Object) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: `guarded` brought it from a function that gives a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(py, object) }
}

/// Whether a function gave 1, and the error that is set where it gave -1.
fn truth(py: Python<'_>, answer: c_int) -> PyResult<bool> {
    match answer {
        -1 => Err(PyErr::fetch(py)),
        other => Ok(other != 0),
    }
}

/// What PyO3 has for any object, guarded.
pub(crate) trait Guarded<'py> {
    /// `self(*args)`.
    fn guarded_call<A>(&self, args: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error: Into<PyErr>>;

    /// `self(**arguments)`.
    fn guarded_call_by_name(&self, arguments: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>>;

    /// `self.name`.
    fn guarded_attribute(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>>;

    /// `self.name`; `None` if there is no such attribute.
    fn guarded_optional(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>>;

    /// Whether there is such an attribute.
    fn guarded_has(&self, name: &Bound<'py, PyString>) -> PyResult<bool> {
        self.guarded_optional(name).map(|found| found.is_some())
    }

    /// `self.name(*args)`.
    fn guarded_method<A>(&self, name: &Bound<'py, PyString>, args: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error: Into<PyErr>>,
    {
        self.guarded_attribute(name)?.guarded_call(args)
    }

    /// The items of an iterable.
    fn guarded_items(&self) -> PyResult<Items<'py>>;

    /// `self[key]`.
    fn guarded_item(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>;

    /// `key in self`.
    fn guarded_contains(&self, key: &Bound<'py, PyAny>) -> PyResult<bool>;

    /// `isinstance(self, class)`.
    fn guarded_is_instance(&self, class: &Bound<'py, PyAny>) -> PyResult<bool>;

    /// An integer, or what stands for one, as those of numpy do.
    fn guarded_int<T>(&self) -> PyResult<T>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>;

    /// `self - other`.
    fn guarded_difference(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>;

    /// `repr(self)`.
    fn guarded_repr(&self) -> PyResult<String>;

    /// `str(self)`.
    fn guarded_str(&self) -> PyResult<String>;

    /// The object, if it is a mapping.
    fn guarded_mapping(&self) -> PyResult<Option<&Bound<'py, PyMapping>>>;

    /// Whether it is a sequence.
    fn guarded_is_sequence(&self) -> PyResult<bool>;

    /// `len(self)`.
    fn guarded_length(&self) -> PyResult<usize>;
}

impl<'py> Guarded<'py> for Bound<'py, PyAny> {
    fn guarded_call<A>(&self, args: A) -> PyResult<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error: Into<PyErr>>,
    {
        let args = args.into_pyobject(self.py()).map_err(Into::into)?;
        let (function, args) = (self.as_ptr(), args.as_ptr());
        owned(
            self.py(),
            guarded!(ffi::PyObject_Call, (function => Object, args => Object, null_mut() => Object) -> Object),
        )
    }

    fn guarded_call_by_name(&self, arguments: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let none = PyTuple::empty(self.py());
        let (function, none, arguments) = (self.as_ptr(), none.as_ptr(), arguments.as_ptr());
        owned(
            self.py(),
            guarded!(ffi::PyObject_Call, (function => Object, none => Object, arguments => Object) -> Object),
        )
    }

    fn guarded_attribute(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let (object, name) = (self.as_ptr(), name.as_ptr());
        owned(
            self.py(),
            guarded!(ffi::PyObject_GetAttr, (object => Object, name => Object) -> Object),
        )
    }

    fn guarded_optional(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        use pyo3::exceptions::PyAttributeError;
        match self.guarded_attribute(name) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_instance_of::<PyAttributeError>(self.py()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn guarded_items(&self) -> PyResult<Items<'py>> {
        let object = self.as_ptr();
        let iterator = guarded!(ffi::PyObject_GetIter, (object => Object) -> Object);
        owned(self.py(), iterator).map(Items)
    }

    fn guarded_item(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (object, key) = (self.as_ptr(), key.as_ptr());
        owned(
            self.py(),
            guarded!(ffi::PyObject_GetItem, (object => Object, key => Object) -> Object),
        )
    }

    fn guarded_contains(&self, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        let (object, key) = (self.as_ptr(), key.as_ptr());
        let answer = guarded!(ffi::PySequence_Contains, (object => Object, key => Object) -> c_int);
        truth(self.py(), answer)
    }

    fn guarded_is_instance(&self, class: &Bound<'py, PyAny>) -> PyResult<bool> {
        let (object, class) = (self.as_ptr(), class.as_ptr());
        let answer =
            guarded!(ffi::PyObject_IsInstance, (object => Object, class => Object) -> c_int);
        truth(self.py(), answer)
    }

    fn guarded_int<T>(&self) -> PyResult<T>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        if self.is_instance_of::<PyInt>() {
            return self.extract();
        }
        let object = self.as_ptr();
        let int = guarded!(ffi::PyNumber_Index, (object => Object) -> Object);
        owned(self.py(), int)?.extract()
    }

    fn guarded_difference(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (object, other) = (self.as_ptr(), other.as_ptr());
        owned(
            self.py(),
            guarded!(ffi::PyNumber_Subtract, (object => Object, other => Object) -> Object),
        )
    }

    fn guarded_repr(&self) -> PyResult<String> {
        let object = self.as_ptr();
        let text = guarded!(ffi::PyObject_Repr, (object => Object) -> Object);
        owned(self.py(), text)?.extract()
    }

    fn guarded_str(&self) -> PyResult<String> {
        let object = self.as_ptr();
        let text = guarded!(ffi::PyObject_Str, (object => Object) -> Object);
        owned(self.py(), text)?.extract()
    }

    fn guarded_mapping(&self) -> PyResult<Option<&Bound<'py, PyMapping>>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = class(&CLASS, self.py(), "collections.abc", "Mapping")?;
        let is_one = self.guarded_is_instance(class)?;
        // SAFETY: PyO3 requires the same of a mapping.
        Ok(is_one.then(|| unsafe { self.cast_unchecked() }))
    }

    fn guarded_is_sequence(&self) -> PyResult<bool> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        self.guarded_is_instance(class(&CLASS, self.py(), "collections.abc", "Sequence")?)
    }

    fn guarded_length(&self) -> PyResult<usize> {
        let object = self.as_ptr();
        let length = guarded!(ffi::PyObject_Size, (object => Object) -> ffi::Py_ssize_t);
        usize::try_from(length).map_err(|_| PyErr::fetch(self.py()))
    }
}

/// The rest of an iterable.
pub(crate) struct Items<'py>(Bound<'py, PyAny>);

impl<'py> Iterator for Items<'py> {
    type Item = PyResult<Bound<'py, PyAny>>;

    fn next(&mut self) -> Option<Self::Item> {
        let iterator = self.0.as_ptr();
        let item = guarded!(ffi::PyIter_Next, (iterator => Object) -> Object);
        // SAFETY: a new reference, or null: at the end, or with the error set.
        let item = unsafe { Bound::from_owned_ptr_or_opt(self.0.py(), item) };
        match item {
            Some(item) => Some(Ok(item)),
            None => PyErr::take(self.0.py()).map(Err),
        }
    }
}

/// The pairs of a mapping.
pub(crate) fn entries<'py>(mapping: &Bound<'py, PyMapping>) -> PyResult<Items<'py>> {
    let name = intern!(mapping.py(), "items");
    mapping.as_any().guarded_method(name, ())?.guarded_items()
}

/// A module, imported if it was not yet.
pub(crate) fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let name = PyString::new(py, name);
    let name = name.as_ptr();
    let module = guarded!(ffi::PyImport_Import, (name => Object) -> Object);
    Ok(owned(py, module)?.cast_into()?)
}

/// An attribute of a module, which `cell` keeps.
pub(crate) fn class<'a, 'py>(
    cell: &'a PyOnceLock<Py<PyAny>>,
    py: Python<'py>,
    module_name: &str,
    name: &str,
) -> PyResult<&'a Bound<'py, PyAny>> {
    if let Some(found) = cell.get(py) {
        return Ok(found.bind(py));
    }
    // Imported before the cell is locked: a parked thread would keep the lock for ever.
    let found = module(py, module_name)?.guarded_attribute(&PyString::new(py, name))?;
    Ok(cell.get_or_init(py, || found.unbind()).bind(py))
}

/// Issue a warning. `warnings` may have a hook of the user.
pub(crate) fn warn(py: Python<'_>, category: &Bound<'_, PyAny>, text: String) -> PyResult<()> {
    let text = CString::new(text)?;
    let (category, text) = (category.as_ptr(), text.as_ptr());
    let answer = guarded!(
        ffi::PyErr_WarnEx,
        (category => Object, text => *const c_char, 1 => isize) -> c_int
    );
    truth(py, answer).map(drop)
}

/// Report an error that nobody can catch. `sys` may have a hook of the user.
pub(crate) fn write_unraisable(py: Python<'_>, error: PyErr) {
    error.restore(py);
    guarded!(ffi::PyErr_WriteUnraisable, (null_mut() => Object) -> ());
}

/// What the text of an error is, with its class.
pub(crate) fn shown(py: Python<'_>, error: &PyErr) -> String {
    let name = error.get_type(py).qualname();
    let name = name.map_or_else(|_| "an error".to_owned(), |name| name.to_string());
    match error.value(py).guarded_str() {
        Ok(text) => format!("{name}: {text}"),
        Err(_) => name,
    }
}
