//! Who writes a volume: this process, and whether another that says so still runs.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process on a machine, named so that others can tell whether it still runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The machine's name, for people.
    pub name: String,
    /// Names the machine for good.
    pub machine_id: String,
    /// Names this boot of it.
    pub boot_id: String,
    /// Names the container, if there is one: process ids of another mean nothing here.
    pub pid_namespace: String,
    /// The process.
    pub pid: u32,
    /// When it was started, in clock ticks since the boot: process ids come again.
    pub started_ticks: u64,
}

impl Host {
    /// This process.
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let pid = std::process::id();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            name: read("/proc/sys/kernel/hostname"),
            machine_id: read("/etc/machine-id"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            pid_namespace: namespace.to_string_lossy().into_owned(),
            pid,
            started_ticks: started_ticks(pid).unwrap_or_default(),
        }
    }

    /// Whether `other` is known to run no more, as seen from here. A process on another machine
    /// never is.
    pub(crate) fn knows_dead(&self, other: &Host) -> bool {
        let same_machine = !self.machine_id.is_empty() && self.machine_id == other.machine_id;
        if self.boot_id != other.boot_id {
            return same_machine;
        }
        self.pid_namespace == other.pid_namespace
            && (other.pid == self.pid || started_ticks(other.pid) != Some(other.started_ticks))
    }
}

/// When a process was started; `None` if none of this number runs.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; behind it come the state and, as the 20th field,
    // the start.
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    // A zombie has ended: it only waits for its parent to ask how.
    rest.next().filter(|state| !matches!(*state, "Z" | "X"))?;
    rest.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_told_from_the_dead() {
        let this = Host::this();
        assert!(this.started_ticks > 0);
        let parent = std::os::unix::process::parent_id();
        let alive = Host {
            pid: parent,
            started_ticks: started_ticks(parent).expect("runs"),
            ..this.clone()
        };
        assert!(!this.knows_dead(&alive));
        assert!(
            this.knows_dead(&Host { started_ticks: 1, ..alive.clone() }),
            "the number came again"
        );
        let rebooted = Host { boot_id: "another".into(), machine_id: "m".into(), ..alive.clone() };
        assert!(!this.knows_dead(&rebooted), "another machine");
        let here = Host { machine_id: "m".into(), ..this };
        assert!(here.knows_dead(&rebooted), "this machine, before it was booted anew");
    }
}
