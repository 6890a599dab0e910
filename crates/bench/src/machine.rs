//! The machine that the benchmarks run on.

use std::fs;

use crate::report::MachineFacts;

/// What is known of this machine; what is not, stays empty.
pub fn facts() -> MachineFacts {
    let names = rustix::system::uname();
    let memory_kib = field(&read("/proc/meminfo"), "MemTotal").and_then(|text| kib(&text));
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    MachineFacts {
        host: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory_bytes: memory_kib.unwrap_or(0) * 1024,
    }
}

/// Bytes of the page cache that are yet to be written, on all file systems.
pub fn dirty_bytes() -> u64 {
    dirty_in(&read("/proc/meminfo"))
}

fn dirty_in(meminfo: &str) -> u64 {
    let of = |name| field(meminfo, name).and_then(|text| kib(&text)).unwrap_or(0);
    (of("Dirty") + of("Writeback")) * 1024
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name: value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        let facts = facts();
        assert!(facts.cpus > 0 && facts.memory_bytes > 1 << 20, "{facts:?}");
        assert!(!facts.kernel.is_empty() && !facts.host.is_empty(), "{facts:?}");
    }

    #[test]
    fn dirty_bytes_are_those_waiting_and_those_on_their_way() {
        let meminfo = "MemTotal:       100 kB\nDirty:     12 kB\nWriteback:   4 kB\n\
                       WritebackTmp:  99 kB\n";
        assert_eq!(dirty_in(meminfo), 16 * 1024);
        assert_eq!(dirty_in(""), 0);
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0: x\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("Some CPU @ 2.0: x"));
    }
}
