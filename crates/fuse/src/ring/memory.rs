//! The memory of a ring's entries, in which requests come and their answers go.
//!
//! An entry belongs to the kernel from a command until its completion, and else to the one who
//! serves its request.
#![allow(unsafe_code, reason = "the kernel writes into it")]

use std::io;
use std::ptr::{self, NonNull};

use crate::abi::uring::HEADERS_BYTES;

/// From one entry's headers to the next: they, and behind them the addresses of both parts.
const STRIDE: usize = 512;
const VECTORS_AT: usize = 320;
const _: () = assert!(HEADERS_BYTES <= VECTORS_AT);

/// Payloads of all entries, then their headers, then a number for the kernel to count in.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    entries: usize,
    payload_bytes: usize,
}

// SAFETY: it is plain memory that moves nowhere; who may use which part of it when is said at the
// methods that do.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Of so many entries. It takes room only where something was written.
    pub(super) fn new(entries: usize, payload_bytes: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, with no address asked for, is in nobody's way.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                Self::bytes(entries, payload_bytes),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                let memory = Self { start, entries, payload_bytes };
                (0..entries).for_each(|entry| memory.put_vectors(entry));
                Ok(memory)
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn bytes(entries: usize, payload_bytes: usize) -> usize {
        entries * (payload_bytes + STRIDE) + size_of::<u64>()
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < Self::bytes(self.entries, self.payload_bytes));
        // SAFETY: the offset is within the mapping: callers' entries are less than `entries`.
        unsafe { self.start.as_ptr().add(offset) }
    }

    fn payload(&self, entry: usize) -> *mut u8 {
        assert!(entry < self.entries, "entry {entry} of {}", self.entries);
        self.at(entry * self.payload_bytes)
    }

    fn headers(&self, entry: usize) -> *mut u8 {
        assert!(entry < self.entries, "entry {entry} of {}", self.entries);
        self.at(self.entries * self.payload_bytes + entry * STRIDE)
    }

    /// Where the kernel finds the addresses of an entry's headers and payload.
    pub(super) fn vectors(&self, entry: usize) -> *mut libc::iovec {
        self.headers(entry).wrapping_add(VECTORS_AT).cast()
    }

    fn put_vectors(&self, entry: usize) {
        let vectors = [
            libc::iovec { iov_base: self.headers(entry).cast(), iov_len: HEADERS_BYTES },
            libc::iovec { iov_base: self.payload(entry).cast(), iov_len: self.payload_bytes },
        ];
        // SAFETY: both lie within the entry's stride, which begins at a multiple of 512 bytes of a
        // mapping whose payloads are whole pages; nobody else has the memory yet.
        unsafe { self.vectors(entry).cast::<[libc::iovec; 2]>().write(vectors) };
    }

    /// A number that the kernel may write at any time, and that nobody reads.
    pub(super) fn counter(&self) -> *mut u8 {
        self.at(self.entries * (self.payload_bytes + STRIDE))
    }

    /// An entry's headers.
    ///
    /// # Safety
    /// The entry is not the kernel's, and nobody else uses its headers, as long as they are used.
    #[allow(clippy::mut_from_ref, reason = "who has an entry has its headers alone")]
    pub(super) unsafe fn headers_mut(&self, entry: usize) -> &mut [u8; HEADERS_BYTES] {
        // SAFETY: they are within the mapping, and by this function's promise nobody else's.
        unsafe { &mut *self.headers(entry).cast() }
    }

    /// The first bytes of an entry's payload.
    ///
    /// # Safety
    /// The entry is not the kernel's, and nobody writes to it, as long as they are used.
    pub(super) unsafe fn bytes_of(&self, entry: usize, count: usize) -> &[u8] {
        let count = count.min(self.payload_bytes);
        // SAFETY: they are within the mapping, and by this function's promise nobody writes there.
        unsafe { std::slice::from_raw_parts(self.payload(entry), count) }
    }

    /// Puts bytes at the start of an entry's payload.
    ///
    /// # Safety
    /// The entry is not the kernel's, and nobody else uses its payload.
    pub(super) unsafe fn put(&self, entry: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.payload_bytes, "{} bytes are too many", bytes.len());
        // SAFETY: there is room for them, and by this function's promise nobody else is there.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.payload(entry), bytes.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let bytes = Self::bytes(self.entries, self.payload_bytes);
        // SAFETY: it was mapped with this size; whoever used it had it by reference.
        if unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) } != 0 {
            tracing::debug!(error = %io::Error::last_os_error(), "a ring's memory stays");
        }
    }
}
