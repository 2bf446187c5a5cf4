//! Where a client's own code runs: a counting allocator attributes what is allocated there to the client.

use std::cell::Cell;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a client's code.
pub fn inside<R>(work: impl FnOnce() -> R) -> R {
    let before = INSIDE.replace(true);
    let result = work();
    INSIDE.set(before);
    result
}

/// Whether a client's code runs on this thread. May be called by an allocator.
pub fn is_inside() -> bool {
    // A thread that ends has no cell any more.
    INSIDE.try_with(Cell::get).unwrap_or(false)
}
