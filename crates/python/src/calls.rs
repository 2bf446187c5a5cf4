//! Calls of Python code below a call of ours: partitioners, listeners, iterators of a user, functions of the facades.
//!
//! Before 3.14, Python ends a daemon thread by `pthread_exit` when the thread requests the GIL while the interpreter ends.
//! The exit unwinds the stack, and Rust aborts the process when such an unwinding reaches a `catch_unwind` of PyO3. PyO3
//! keeps the thread parked where it attaches again by itself, but not where Python code gives up the GIL and requests it
//! again below a call of Rust. The functions here park the thread for ever, as Python 3.14 does.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::thread;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

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
fn parked<T>(code: impl FnOnce() -> T) -> T {
    let hang = Hang;
    let value = code();
    std::mem::forget(hang);
    value
}

/// Call `callable(*args)`.
pub(crate) fn call<'py, A>(callable: &Bound<'py, PyAny>, args: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error: Into<PyErr>>,
{
    type Plain = unsafe extern "C" fn(Object, Object, Object) -> Object;
    type Unwinding = unsafe extern "C-unwind" fn(Object, Object, Object) -> Object;
    let args = args.into_pyobject(callable.py()).map_err(Into::into)?;
    // SAFETY: the two types differ only in what the compiler assumes of unwinding.
    let function = unsafe { std::mem::transmute::<Plain, Unwinding>(ffi::PyObject_Call) };
    // Opaque: the compiler knows the function itself as one that does not unwind, and would remove the guard.
    let function = black_box(function);
    // SAFETY: both objects are alive, and this thread is attached.
    let value =
        parked(|| unsafe { function(callable.as_ptr(), args.as_ptr(), std::ptr::null_mut()) });
    // SAFETY: a new reference, or null with the error set.
    unsafe { Bound::from_owned_ptr_or_err(callable.py(), value) }
}

/// The items of an iterable that a user gave.
pub(crate) fn items<'py>(iterable: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
    match one(iterable, ffi::PyObject_GetIter)? {
        Some(iterator) => Ok(Items(iterator)),
        None => Err(PyErr::fetch(iterable.py())),
    }
}

/// See [`items`].
pub(crate) struct Items<'py>(Bound<'py, PyAny>);

impl<'py> Iterator for Items<'py> {
    type Item = PyResult<Bound<'py, PyAny>>;

    fn next(&mut self) -> Option<Self::Item> {
        one(&self.0, ffi::PyIter_Next).transpose()
    }
}

/// What a function of Python's interface gives for an object; nothing if it gives null without an error.
fn one<'py>(
    object: &Bound<'py, PyAny>,
    function: unsafe extern "C" fn(Object) -> Object,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    type Unwinding = unsafe extern "C-unwind" fn(Object) -> Object;
    // SAFETY: as in `call`.
    let function = unsafe {
        std::mem::transmute::<unsafe extern "C" fn(Object) -> Object, Unwinding>(function)
    };
    let function = black_box(function);
    // SAFETY: the object is alive, and this thread is attached.
    let value = parked(|| unsafe { function(object.as_ptr()) });
    // SAFETY: a new reference, or null.
    match unsafe { Bound::from_owned_ptr_or_opt(object.py(), value) } {
        Some(value) => Ok(Some(value)),
        None => PyErr::take(object.py()).map_or(Ok(None), Err),
    }
}
