//! What the fuzz target and the bounded mutation test both run.

/// Decodes `data` as everything that a client may send.
pub(crate) fn nfs(data: &[u8]) {
    weir_door_nfs::decode::any(data);
}
