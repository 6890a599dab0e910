//! Each published experiment as a workload on a machine over a storage.

use weir_throughput::efs::{Date, Limiter, Mode, Rules};
use weir_throughput::fsx::Deployment;
use weir_throughput::s3;

use super::data::Experiment;
use super::parameters::Fits;
use crate::simulate::{FreeParameters, predict};
use crate::{Machine, Storage, Workload};

/// When the measurements of EFS that name their year were made: its rules had no floor of 1 MiB/s,
/// and metered all that was read.
pub(super) const DATE_2018: Date = Date { year: 2018, month: 9, day: 1 };

/// Within the life of `PERSISTENT_1` (since 2020-02) and before reads were metered at a third: the
/// copies read at 100 MiB/s together, which is all that 1 TiB permits of reads metered in full.
const DATE_OF_COPIES: Date = Date { year: 2020, month: 12, day: 1 };

const MIB: f64 = (1_u64 << 20) as f64;
const GIB: f64 = (1_u64 << 30) as f64;
const TIB: f64 = (1_u64 << 40) as f64;

/// An experiment in the terms of the models.
pub(super) enum Case {
    /// A run of a workload.
    Run(Box<Run>),
    /// Credits that are used up: the hours until then.
    Drain {
        /// Credits at the start.
        credit_bytes: f64,
    },
    /// Objects over as many connections as there are: MB/s.
    Objects {
        /// Connections.
        connections: f64,
        /// The size of an object.
        object_bytes: f64,
        /// What the network can carry.
        network_bytes_per_s: f64,
    },
}

/// A run, and how its result was published.
pub(super) struct Run {
    storage: Storage,
    workload: Workload,
    machine: Machine,
    free: FreeParameters,
    answer: Answer,
}

/// What of a prediction was measured.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// Seconds of a run.
    Run,
    /// Seconds of the run that loads the data set.
    FirstRun,
    /// KiB a second of one job.
    Rate,
}

impl Case {
    /// `None` for an experiment of a kind that is not known.
    pub(super) fn of(experiment: &Experiment, fits: &Fits) -> Option<Self> {
        let kind = experiment.id.split('-').next()?;
        let run = match kind {
            "blast" | "hydrate" => blast(experiment, fits)?,
            "efs" if experiment.initial_credit_tib.is_some() => {
                let credit_bytes = experiment.initial_credit_tib? * TIB;
                return Some(Self::Drain { credit_bytes });
            }
            "efs" => fio(experiment, fits)?,
            "cp" if experiment.id.contains("cellranger") => cellranger(experiment, fits)?,
            "cp" => copies(experiment, fits)?,
            "dummy" => local_files(experiment, fits)?,
            "weir" => weir(experiment, fits)?,
            "objbacker" => {
                return Some(Self::Objects {
                    connections: fits.s3_connections,
                    object_bytes: experiment.storage.object_bytes?,
                    // c5n.9xlarge: 50 Gbps.
                    network_bytes_per_s: 50e9 / 8.0,
                });
            }
            _ => return None,
        };
        Some(Self::Run(Box::new(run)))
    }

    /// What the models say, in the unit of the measurement.
    pub(super) fn predict(&self) -> f64 {
        match self {
            Self::Run(run) => run.predict(),
            Self::Drain { credit_bytes } => {
                let limiter = Limiter::new(Rules::on(DATE_2018), Mode::Bursting, 0, 0);
                let mut limiter = limiter.with_credits(*credit_bytes);
                limiter.transfer(*credit_bytes, f64::INFINITY, 0) as f64 / 3600e9
            }
            Self::Objects { connections, object_bytes, network_bytes_per_s } => {
                s3::bytes_per_s(*connections, *object_bytes).min(*network_bytes_per_s) / 1e6
            }
        }
    }
}

impl Run {
    fn predict(&self) -> f64 {
        let prediction = predict(&self.storage, &self.workload, &self.machine, &self.free);
        match self.answer {
            Answer::Run => prediction.seconds,
            Answer::FirstRun => prediction.first_run_seconds,
            Answer::Rate => {
                let bytes = prediction.read_bytes / self.workload.concurrency as f64;
                bytes / prediction.seconds / 1024.0
            }
        }
    }
}

/// `blastn` over its data base, which is mapped into memory: every page is a fault, read once, and
/// computing goes on when it is there. The loads before it, which are streams.
fn blast(experiment: &Experiment, fits: &Fits) -> Option<Run> {
    let bytes = experiment.dataset_bytes?;
    let queries = experiment.query_seqs.unwrap_or(0.0);
    let jobs = experiment.concurrent_jobs.unwrap_or(1);
    let storage = storage(experiment)?;
    let lazy =
        matches!(storage, Storage::FsxLustre { .. }) && jobs == 1 && !experiment.loaded_before();
    // Jobs ask for 64 of the 96 CPUs, so each has a machine.
    let machines = jobs;
    let machine = Machine {
        instance: "r6i.24xlarge".to_owned(),
        vcpu: 96 * machines,
        memory_gib: if machines == 1 { 768.0 } else { 0.0 },
        network_gbps: (37.5 * machines as f64, 37.5 * machines as f64),
        nvme_bytes: 0,
        ebs_mb_per_s: 3750.0,
    };
    let workload = Workload {
        random: queries > 0.0,
        concurrency: jobs,
        threads: experiment.threads.unwrap_or(64),
        cpu_seconds: fits.blast_cpu_s_per_query * queries,
        ..reads(bytes, bytes)
    };
    let answer = if lazy { Answer::FirstRun } else { Answer::Run };
    Some(Run { storage, workload, machine, free: fits.free.clone(), answer })
}

/// fio with random reads of 16 KiB past the page cache, of 1 GiB by each of 16 threads. Where
/// credits had been drained, the clients that drained them were still there and had their shares.
fn fio(experiment: &Experiment, fits: &Fits) -> Option<Run> {
    let drained = experiment.storage.state.as_deref() == Some("credits=0");
    let bytes = 16.0 * GIB;
    let workload = Workload {
        io_bytes: 16 << 10,
        random: true,
        concurrency: if drained { 1 + fits.drain_clients } else { 1 },
        threads: experiment.threads?,
        ..reads(bytes, bytes)
    };
    // What the client was is not stated: nothing of it limits.
    let machine = Machine {
        instance: String::new(),
        vcpu: 16,
        memory_gib: 0.0,
        network_gbps: (100.0, 100.0),
        nvme_bytes: 0,
        ebs_mb_per_s: 0.0,
    };
    let free = FreeParameters {
        efs_rules: Rules::on(DATE_2018),
        efs_credit_bytes: Some(if drained { 0.0 } else { 2.1 * TIB }),
        ..fits.free.clone()
    };
    let answer = Answer::Rate;
    Some(Run { storage: storage(experiment)?, workload, machine, free, answer })
}

/// One to eight copies, each of a large file or of 100,000 small ones, made or read by `dd`.
fn copies(experiment: &Experiment, fits: &Fits) -> Option<Run> {
    let bytes = experiment.bytes_per_thread?;
    let (creates, small) = (experiment.id.contains("create"), experiment.id.contains("small"));
    let workload = Workload {
        read_bytes_per_run: if creates { 0 } else { bytes as u64 },
        write_bytes_per_run: if creates { bytes as u64 } else { 0 },
        files_per_run: if small { 100_000 } else { 0 },
        concurrency: experiment.threads?,
        // `dd` reads 512 bytes at a time. For small files this is part of what a file takes.
        cpu_seconds: if creates || small { 0.0 } else { bytes * fits.read_cpu_s_per_byte },
        ..reads(TIB, bytes)
    };
    // /dev/urandom is one generator behind one lock: drivers/char/random.c before Linux 5.18.
    let source_bytes_per_s = if creates { fits.free.source_bytes_per_s } else { f64::INFINITY };
    let free = FreeParameters {
        efs_rules: Rules::on(DATE_OF_COPIES),
        source_bytes_per_s,
        ..fits.free.clone()
    };
    let (storage, machine) = (storage(experiment)?, c5_2xlarge());
    Some(Run { storage, workload, machine, free, answer: Answer::Run })
}

/// `cellranger count`, which computes for most of its time.
fn cellranger(experiment: &Experiment, fits: &Fits) -> Option<Run> {
    let workload = Workload {
        random: true,
        threads: experiment.threads?,
        cpu_seconds: fits.cellranger_cpu_s,
        ..reads(TIB, experiment.dataset_bytes?)
    };
    let free = FreeParameters {
        efs_rules: Rules::on(DATE_OF_COPIES),
        source_bytes_per_s: f64::INFINITY,
        ..fits.free.clone()
    };
    let (storage, machine) = (storage(experiment)?, c5_2xlarge());
    Some(Run { storage, workload, machine, free, answer: Answer::Run })
}

/// A process for each of 100,000 files of 1 MiB on a local disk, with no fsync.
fn local_files(experiment: &Experiment, fits: &Fits) -> Option<Run> {
    let workload = Workload {
        read_bytes_per_run: 0,
        write_bytes_per_run: experiment.bytes? as u64,
        files_per_run: experiment.files?,
        ..reads(experiment.bytes?, 0.0)
    };
    let machine = Machine {
        instance: "i3.8xlarge".to_owned(),
        vcpu: 32,
        memory_gib: 244.0,
        network_gbps: (10.0, 10.0),
        // One of its four disks was used.
        nvme_bytes: 1_900_000_000_000,
        ebs_mb_per_s: 875.0,
    };
    let free = FreeParameters { source_bytes_per_s: f64::INFINITY, ..fits.free.clone() };
    Some(Run { storage: storage(experiment)?, workload, machine, free, answer: Answer::Run })
}

/// Cold reads of Weir by `dd` and `cat`, on a machine whose network is stated.
fn weir(experiment: &Experiment, fits: &Fits) -> Option<Run> {
    let (bytes, jobs) = (experiment.bytes_per_thread?, experiment.threads?);
    // All read the same, or each what is its own.
    let data_sets = if experiment.id.contains("same") { 1 } else { jobs };
    let files = experiment.files?;
    let workload = Workload {
        files,
        files_per_run: files,
        concurrency: jobs,
        ..reads(bytes * data_sets as f64, bytes)
    };
    let nic_gbps = experiment.instance.nic_gbps?;
    let machine = Machine {
        instance: "i4i.8xlarge".to_owned(),
        vcpu: 2,
        memory_gib: 24.0,
        network_gbps: (nic_gbps, nic_gbps),
        nvme_bytes: 7_500_000_000_000,
        ebs_mb_per_s: 0.0,
    };
    let free = FreeParameters { source_bytes_per_s: f64::INFINITY, ..fits.free.clone() };
    Some(Run { storage: storage(experiment)?, workload, machine, free, answer: Answer::FirstRun })
}

fn c5_2xlarge() -> Machine {
    Machine {
        instance: "c5.2xlarge".to_owned(),
        vcpu: 8,
        memory_gib: 16.0,
        network_gbps: (2.5, 10.0),
        nvme_bytes: 0,
        ebs_mb_per_s: 287.5,
    }
}

/// One job with one thread that reads in order.
fn reads(data_set_bytes: f64, bytes: f64) -> Workload {
    Workload {
        name: String::new(),
        data_set_bytes: data_set_bytes as u64,
        cold_bytes: 0,
        archive_bytes: 0,
        files: 1,
        read_bytes_per_run: bytes as u64,
        write_bytes_per_run: 0,
        io_bytes: MIB as u64,
        random: false,
        files_per_run: 0,
        runs_per_day: 1.0,
        concurrency: 1,
        threads: 1,
        cpu_seconds: 0.0,
        region: String::new(),
    }
}

fn storage(experiment: &Experiment) -> Option<Storage> {
    let stored_on = &experiment.storage;
    Some(match stored_on.service.as_str() {
        "efs" => Storage::Efs {
            mode: match stored_on.throughput_mode.as_str() {
                "bursting" => Mode::Bursting,
                "provisioned" => Mode::Provisioned { mib_per_s: stored_on.provisioned_mib_per_s? },
                "elastic" => Mode::Elastic,
                _ => return None,
            },
        },
        "fsx_lustre" => {
            let unit = stored_on.per_unit_mb_per_s_per_tib;
            let unit = unit.map(|unit| format!("-{unit}")).unwrap_or_default();
            let deployment: Deployment = format!("{}{unit}", stored_on.deployment).parse().ok()?;
            Storage::FsxLustre { deployment, capacity_gib: stored_on.capacity_gib?, lazy: true }
        }
        "ebs" => Storage::Gp3 {
            size_gib: stored_on.size_gb?,
            iops: stored_on.iops?,
            mib_per_s: stored_on.throughput_mib_per_s?,
        },
        "instance_store" => Storage::InstanceStore,
        "weir" => Storage::Weir { warm: false },
        _ => return None,
    })
}
