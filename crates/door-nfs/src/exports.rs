//! Which directories are exported, and who is who below each.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use weir_types::Ino;

use crate::caller::Caller;
use crate::handle::Handle;
use crate::options::{Export, Squash};
use crate::protocol::rpc::Credential;
use crate::protocol::status::Status;

/// Where a client is, and by what it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    pub(crate) address: IpAddr,
    pub(crate) tls: bool,
}

/// All exports. Changes hold from the next request on.
pub(crate) struct Exports {
    all: RwLock<Arc<Vec<Arc<Export>>>>,
    changes: AtomicU64,
    /// Clients without TLS are let in nowhere.
    tls_required: bool,
}

impl Exports {
    pub(crate) fn new(all: Vec<Export>, tls_required: bool) -> Self {
        let exports = Self { all: RwLock::default(), changes: AtomicU64::default(), tls_required };
        exports.set(all);
        exports
    }

    pub(crate) fn set(&self, all: Vec<Export>) {
        *self.all.write() = Arc::new(all.into_iter().map(Arc::new).collect());
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts the changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn all(&self) -> Arc<Vec<Arc<Export>>> {
        self.all.read().clone()
    }

    /// The export of a handle: `STALE` where it is one no more, `ACCESS` and `WRONGSEC` where this client has
    /// no part in it.
    pub(crate) fn get(&self, id: u32, from: From) -> Result<Arc<Export>, Status> {
        let all = self.all();
        let found = all.iter().find(|export| export.id == id).ok_or(Status::STALE)?;
        if !found.allows(from.address) {
            return Err(Status::ACCESS);
        }
        match (found.needs_tls || self.tls_required) && !from.tls {
            true => Err(Status::WRONGSEC),
            false => Ok(found.clone()),
        }
    }

    /// The export of this name, if there is one for this client.
    pub(crate) fn named(&self, name: &[u8], from: From) -> Option<Arc<Export>> {
        let all = self.all();
        let found = all.iter().find(|export| export.name.as_bytes() == name)?;
        found.allows(from.address).then(|| found.clone())
    }

    /// The exports that have names, for this client, by id.
    pub(crate) fn list(&self, from: From) -> Vec<Arc<Export>> {
        let mut all: Vec<_> = (*self.all()).clone();
        all.retain(|export| !export.name.is_empty() && export.allows(from.address));
        all.sort_by_key(|export| export.id);
        all
    }

    /// What `host:/` is for this client.
    pub(crate) fn root(&self, from: From) -> Handle {
        match self.named(b"", from) {
            Some(export) => Handle::Inode { export: export.id, ino: export.root },
            None => Handle::Above,
        }
    }

    /// Whether names of exports lie in this directory.
    pub(crate) fn is_root(&self, handle: Handle, from: From) -> bool {
        self.root(from) == handle
    }
}

/// Whether a handle is that of its export's directory: nothing above it is to be had.
pub(crate) fn is_top(export: &Export, ino: Ino) -> bool {
    export.root == ino
}

/// Who a request is from, by the rules of an export. Without one it is who it says.
pub(crate) fn caller(export: Option<&Export>, credential: &Credential, groups: &[u32]) -> Caller {
    let nobody =
        || Caller { uid: crate::options::NOBODY, gid: crate::options::NOBODY, groups: Vec::new() };
    let said = match credential {
        Credential::None => None,
        Credential::Sys { uid, gid, .. } => {
            Some(Caller { uid: *uid, gid: *gid, groups: groups.to_vec() })
        }
    };
    let Some(export) = export else { return said.unwrap_or_else(nobody) };
    if let Some(forced) = &export.forced {
        return Caller::from(forced);
    }
    let Some(mut said) = said else { return Caller::from(&export.anonymous) };
    match export.squash {
        Squash::All => Caller::from(&export.anonymous),
        Squash::Root => {
            let anonymous = &export.anonymous;
            if said.uid == 0 {
                said.uid = anonymous.uid;
            }
            for gid in std::iter::once(&mut said.gid).chain(&mut said.groups) {
                if *gid == 0 {
                    *gid = anonymous.gid;
                }
            }
            said
        }
        Squash::None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Identity;

    fn sys(uid: u32, gid: u32) -> Credential {
        Credential::Sys { uid, gid, groups: Vec::new() }
    }

    #[test]
    fn squashing_is_by_the_export() {
        let mut export = Export::whole();
        let who = |export: &Export, uid, gid| {
            let caller = caller(Some(export), &sys(uid, gid), &[0, 7]);
            (caller.uid, caller.gid, caller.groups)
        };
        assert_eq!(who(&export, 0, 0), (65_534, 65_534, vec![65_534, 7]));
        assert_eq!(who(&export, 5, 6), (5, 6, vec![65_534, 7]));
        export.squash = Squash::None;
        assert_eq!(who(&export, 0, 0), (0, 0, vec![0, 7]));
        export.squash = Squash::All;
        assert_eq!(who(&export, 5, 6), (65_534, 65_534, vec![]));
        export.forced = Some(Identity { uid: 1, gid: 2, groups: vec![3] });
        assert_eq!(who(&export, 0, 0), (1, 2, vec![3]));
        let unsaid = caller(Some(&Export::whole()), &Credential::None, &[]);
        assert_eq!(unsaid.uid, 65_534);
    }

    #[test]
    fn who_may_not_mount_an_export_does_not_see_it() {
        let only = |address: &str| vec![address.parse().expect("a network")];
        let whole = Export { allow: only("10.0.0.1"), ..Export::whole() };
        let home = Export {
            id: 1,
            name: "home".into(),
            root: Ino(5),
            allow: only("10.0.0.0/24"),
            needs_tls: true,
            ..Export::whole()
        };
        let exports = Exports::new(vec![whole, home], false);
        let from = |address: &str, tls| From { address: address.parse().expect("one"), tls };
        let (one, two) = (from("10.0.0.1", false), from("10.0.0.2", false));
        assert_eq!(exports.root(one), Handle::Inode { export: 0, ino: Ino::ROOT });
        assert_eq!(exports.root(two), Handle::Above);
        assert_eq!(exports.list(two).len(), 1);
        assert!(exports.list(from("9.9.9.9", false)).is_empty());
        assert_eq!(exports.get(0, two).map(|_| ()), Err(Status::ACCESS));
        assert_eq!(exports.get(1, two).map(|_| ()), Err(Status::WRONGSEC));
        assert!(exports.get(1, from("10.0.0.2", true)).is_ok());
        assert_eq!(exports.get(9, one).map(|_| ()), Err(Status::STALE));
    }
}
