//! Where else a volume is mounted: a mount that left the tree lives on in copies of the tree, which
//! other mount namespaces are (containers, services), and where it was bound to other directories.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::mountpoint::mounted_in;

/// How many places are named.
const NAMED_MAX: usize = 3;

/// Where a file system is mounted, in words, as far as this user may see; `None` if nowhere.
pub(crate) fn shown(device: &str) -> Option<String> {
    let mut places = places(device);
    let more = places.len().saturating_sub(NAMED_MAX);
    places.truncate(NAMED_MAX);
    let also = if more > 0 { format!(" and {more} more places") } else { String::new() };
    (!places.is_empty()).then(|| places.join(", ") + &also)
}

/// Each place once: those in our own mount namespace, and one process of each other namespace.
fn places(device: &str) -> Vec<String> {
    let of = |process: &Path| {
        let mounts = mounted_in(&process.join("mountinfo")).unwrap_or_default().into_iter();
        mounts.filter(|mount| mount.device == device).map(|mount| mount.mountpoint)
    };
    let ours = Path::new("/proc/self");
    let mut seen: HashSet<_> = namespace(ours).into_iter().collect();
    let mut places: Vec<_> = of(ours).map(|at| at.display().to_string()).collect();
    for process in processes() {
        // One that may not be looked at is passed over, as is one that ended.
        let Some(namespace) = namespace(&process) else { continue };
        if !seen.insert(namespace) {
            continue;
        }
        if let Some(at) = of(&process).next() {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            let pid = process.file_name().unwrap_or_default().display();
            let (name, at) = (name.trim(), at.display());
            places.push(format!("{at} in the mount namespace of process {pid} ({name})"));
        }
    }
    places
}

fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let is_process = |name: &OsString| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|one| one.file_name());
    names.filter(is_process).map(|name| Path::new("/proc").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mountpoint::mounted_on;

    #[test]
    fn a_file_system_is_found_where_it_is_mounted() {
        let root = mounted_on(Path::new("/")).unwrap().unwrap().device;
        assert!(places(&root).contains(&"/".to_owned()), "{:?}", places(&root));
        assert_eq!(shown("0:0"), None);
    }
}
