//! The node: shows volumes to pods. A Weir volume is mounted once; what is staged and published are
//! binds of its directories.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::MountFlags;
use tonic::Code;

use crate::bind::{alive, bind, open_below, remove_directory, unbind};
use crate::capability::Access;
use crate::directories::{self, Record};
use crate::driver::Driver;
use crate::fault::{Fault, Result};
use crate::proto::*;
use crate::source::{Source, directory_name};
use crate::table::{Mount, Table};
use crate::weir::Keys;

/// Where the volumes of pods that bring their own are made.
const EPHEMERAL_BASE: &str = "ephemeral";

impl Driver {
    pub(crate) fn stage(&self, request: NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse> {
        given("volume id", &request.volume_id)?;
        let at = path("staging path", &request.staging_target_path)?;
        let access = Access::of(request.volume_capability.as_ref())?;
        let keys = Keys::from_secrets(&request.secrets)?;
        let source = Source::from_map(&request.volume_context)?;
        let directory = source.directory.clone().unwrap_or_default();
        let flags = flags(access, false);
        self.shared
            .with(&source, &keys, access.read_only, |root| show(root, &directory, &at, flags))?;
        Ok(NodeStageVolumeResponse {})
    }

    pub(crate) fn unstage(
        &self,
        request: NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse> {
        given("volume id", &request.volume_id)?;
        let at = path("staging path", &request.staging_target_path)?;
        self.take_away(&at)?;
        Ok(NodeUnstageVolumeResponse {})
    }

    pub(crate) fn publish(
        &self,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse> {
        given("volume id", &request.volume_id)?;
        let at = path("target path", &request.target_path)?;
        let access = Access::of(request.volume_capability.as_ref())?;
        if request.volume_context.get("csi.storage.k8s.io/ephemeral").is_some_and(|v| v == "true") {
            self.publish_ephemeral(&request, &at, access)?;
            return Ok(NodePublishVolumeResponse {});
        }
        let staged = path("staging path", &request.staging_target_path)?;
        let table = Table::read()?;
        let Some(mount) = table.at(&staged) else {
            let text = format!("{} is not staged at {}", request.volume_id, staged.display());
            return Err(Fault::refused(text));
        };
        if !alive(&staged) {
            return Err(Fault::refused(format!(
                "the daemon of {} is gone: end all pods of this node that use the volume, so that \
                 it is staged anew",
                request.volume_id
            )));
        }
        let shared = self.shared.place_of(mount, &table).map(|place| place.join("mnt"));
        let here = [Some(&staged), Some(&at), shared.as_ref()];
        if access.alone && published_elsewhere(&table, mount, &here) {
            let text = "is published to a pod already, and may be to one only";
            return Err(Fault::refused(format!("{} {text}", request.volume_id)));
        }
        show(&staged, "", &at, flags(access, request.readonly))?;
        Ok(NodePublishVolumeResponse {})
    }

    /// The volume of one pod, which is written into the pod: a directory that is there, or, where
    /// none is named, one that ends with the pod.
    fn publish_ephemeral(
        &self,
        request: &NodePublishVolumeRequest,
        at: &Path,
        access: Access,
    ) -> Result<()> {
        let keys = Keys::from_secrets(&request.secrets)?;
        let source = Source::from_map(&request.volume_context)?;
        if !keys.has_those_of_a_bucket() && !source.url.starts_with("file:") {
            let text = "a volume in a pod brings its own keys (nodePublishSecretRef): those of the node are not its author's";
            return Err(Fault::invalid(text));
        }
        let flags = flags(access, request.readonly);
        let read_only = flags.contains(MountFlags::RDONLY);
        if let Some(directory) = &source.directory {
            return self
                .shared
                .with(&source, &keys, read_only, |root| show(root, directory, at, flags));
        }
        if read_only {
            return Err(Fault::invalid("a directory that is new cannot be read-only: name one"));
        }
        let base = source.base_path.clone().unwrap_or_else(|| EPHEMERAL_BASE.to_owned());
        let source = Source { base_path: Some(base), ..source };
        let made = source.below_base(&directory_name(&request.volume_id));
        let directory = made.directory.clone().unwrap_or_default();
        let name = request.volume_id.clone();
        let record = Record { name, capacity_bytes: 0, ephemeral: true };
        let mode = source.mode_bits()?;
        self.shared.with(&source, &keys, false, |root| {
            let found = directories::make(root, &directory, &record, mode)?;
            if found != record {
                return Err(Fault::exists(format!("{directory} is another volume's")));
            }
            show(root, &directory, at, flags)
        })
    }

    pub(crate) fn unpublish(
        &self,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse> {
        given("volume id", &request.volume_id)?;
        let at = path("target path", &request.target_path)?;
        self.end_ephemeral(&at)?;
        self.take_away(&at)?;
        remove_directory(&at)?;
        Ok(NodeUnpublishVolumeResponse {})
    }

    /// Removes what ends with its pod. It is removed before it is unmounted, so that nothing is left
    /// where this is cut off and asked for again.
    fn end_ephemeral(&self, at: &Path) -> Result<()> {
        let table = Table::read()?;
        let Some((mount, place)) =
            table.at(at).and_then(|mount| Some((mount, self.shared.place_of(mount, &table)?)))
        else {
            return Ok(());
        };
        let (root, directory) = (place.join("mnt"), mount.root.to_string_lossy());
        if !alive(&root) {
            tracing::warn!(?root, "its daemon is gone: what is in {directory} stays");
            return Ok(());
        }
        match directories::record_of(&root, &directory)? {
            Some(record) if record.ephemeral => self.remove(&root, &directory),
            _ => Ok(()),
        }
    }

    /// Takes a bind away, and with the last one the volume, which is flushed then. Where the bind is
    /// gone already, an earlier request may have been cut off before the rest.
    fn take_away(&self, at: &Path) -> Result<()> {
        let table = Table::read()?;
        let Some(mount) = table.at(at) else {
            return self.shared.release_idle();
        };
        let place = self.shared.place_of(mount, &table);
        unbind(at)?;
        place.map_or(Ok(()), |place| self.shared.release(&place))
    }

    pub(crate) fn stats(
        &self,
        request: NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse> {
        use volume_usage::Unit;
        given("volume id", &request.volume_id)?;
        given("volume path", &request.volume_path)?;
        let at: PathBuf = Path::new(&request.volume_path).components().collect();
        if Table::read()?.at(&at).is_none() {
            let text = format!("nothing is mounted at {}", at.display());
            return Err(Fault::new(Code::NotFound, text));
        }
        let condition = |abnormal, message: &str| {
            Some(VolumeCondition { abnormal, message: message.to_owned() })
        };
        let stat = match rustix::fs::statvfs(&at) {
            Ok(stat) => stat,
            Err(Errno::NOTCONN | Errno::CONNABORTED) => {
                let volume_condition =
                    condition(true, "its daemon is gone: end the pods that use it");
                return Ok(NodeGetVolumeStatsResponse { usage: Vec::new(), volume_condition });
            }
            Err(e) => {
                return Err(Fault::internal(format!("ask for the room at {}: {e}", at.display())));
            }
        };
        let usage = |unit: Unit, total: u64, free: u64, available: u64, of_each: u64| VolumeUsage {
            unit: unit.into(),
            total: amount(total, of_each),
            used: amount(total.saturating_sub(free), of_each),
            available: amount(available, of_each),
        };
        Ok(NodeGetVolumeStatsResponse {
            usage: vec![
                usage(Unit::Bytes, stat.f_blocks, stat.f_bfree, stat.f_bavail, stat.f_frsize),
                usage(Unit::Inodes, stat.f_files, stat.f_ffree, stat.f_favail, 1),
            ],
            volume_condition: condition(false, "it is served"),
        })
    }
}

/// As the interface has numbers.
fn amount(count: u64, of_each: u64) -> i64 {
    i64::try_from(count.saturating_mul(of_each)).unwrap_or(i64::MAX)
}

/// Shows a directory of a mount elsewhere.
fn show(root: &Path, directory: &str, at: &Path, flags: MountFlags) -> Result<()> {
    let open = open_below(root, directory).map_err(|e| match e {
        Errno::NOENT => {
            Fault::new(Code::NotFound, format!("the volume has no directory {directory}"))
        }
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => {
            Fault::invalid(format!("{directory} is no directory, or behind a symbolic link"))
        }
        e => Fault::internal(format!("open {directory} in {}: {e}", root.display())),
    })?;
    bind(&open, at, flags)
}

fn flags(access: Access, read_only: bool) -> MountFlags {
    let more = if read_only || access.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    access.flags | more
}

/// Whether a directory is shown to another pod.
fn published_elsewhere(table: &Table, mount: &Mount, here: &[Option<&PathBuf>]) -> bool {
    let mut others = table.of_device(&mount.device).filter(|other| other.root == mount.root);
    others.any(|other| !here.contains(&Some(&other.at)))
}

fn given(what: &str, text: &str) -> Result<()> {
    if text.is_empty() { Err(Fault::invalid(format!("no {what} is given"))) } else { Ok(()) }
}

fn path(what: &str, text: &str) -> Result<PathBuf> {
    given(what, text)?;
    let path = PathBuf::from(text);
    if path.is_relative() || path.components().any(|part| part.as_os_str() == "..") {
        return Err(Fault::invalid(format!("the {what} {text} is not absolute")));
    }
    // Without what the kernel's table does not have: slashes twice, and at the end.
    Ok(path.components().collect())
}

/// Who this node is.
pub(crate) fn info(driver: &Driver) -> NodeGetInfoResponse {
    NodeGetInfoResponse { node_id: driver.node_id.clone(), ..Default::default() }
}
