//! The published measurements as they were measured, for those who measure the same again.

use schemars::JsonSchema;
use serde::Serialize;

use super::data::{Experiment, File, StoredOn};

/// A measurement that somebody published, on a machine and a storage that are not ours.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Published {
    /// Its name in the file.
    pub id: String,
    /// What was run.
    pub workload: String,
    /// The storage, as far as it was said.
    pub storage: String,
    /// The machine, where it was said.
    pub machine: Option<String>,
    /// Copies, jobs or threads at once, where it was said.
    pub copies: Option<u64>,
    /// How long it took.
    pub seconds: Option<f64>,
    /// Bytes a second, as published, or bytes by time.
    pub bytes_per_s: Option<f64>,
    /// Files, I/Os or queries a second, where they were counted.
    pub operations_per_s: Option<f64>,
    /// The source.
    pub source: String,
    /// What the source is about.
    pub about: String,
    /// When it was measured or published, where that was said.
    pub date: Option<String>,
    /// What speaks against the figure.
    pub doubts: Vec<String>,
}

/// All that was measured: neither the rules that were only stated, nor what has no result.
pub fn published() -> Vec<Published> {
    let file = File::embedded();
    let measured = file.experiments.iter().filter(|of| of.measured().0.is_some());
    let with_result = measured.filter(|of| of.no_result().is_none());
    with_result.map(|of| Published::of(&file, of)).collect()
}

impl Published {
    fn of(file: &File, of: &Experiment) -> Self {
        let seconds = of.measured_seconds.or(of.measured_hours.map(|hours| hours * 3600.0));
        let per_s = |amount: Option<f64>| Some(amount? / seconds?);
        let bytes = of.bytes.or_else(|| Some(of.bytes_per_thread? * of.threads? as f64));
        let rate = of.measured_kib_per_s.map(|kib| kib * 1024.0);
        let rate = rate.or(of.measured_mb_per_s.map(|mb| mb * 1e6));
        let whole = of.id.starts_with("hydrate") || of.id.ends_with("db-load");
        let loaded = of.dataset_bytes.filter(|_| whole);
        // A search has threads, too, but what it is compared by is its jobs.
        let copies = if of.query_seqs.is_some() { None } else { of.threads.or(of.clients) };
        // What one entry of a source says of its time holds for the others, too.
        let same_source = file.experiments.iter().filter(|other| other.source == of.source);
        let date = of.date.clone().or_else(|| same_source.filter_map(|of| of.date.clone()).next());
        Self {
            id: of.id.clone(),
            workload: of.workload.clone(),
            storage: of.storage.described(&of.note),
            machine: Some(of.instance.name.clone()).filter(|name| !name.is_empty()),
            copies: of.concurrent_jobs.or(copies),
            seconds,
            bytes_per_s: rate.or(per_s(bytes)).or(per_s(loaded)),
            operations_per_s: of.iops.or(per_s(of.files.map(|files| files as f64))),
            source: of.source.clone(),
            about: file.sources.get(&of.source).cloned().unwrap_or_default(),
            date,
            doubts: file.doubts(of),
        }
    }
}

impl StoredOn {
    /// `EFS bursting 1024 GiB, credits=0`; what an entry notes comes last.
    fn described(&self, note: &str) -> String {
        let service = match self.service.as_str() {
            "efs" => "EFS",
            "fsx_lustre" => "FSx for Lustre",
            "ebs" => "EBS gp3",
            "instance_store" => "instance store",
            "zfs_on_s3" => "ZFS on S3",
            "" => "not stated",
            other => other,
        };
        let number = |value: Option<f64>, unit: &str| {
            value.map(|value| format!("{value} {unit}")).unwrap_or_default()
        };
        let words = [
            service.to_owned(),
            self.throughput_mode.clone(),
            self.deployment.clone(),
            number(self.provisioned_mib_per_s, "MiB/s"),
            number(self.size_gib.or(self.capacity_gib.map(|gib| gib as f64)), "GiB"),
            number(self.size_gb.map(|gb| gb as f64), "GB"),
            number(self.per_unit_mb_per_s_per_tib, "MB/s/TiB"),
        ];
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let more = [self.data_repository.as_deref(), self.state.as_deref(), Some(note)];
        let more = more.into_iter().flatten().filter(|text| !text.is_empty());
        [words.join(" ")].into_iter().chain(more.map(str::to_owned)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(id: &str) -> Published {
        published().into_iter().find(|of| of.id == id).expect(id)
    }

    #[test]
    fn a_copy_of_large_files() {
        let of = figure("cp-efs-create_large-4t");
        // Four times 100 GiB in 4,165.583 s.
        let rate = of.bytes_per_s.expect("known");
        assert!((rate - 4.0 * 107_374_182_400.0 / 4165.583).abs() < 1.0, "{rate}");
        assert_eq!(of.storage, "EFS bursting 1024 GiB");
        assert_eq!(of.machine.as_deref(), Some("c5.2xlarge"));
        assert_eq!((of.copies, of.date, of.doubts), (Some(4), None, Vec::new()));
        assert!(of.about.contains("dd 100 GB"), "{}", of.about);
    }

    #[test]
    fn what_speaks_against_a_figure_comes_with_it() {
        let of = figure("dummy-100k-ebs");
        assert!(of.doubts[0].contains("not durable-write time"), "{:?}", of.doubts);
        assert_eq!(of.operations_per_s, Some(100_000.0 / 488.563));
        assert_eq!(of.date.as_deref(), Some("2023-12-01"));
        assert_eq!(figure("dummy-100k-instance-store").doubts, Vec::<String>::new());
        assert!(figure("efs-credit-drain").doubts[0].starts_with("INCONSISTENT"));
        let four_jobs = figure("blast-fsx-v13-5000");
        assert_eq!((four_jobs.doubts.len(), four_jobs.copies), (1, Some(4)));
    }

    #[test]
    fn rates_are_as_published() {
        let of = figure("efs-exhausted-fio");
        assert_eq!(of.bytes_per_s, Some(263.0 * 1024.0));
        assert_eq!(of.operations_per_s, Some(16.0));
        assert_eq!(of.storage, "EFS bursting, credits=0");
        assert!(of.date.expect("of its source").starts_with("2018"));
        assert_eq!(figure("objbacker-read").bytes_per_s, Some(3.7e9));
        assert_eq!(figure("hydrate-dd").bytes_per_s, Some(254e9 / 1075.0));
        assert_eq!(figure("blast-efs-500").bytes_per_s, None, "nobody says what it read");
    }

    #[test]
    fn what_was_not_measured_is_not_among_them() {
        for of in published() {
            let number = of.seconds.or(of.bytes_per_s);
            assert!(number.is_some_and(|number| number > 0.0), "{}", of.id);
            assert!(!of.id.contains("rule") && !of.id.starts_with("planned"), "{}", of.id);
        }
    }
}
