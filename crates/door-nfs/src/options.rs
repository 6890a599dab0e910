//! Where a volume is served, to whom, and with what.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_tls::ServerFiles;
use weir_types::{Ino, UnixTime};

/// The clock that file times are from.
pub type Now = Arc<dyn Fn() -> UnixTime + Send + Sync>;

/// How the door serves.
#[derive(Clone)]
pub struct NfsOptions {
    /// The address to listen on; port 0 is any that is free.
    pub listen: SocketAddr,
    /// What begins TLS with clients that ask for it (RFC 9289).
    pub tls: Option<TlsOptions>,
    /// No client may change anything.
    pub read_only: bool,
    /// After this time without a word from a client others may have what it held. Also how long after a start
    /// clients may claim what they held before, at most. In ms.
    pub lease_ms: u64,
    /// What the requests of all clients under way, and their answers, may take of memory, in bytes. A quarter
    /// of it is what one client may have.
    pub memory_bytes: u64,
    /// Files that one client may have open; it waits with the next one until it has closed another. Also
    /// how many owners of locks of files it may have.
    pub opens_max: usize,
    /// Files of which one client may keep a copy (delegations).
    pub delegations_max: usize,
    /// What is exported at the start.
    pub exports: Vec<Export>,
    /// Where `AUTH_SYS` says that a user is in 16 groups, which are all that it has room for, ask this machine
    /// in which ones the user is.
    pub manage_gids: bool,
    /// The clock.
    pub now: Now,
}

impl NfsOptions {
    /// A server of all of the volume on this address, to everybody, with root squashed.
    pub fn new(listen: SocketAddr, now: Now) -> Self {
        Self {
            listen,
            tls: None,
            read_only: false,
            lease_ms: 30_000,
            memory_bytes: 256 << 20,
            opens_max: 32_768,
            delegations_max: 4_096,
            exports: vec![Export::whole()],
            manage_gids: false,
            now,
        }
    }
}

/// TLS with clients.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The server's PEM files.
    pub files: ServerFiles,
    /// Clients that do not begin TLS are let in nowhere.
    pub required: bool,
}

/// A directory that clients may mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Export {
    /// Names it among all exports, and in file handles; never used twice in a volume. 0 is the whole volume.
    pub id: u32,
    /// What clients mount: `host:/NAME`. Empty: `host:/`.
    pub name: String,
    /// The directory.
    pub root: Ino,
    /// Where it was when the export was made, for people.
    pub path: String,
    /// Clients change nothing in it.
    pub read_only: bool,
    /// Who is somebody else here.
    pub squash: Squash,
    /// Who everybody is that is squashed.
    pub anonymous: Identity,
    /// Who everybody is, whoever they say they are.
    pub forced: Option<Identity>,
    /// From where it may be mounted; empty: from everywhere.
    pub allow: Vec<Network>,
    /// A change of names or attributes is answered before it is durable, as `async` in exports(5).
    pub asynchronous: bool,
    /// Clients must use TLS.
    pub needs_tls: bool,
}

impl Export {
    /// All of the volume, to everybody, with root squashed.
    pub fn whole() -> Self {
        Self {
            id: 0,
            name: String::new(),
            root: Ino::ROOT,
            path: "/".into(),
            read_only: false,
            squash: Squash::Root,
            anonymous: Identity { uid: NOBODY, gid: NOBODY, groups: Vec::new() },
            forced: None,
            allow: Vec::new(),
            asynchronous: false,
            needs_tls: false,
        }
    }

    /// Whether a client from there may mount it.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|network| network.contains(address))
    }
}

/// User and group of nobody.
pub const NOBODY: u32 = 65_534;

/// Who is somebody else here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// Nobody.
    None,
    /// Root.
    #[default]
    Root,
    /// All.
    All,
}

/// A user with its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The others it is in.
    pub groups: Vec<u32>,
}

/// Addresses that begin alike: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, other, width) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u128::from(own.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        (own ^ other).checked_shr(width - u32::from(self.bits)).unwrap_or(0) == 0
    }
}

impl std::str::FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no network: give an address, or one as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > width { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Serialize for Network {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Network {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        let has = |network: &str, address: &str| {
            let network: Network = network.parse().expect("a network");
            network.contains(address.parse().expect("an address"))
        };
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("10.0.0.7", "10.0.0.7") && !has("10.0.0.7", "10.0.0.6"));
        assert!(has("0.0.0.0/0", "9.9.9.9") && !has("0.0.0.0/0", "::1"));
        assert!(has("10.0.0.0/8", "::ffff:10.0.0.1"), "an IPv4 client of an IPv6 socket");
        assert!(has("fd00::/8", "fd12::1") && !has("fd00::/8", "fe80::1"));
        for wrong in ["", "10.0.0.0/33", "host", "10.0.0.0/", "10.0.0/8"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
