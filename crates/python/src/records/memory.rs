//! Memory for large columns, in huge pages where the system has them: a fault, and looking up where memory is, for each 4 KiB takes
//! a sixth of the processor time of reading. How to get them is known for the allocator of GNU's C library.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::mem::MaybeUninit;

/// The sizes of pages on most machines; on others the advice is not taken.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PAGE: usize = 4 << 10;
const HUGE_PAGE: usize = 2 << 20;
/// What an allocator writes in front of large memory, at most.
const FRONT: usize = 32;

/// Memory for this many bytes, or a quarter more if that makes it huge pages.
pub(crate) fn fresh(bytes: usize) -> Vec<u8> {
    // What the allocator maps is then whole huge pages, which begin where one may.
    let huge = (bytes + FRONT).next_multiple_of(HUGE_PAGE) - FRONT;
    if !cfg!(all(target_os = "linux", target_env = "gnu")) || huge > bytes + bytes / 4 {
        return Vec::with_capacity(bytes);
    }
    let mut memory = Vec::with_capacity(huge);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    advise_huge(memory.spare_capacity_mut());
    memory
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn advise_huge(room: &mut [MaybeUninit<u8>]) {
    // The whole mapping: its first page holds the allocator's bytes too.
    let before = room.as_ptr().addr() % PAGE;
    let mapping = room.as_mut_ptr().wrapping_sub(before).cast();
    // SAFETY: the advice changes neither what the pages hold nor whether they are there, so that it does no harm to what
    // else is in the first and the last.
    unsafe {
        libc::madvise(mapping, before + room.len(), libc::MADV_HUGEPAGE);
        // The allocator has written there already: the first of them is a small page by now.
        libc::madvise(mapping, HUGE_PAGE, libc::MADV_COLLAPSE);
    }
}
