//! One interpreter of a process can use this module: its classes, its imported functions and its clients are one set.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The interpreter that imported this module first.
static FIRST: AtomicI64 = AtomicI64::new(-1);

/// Raise ImportError in any interpreter but the first.
///
/// Python itself rejects the import only in subinterpreters that are isolated (PEP 684), since 3.12.
pub(crate) fn check() -> PyResult<()> {
    // SAFETY: a thread that imports a module is attached, so it has an interpreter.
    let current = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match FIRST.compare_exchange(-1, current, Ordering::AcqRel, Ordering::Acquire) {
        Err(first) if first != current => Err(PyImportError::new_err(format!(
            "ottla cannot be imported in interpreter {current}, since interpreter {first} of this process uses it: \
             import it in one interpreter, or use processes"
        ))),
        _ => Ok(()),
    }
}
