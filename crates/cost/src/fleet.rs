//! A run on one or more machines: what bills and advice ask of a model.

use schemars::JsonSchema;
use serde::Serialize;

use crate::simulate::{FreeParameters, Prediction, predict};
use crate::{Machine, Storage, Workload};

/// How long one run takes somewhere, and what it moves.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunTime {
    /// Seconds of a run when runs go on.
    pub seconds: f64,
    /// Seconds of the first one, which may have to load data.
    pub first_seconds: f64,
    /// What makes it take so long, in words.
    pub bound_by: String,
    /// Bytes that all machines read from the storage: what their memory saves is not here.
    pub read_bytes: f64,
    /// Bytes that all machines write.
    pub write_bytes: f64,
}

/// A model of storages and machines: how long a run takes when each of so many machines does the
/// workload.
pub type Model<'a> = dyn Fn(&Storage, &Workload, &Machine, u64) -> RunTime + 'a;

/// What the simulator says of a run in which each of `machines` does `workload`: as long as one of
/// them needs by itself, or all of them for what they share, whichever is longer.
pub fn predicted(
    storage: &Storage,
    workload: &Workload,
    machine: &Machine,
    machines: u64,
) -> RunTime {
    let free = FreeParameters::default();
    let one = predict(storage, workload, machine, &free);
    let longest = match machines > 1 && is_shared(storage) {
        true => longer(&one, &all(storage, workload, machine, machines, &one)),
        false => one,
    };
    RunTime {
        seconds: longest.seconds,
        first_seconds: longest.first_run_seconds,
        bound_by: longest.bound_by.to_string(),
        read_bytes: one.read_bytes * machines as f64,
        write_bytes: one.write_bytes * machines as f64,
    }
}

/// Whether machines that use it together slow one another. S3 has more than they can ask for, and
/// disks are each machine's own.
fn is_shared(storage: &Storage) -> bool {
    matches!(storage, Storage::Efs { .. } | Storage::FsxLustre { .. })
}

/// All machines as one that is as many times as large, and that reads and writes what they do.
fn all(
    storage: &Storage,
    workload: &Workload,
    machine: &Machine,
    machines: u64,
    one: &Prediction,
) -> Prediction {
    let jobs = workload.concurrency.max(1);
    let times = machines as f64;
    let workload = Workload {
        read_bytes_per_run: one.read_bytes as u64,
        write_bytes_per_run: one.write_bytes as u64,
        files_per_run: workload.files_per_run * jobs,
        concurrency: machines,
        threads: workload.threads * jobs,
        cpu_seconds: workload.cpu_seconds * jobs as f64,
        ..workload.clone()
    };
    let (lasting, peak) = machine.network_gbps;
    let machine = Machine {
        vcpu: machine.vcpu * machines,
        // What memory saves is taken off what each reads already.
        memory_gib: 0.0,
        network_gbps: (lasting * times, peak * times),
        ..machine.clone()
    };
    let free = FreeParameters::default();
    // The limit of EFS for a client holds for each of them.
    let free = FreeParameters { efs_client_share: free.efs_client_share * times, ..free };
    predict(storage, &workload, &machine, &free)
}

fn longer(one: &Prediction, all: &Prediction) -> Prediction {
    let run = if all.seconds > one.seconds { all } else { one };
    Prediction { first_run_seconds: one.first_run_seconds.max(all.first_run_seconds), ..*run }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    fn workload() -> Workload {
        Workload {
            name: String::new(),
            data_set_bytes: 254_000_000_000,
            cold_bytes: 0,
            archive_bytes: 0,
            files: 78,
            read_bytes_per_run: 254_000_000_000,
            write_bytes_per_run: 0,
            io_bytes: 1 << 20,
            random: false,
            files_per_run: 0,
            runs_per_day: 1.0,
            concurrency: 1,
            threads: 64,
            cpu_seconds: 0.0,
            region: "us-east-1".to_owned(),
        }
    }

    fn seconds(storage: &str, machines: u64) -> f64 {
        let storage = storage.parse().expect(storage);
        let machine = machine("r6id.12xlarge").expect("known");
        predicted(&storage, &workload(), &machine, machines).seconds
    }

    #[test]
    fn machines_share_a_file_system_and_nothing_else() {
        for (storage, shared) in [
            // 1,200 GiB of Scratch 2 give one machine what they give four.
            ("fsx:SCRATCH_2:1200", true),
            ("efs-provisioned:100", true),
            // Elastic throughput and S3 grow with the clients, and disks come with the machines.
            ("efs-elastic", false),
            ("instance-store", false),
            ("gp3:300:3000:125", false),
            ("s3-files", false),
            ("weir", false),
        ] {
            let (one, four) = (seconds(storage, 1), seconds(storage, 4));
            match shared {
                true => assert!(four > 2.0 * one, "{storage}: {one} s, and {four} s for four"),
                false => assert_eq!(one, four, "{storage}"),
            }
        }
    }

    #[test]
    fn each_machine_reads_for_itself_and_jobs_on_it_read_once() {
        let machine = machine("r6id.12xlarge").expect("known");
        let elastic = "efs-elastic".parse().expect("a storage");
        let jobs = Workload { concurrency: 3, ..workload() };
        // 254 GB fit in 384 GiB of memory, so three jobs on a machine read them once.
        let time = predicted(&elastic, &jobs, &machine, 2);
        assert_eq!(time.read_bytes, 2.0 * 254e9);
    }
}
