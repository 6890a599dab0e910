//! The keys of an encrypted volume.
//!
//! A secret and what `volume.json` says of the keys flow in; out come [`VolumeKeys`], which seal and open records and
//! objects of metadata, or what `volume.json` says after a change. No I/O, no clock; chance comes from the system.
//! `docs/format.md` shows every byte.
//!
//! What must always hold:
//! - a secret is never shown, stored or logged, and its memory is cleared when it goes;
//! - nothing is opened that was changed by anybody without the key, or was sealed for another purpose or place;
//! - no nonce comes twice under one key: it is random, and each segment and each object has a key of its own; or the cipher
//!   bears it (rows of a database).

mod ring;
mod rows;
mod secret;
mod wrap;

pub use ring::{ClearKey, Opener, Place, SEALED_MORE_BYTES, Sealer, VolumeKeys};
pub use rows::{NAME_MORE_BYTES, NotOpened, RowKeys, VALUE_MORE_BYTES};
pub use secret::Secret;
pub use wrap::{add, create, remove, rotate, unlock};
