//! The calls of the kernel. Structures and numbers are those of `include/uapi/linux/fscrypt.h`.
#![allow(unsafe_code, reason = "neither rustix nor libc has the calls of fscrypt")]

use std::fs::File;
use std::io::{self, Error};
use std::os::fd::AsRawFd;

/// `_IOC` of `asm-generic/ioctl.h`, of type `f`.
const fn number(direction: u32, number: u32, bytes: usize) -> libc::Ioctl {
    (direction << 30 | (bytes as u32) << 16 | (b'f' as u32) << 8 | number) as libc::Ioctl
}
const READ: u32 = 2;
const WRITE: u32 = 1;
const SET_POLICY: libc::Ioctl = number(READ, 19, 12);
const GET_POLICY_EX: libc::Ioctl = number(READ | WRITE, 22, 9);
const ADD_KEY: libc::Ioctl = number(READ | WRITE, 23, size_of::<AddKey>());
const REMOVE_KEY: libc::Ioctl = number(READ | WRITE, 24, size_of::<RemoveKey>());

const BY_IDENTIFIER: u32 = 2;
const POLICY_V2: u8 = 2;
const AES_256_XTS: u8 = 1;
const AES_256_CTS: u8 = 4;
/// Names are as long as the next multiple of 32 bytes.
const PAD_32: u8 = 3;
const FILES_BUSY: u32 = 1;

const NAME_BYTES: usize = 16;
/// Most bytes of a key.
const KEY_BYTES_MAX: usize = 64;

/// How the kernel names a key: by a hash of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyName([u8; NAME_BYTES]);

/// What the kernel has forgotten.
pub(super) enum Forgotten {
    /// The key, and all that it knew by it.
    All,
    /// The key, but for what belongs to files that somebody has open.
    NotFilesInUse,
}

#[repr(C)]
struct KeySpec {
    kind: u32,
    reserved: u32,
    name: [u8; 32],
}

#[repr(C)]
struct AddKey {
    spec: KeySpec,
    raw_bytes: u32,
    key_id: u32,
    reserved: [u32; 8],
    raw: [u8; 0],
}

#[repr(C)]
struct RemoveKey {
    spec: KeySpec,
    flags: u32,
    reserved: [u32; 5],
}

#[repr(C)]
#[derive(Default)]
struct Policy {
    version: u8,
    contents: u8,
    names: u8,
    flags: u8,
    log2_unit: u8,
    reserved: [u8; 3],
    key: [u8; NAME_BYTES],
}

#[repr(C)]
struct GetPolicy {
    bytes: u64,
    policy: Policy,
}

impl KeySpec {
    fn named(name: [u8; NAME_BYTES]) -> Self {
        let mut spec = Self { kind: BY_IDENTIFIER, reserved: 0, name: [0; 32] };
        spec.name[..NAME_BYTES].copy_from_slice(&name);
        spec
    }

    fn key_name(&self) -> KeyName {
        let (name, _) = self.name.split_first_chunk().expect("longer than a name");
        KeyName(*name)
    }
}

/// Gives the file system of `on` a key.
pub(super) fn add_key(on: &File, key: &[u8]) -> io::Result<KeyName> {
    #[repr(C)]
    struct WithKey {
        add: AddKey,
        raw: [u8; KEY_BYTES_MAX],
    }
    let mut with = WithKey {
        add: AddKey {
            spec: KeySpec::named([0; NAME_BYTES]),
            raw_bytes: key.len() as u32,
            key_id: 0,
            reserved: [0; 8],
            raw: [],
        },
        raw: [0; KEY_BYTES_MAX],
    };
    with.raw[..key.len()].copy_from_slice(key);
    // SAFETY: the kernel reads `AddKey` and so many bytes behind it as `raw_bytes` says, which `raw` has, and writes the
    // name into `spec`. `with` lives until then.
    let answer = unsafe { libc::ioctl(on.as_raw_fd(), ADD_KEY, &raw mut with) };
    let failed = Error::last_os_error();
    // SAFETY: an array of ours, written so that it is not left out.
    unsafe { std::ptr::write_volatile(&raw mut with.raw, [0; KEY_BYTES_MAX]) };
    if answer != 0 {
        return Err(failed);
    }
    Ok(with.add.spec.key_name())
}

/// Has the file system of `on` forget a key that this user gave it.
pub(super) fn remove_key(on: &File, name: KeyName) -> io::Result<Forgotten> {
    let mut remove = RemoveKey { spec: KeySpec::named(name.0), flags: 0, reserved: [0; 5] };
    // SAFETY: the kernel reads and writes a `RemoveKey`, which lives until then.
    match unsafe { libc::ioctl(on.as_raw_fd(), REMOVE_KEY, &raw mut remove) } {
        0 if remove.flags & FILES_BUSY != 0 => Ok(Forgotten::NotFilesInUse),
        0 => Ok(Forgotten::All),
        _ => Err(Error::last_os_error()),
    }
}

/// By which key a directory is encrypted, if it is.
pub(super) fn policy(directory: &File) -> io::Result<Option<KeyName>> {
    let mut get = GetPolicy { bytes: size_of::<Policy>() as u64, policy: Policy::default() };
    // SAFETY: the kernel writes as many bytes behind `bytes` as that says, which are those of `policy`.
    if unsafe { libc::ioctl(directory.as_raw_fd(), GET_POLICY_EX, &raw mut get) } == 0 {
        return match get.policy.version {
            POLICY_V2 => Ok(Some(KeyName(get.policy.key))),
            // Somebody else's: no key of ours is it.
            _ => Ok(Some(KeyName([0; NAME_BYTES]))),
        };
    }
    let error = Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => Ok(None),
        // A policy of another version that is longer.
        Some(libc::EOVERFLOW) => Ok(Some(KeyName([0; NAME_BYTES]))),
        _ => Err(error),
    }
}

/// Has an empty directory be encrypted by a key.
pub(super) fn set_policy(directory: &File, KeyName(key): KeyName) -> io::Result<()> {
    let policy = Policy {
        version: POLICY_V2,
        contents: AES_256_XTS,
        names: AES_256_CTS,
        flags: PAD_32,
        key,
        ..Policy::default()
    };
    // SAFETY: the kernel reads a policy, whose version says how long it is.
    match unsafe { libc::ioctl(directory.as_raw_fd(), SET_POLICY, &raw const policy) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}
