//! Which open files a program that this one executes gets.

/// Marks every descriptor but the standard three close-on-exec: what our caller had open (a lock, a
/// file on another mount) must not stay open for as long as a daemon lives.
#[expect(unsafe_code, reason = "neither std nor rustix can mark descriptors they do not own")]
pub(crate) fn close_on_exec() {
    // By its number: C libraries before 2.34 have no function for it, and kernels before 5.9 no call.
    let (first, last, flags) = (3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: this closes nothing in this process, so every owner keeps a valid descriptor; it
    // only sets a flag that std sets on its own descriptors anyway.
    let failed = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } != 0;
    if failed {
        tracing::debug!("close_range is not there: what is executed inherits open files");
    }
}
