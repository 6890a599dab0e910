//! What the fuzz target and the bounded mutation test both run: any bytes at all go into the decoders
//! of the protocol, as a message of the device and as one of a ring. Nothing may panic, names and bytes
//! are those of the message and lie before its end, and both ways understand the same.

use weir_fuse::{Operation, decoding};

/// Bytes of what all requests begin with.
const HEADER_BYTES: usize = 40;

/// Decodes `data` as everything that the kernel may send.
pub(crate) fn fuse(data: &[u8]) {
    let _ = decoding::first(data);
    for setxattr_ext in [false, true] {
        message(data, setxattr_ext);
        let mut mended = data.to_vec();
        if let Some(length) = mended.first_chunk_mut() {
            *length = (data.len() as u32).to_ne_bytes();
        }
        message(&mended, setxattr_ext);
    }
}

fn message(data: &[u8], setxattr_ext: bool) {
    let Some((request, operation)) = decoding::message(data, setxattr_ext) else { return };
    let len = u32::from_ne_bytes(data[..4].try_into().expect("a header")) as usize;
    assert_eq!(request.ino.to_ne_bytes(), data[16..24]);
    let whole = data.get(HEADER_BYTES..len).expect("it ends within what came");
    // What is empty lies nowhere.
    for text in operation.iter().flat_map(texts).filter(|text| !text.is_empty()) {
        let start = text.as_ptr() as usize - whole.as_ptr() as usize;
        assert_eq!(whole.get(start..start + text.len()), Some(text));
    }
    for name in operation.iter().flat_map(names) {
        assert!(!name.contains(&0), "{operation:?}");
    }
    apart(&data[..HEADER_BYTES], whole, operation, setxattr_ext);
}

/// Wherever numbers end and the payload begins, nothing else is understood than in one piece. Behind
/// the numbers of a ring lies what came before.
fn apart(header: &[u8], whole: &[u8], operation: Option<Operation<'_>>, setxattr_ext: bool) {
    for at in 0..=whole.len().min(128) {
        let (numbers, payload) = whole.split_at(at);
        let numbers = [numbers, &[0xff; 64]].concat();
        let (_, understood) =
            decoding::parts(header, &numbers, payload, setxattr_ext).expect("sizes fit");
        assert!(understood.is_none() || understood == operation, "apart at {at}: {operation:?}");
    }
    assert!(decoding::parts(header, &[], &vec![0; whole.len() + 1], setxattr_ext).is_none());
}

fn names<'a>(operation: &Operation<'a>) -> Vec<&'a [u8]> {
    match *operation {
        Operation::Lookup { name }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. }
        | Operation::Setxattr { name, .. }
        | Operation::Getxattr { name, .. }
        | Operation::Removexattr { name } => vec![name],
        Operation::Symlink { name, target: other }
        | Operation::Rename { name, new_name: other, .. } => vec![name, other],
        _ => Vec::new(),
    }
}

/// Names and other bytes.
fn texts<'a>(operation: &Operation<'a>) -> Vec<&'a [u8]> {
    match *operation {
        Operation::Setxattr { name, value, .. } => vec![name, value],
        Operation::Write { data, .. } => vec![data],
        _ => names(operation),
    }
}
