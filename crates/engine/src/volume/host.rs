//! Who writes a volume: this process, and whether another that says so still runs.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process on a machine, named so that others can tell whether it still runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The machine's name, for people.
    pub name: String,
    /// Names the installed system for good; a copy of its disk has the same.
    pub machine_id: String,
    /// Names the machine below it for good; empty where there is no such name or only root may read
    /// it, and in records of older builds.
    #[serde(default)]
    pub hardware_id: String,
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
            hardware_id: a_name(read("/sys/class/dmi/id/product_uuid")),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            pid_namespace: namespace.to_string_lossy().into_owned(),
            pid,
            started_ticks: started_ticks(pid).unwrap_or_default(),
        }
    }

    /// The process as people call it.
    pub(crate) fn shown(&self) -> String {
        format!("process {} on {}", self.pid, self.name)
    }

    /// Whether `other` may have been on this machine before it was booted: the names of the systems
    /// are the same, and those of the hardware are not known to differ.
    pub(crate) fn may_have_booted_since(&self, other: &Host) -> bool {
        let hardware = [&self.hardware_id, &other.hardware_id];
        let differs = hardware[0] != hardware[1] && hardware.iter().all(|id| !id.is_empty());
        let same = !self.machine_id.is_empty() && self.machine_id == other.machine_id;
        same && !differs && self.boot_id != other.boot_id
    }

    /// Whether `other` is known to run no more, as seen from here. A process on another machine
    /// never is, and a copy of this one (its disk, or its memory as well) is another machine.
    pub(crate) fn knows_dead(&self, other: &Host) -> bool {
        let same = |one: &str, two: &str| !one.is_empty() && one == two;
        let hardware = same(&self.hardware_id, &other.hardware_id);
        if self.boot_id != other.boot_id {
            return hardware && same(&self.machine_id, &other.machine_id);
        }
        if !hardware && !self.hardware_id.is_empty() && !other.hardware_id.is_empty() {
            return false;
        }
        self.pid_namespace == other.pid_namespace
            && (other.pid == self.pid || started_ticks(other.pid) != Some(other.started_ticks))
    }
}

/// Firmware that knows no name says one that all such machines have.
fn a_name(id: String) -> String {
    let told = id.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase();
    match told.len() == 32 && told.chars().any(|digit| !told.starts_with(digit)) {
        true => id.to_lowercase(),
        false => String::new(),
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
    }

    #[test]
    fn a_boot_before_is_known_by_the_names_of_system_and_hardware() {
        let host = |boot: &str, machine: &str, hardware: &str| Host {
            boot_id: boot.to_owned(),
            machine_id: machine.to_owned(),
            hardware_id: hardware.to_owned(),
            started_ticks: 1,
            ..Host::this()
        };
        let this = host("now", "m", "h");
        for (other, dead, what) in [
            (host("before", "m", "h"), true, "this machine, before it was booted anew"),
            (host("before", "m", "g"), false, "a copy of its disk in another machine"),
            (host("before", "n", "h"), false, "another system on the same hardware"),
            (host("before", "n", "g"), false, "another machine"),
            (host("before", "m", ""), false, "one that could not name its hardware"),
            (host("before", "", "h"), false, "one that has no machine id"),
            (host("now", "m", "h"), true, "this boot, a process that is gone"),
            (host("now", "m", ""), true, "this boot, as a user or an older build says it"),
            (host("now", "m", "g"), false, "a copy of its memory in another machine"),
        ] {
            assert_eq!(this.knows_dead(&other), dead, "{what}");
            // Dead or not is the same question from there.
            assert_eq!(other.knows_dead(&this), dead, "{what}, the other way round");
        }
        for (one, two) in [("", "h"), ("m", ""), ("", "")] {
            let (now, before) = (host("now", one, two), host("before", one, two));
            assert!(!now.knows_dead(&before), "nameless: `{one}` `{two}`");
        }
    }

    #[test]
    fn hardware_without_a_name_has_none() {
        let name = "EC2A1B2C-0000-1111-2222-333344445555";
        assert_eq!(a_name(name.to_owned()), name.to_lowercase());
        let none = ["", "Not Settable", "00000000-0000-0000-0000-000000000000"];
        for none in none.into_iter().chain(["FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"]) {
            assert_eq!(a_name(none.to_owned()), "", "{none}");
        }
    }

    #[test]
    fn a_record_of_an_older_build_is_read() {
        let mut old = serde_json::to_value(Host::this()).expect("encodes");
        old.as_object_mut().expect("an object").remove("hardware_id");
        let host: Host = serde_json::from_value(old).expect("reads");
        assert_eq!(host.hardware_id, "");
    }
}
