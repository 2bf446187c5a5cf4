//! What Python's cycle collector looks at. PyO3 gives it all classes, and a program that keeps a million deliveries or messages
//! would wait for it to visit each of them, again and again.
#![allow(unsafe_code)]

use pyo3::prelude::*;
use pyo3::{PyClass, PyClassInitializer, ffi};

/// An object that the cycle collector does not look at. It must not hold an object that can be part of a cycle: those that are put
/// into it later need [`track`].
pub(crate) fn untracked<T: PyClass>(
    py: Python<'_>,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'_, T>> {
    let object = Bound::new(py, value)?;
    // SAFETY: the object is alive and was made with the collector's header.
    unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
    Ok(object)
}

/// Let the cycle collector look no longer at an object of any class. What is true of [`untracked`] must be true of it.
pub(crate) fn untrack(object: &Bound<'_, PyAny>) {
    let object = object.as_ptr();
    // SAFETY: the object is alive, and has the collector's header if it is tracked.
    unsafe {
        if ffi::PyObject_GC_IsTracked(object) != 0 {
            ffi::PyObject_GC_UnTrack(object.cast());
        }
    }
}

/// Let the cycle collector look at an object from now on, which [`untracked`] made or [`untrack`] took.
pub(crate) fn track<T>(object: &Bound<'_, T>) {
    let object = object.as_ptr();
    // SAFETY: the object is alive and was made with the collector's header; it is not tracked twice.
    unsafe {
        if ffi::PyObject_GC_IsTracked(object) == 0 {
            ffi::PyObject_GC_Track(object.cast());
        }
    }
}
