//! Which published figures stand beside which phase.

use std::sync::LazyLock;

use weir_cost::backtest::{self, Published};

static ALL: LazyLock<Vec<Published>> = LazyLock::new(backtest::published);

/// The published figures of a phase, all of them from other machines. Copies are those of the
/// experiment where it says how many; else a figure stands beside every number of them.
pub fn published(suite: &str, phase: &str, copies: u32) -> Vec<&'static Published> {
    let ids = ids(suite, phase, copies);
    ALL.iter().filter(|of| ids.contains(&of.id)).collect()
}

/// Names of experiments. A phase is known by how its name begins: `read-512-cold` is a `read`.
fn ids(suite: &str, phase: &str, copies: u32) -> Vec<String> {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let kind = phase.split(['-', '_']).next().unwrap_or_default();
    match (suite, kind) {
        ("dd-large" | "small-files", "create" | "read") => {
            let size = if suite == "dd-large" { "large" } else { "small" };
            ["efs", "lustre"].map(|at| format!("cp-{at}-{kind}_{size}-{copies}t")).to_vec()
        }
        ("dummy-files", "create") if copies == 1 => {
            named(&["dummy-100k-ebs", "dummy-100k-instance-store"])
        }
        ("fio-seq", "read" | "write") => vec![format!("objbacker-{kind}")],
        ("fio-rand", _) if phase.contains("16k") && !phase.contains("write") => {
            named(&["efs-burst-fio", "efs-exhausted-fio", "efs-provisioned-fio"])
        }
        ("credit-drain", "provisioned") => named(&["efs-provisioned-fio"]),
        ("credit-drain", _) => named(&["efs-credit-drain"]),
        ("blast", "search") => searches(phase, copies),
        ("hydrate", "dd" | "hydrate") => named(&["hydrate-dd"]),
        // The pipeline stands for `cellranger count`, of which aligning is the most.
        ("aligner", "align") => named(&["cp-cellranger-efs", "cp-cellranger-lustre"]),
        _ => Vec::new(),
    }
}

/// Searches with as many query sequences: Lustre loaded lazily for one job and hydrated for four;
/// for EFS nobody says how many jobs there were.
fn searches(phase: &str, copies: u32) -> Vec<String> {
    let Some(queries) = phase.split('-').find(|part| part.parse::<u64>().is_ok()) else {
        return Vec::new();
    };
    let lustre = match copies {
        1 => Some("fsx-v11"),
        4 => Some("fsx-v13"),
        _ => None,
    };
    ["efs"].into_iter().chain(lustre).map(|at| format!("blast-{at}-{queries}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(suite: &str, phase: &str, copies: u32) -> Vec<&'static str> {
        published(suite, phase, copies).iter().map(|of| of.id.as_str()).collect()
    }

    #[test]
    fn phases_have_the_figures_of_the_same_work() {
        for (suite, phase, copies, wanted) in [
            ("dd-large", "create", 4, &["cp-efs-create_large-4t", "cp-lustre-create_large-4t"][..]),
            ("dd-large", "read-512", 1, &["cp-efs-read_large-1t", "cp-lustre-read_large-1t"]),
            ("small-files", "read-warm", 8, &["cp-efs-read_small-8t", "cp-lustre-read_small-8t"]),
            ("small-files", "create", 3, &[]),
            ("dummy-files", "create", 4, &[]),
            ("dummy-files", "create", 1, &["dummy-100k-ebs", "dummy-100k-instance-store"]),
            ("fio-rand", "randread-4k", 16, &[]),
            ("credit-drain", "drain", 4, &["efs-credit-drain"]),
            ("blast", "search-cold-500", 4, &["blast-efs-500", "blast-fsx-v13-500"]),
            ("blast", "search-cold-50", 1, &[]),
            ("hydrate", "dd", 1, &["hydrate-dd"]),
            ("metadata", "create", 1, &[]),
        ] {
            assert_eq!(names(suite, phase, copies), wanted, "{suite} {phase} {copies}");
        }
        assert_eq!(names("fio-rand", "randread-16k", 16).len(), 3);
        assert_eq!(names("aligner", "align", 1).len(), 2);
    }

    #[test]
    fn every_name_is_that_of_a_figure() {
        for (suite, phase) in [
            ("dd-large", "create"),
            ("small-files", "read"),
            ("dummy-files", "create"),
            ("fio-seq", "read"),
            ("fio-seq", "write"),
            ("fio-rand", "randread-16k"),
            ("credit-drain", "provisioned"),
            ("credit-drain", "burst"),
            ("blast", "search-warm-500000"),
            ("hydrate", "hydrate"),
            ("aligner", "align"),
        ] {
            let wanted = ids(suite, phase, 1);
            assert!(!wanted.is_empty(), "{suite} {phase}");
            assert_eq!(names(suite, phase, 1).len(), wanted.len(), "{wanted:?}");
        }
    }
}
