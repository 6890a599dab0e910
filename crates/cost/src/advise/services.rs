//! EFS beside FSx for Lustre: the question that people come with, answered whatever is best.

use super::advice::Advice;
use super::choice::Choice;
use super::table::runs;
use crate::Storage;

/// From how many runs a month on FSx for Lustre costs less than EFS, without waiting: a sentence for
/// each mode of EFS, beside the FSx that costs least now. What is not known is said.
pub fn efs_beside_fsx(advice: &Advice) -> Vec<String> {
    let of = |service: fn(&Storage) -> bool| -> Vec<&Choice> {
        let known = advice.choices.iter().filter(|choice| choice.month.complete);
        known.filter(|choice| service(&choice.storage)).collect()
    };
    let efs = of(|storage| matches!(storage, Storage::Efs { .. }));
    let fsx = of(|storage| matches!(storage, Storage::FsxLustre { .. }));
    let cheapest = fsx.into_iter().min_by_key(|choice| choice.month.usd);
    let not_known = |service: &str| {
        let region = &advice.workload.region;
        vec![format!("What {service} costs in {region} is not known: no break-even can be told.")]
    };
    match (efs.is_empty(), cheapest) {
        (_, None) => not_known("FSx for Lustre"),
        (true, _) => not_known("EFS"),
        (false, Some(fsx)) => efs.into_iter().map(|efs| beside(efs, fsx)).collect(),
    }
}

fn beside(efs: &Choice, fsx: &Choice) -> String {
    let late = |of: &Choice| if of.keeps_up { "" } else { " (for which a day is too short)" };
    let name = |of: &Choice| format!("{}{}", of.name, late(of));
    let (a, b) = (efs.linear(), fsx.linear());
    let (less_below, less_above) =
        if a.per_run_usd > b.per_run_usd { (efs, fsx) } else { (fsx, efs) };
    match a.meets(&b) {
        Some(at) => format!(
            "{} costs less below {} runs a month, {} above.",
            name(less_below),
            runs(at),
            name(less_above)
        ),
        None => {
            let (less, more) = if a.usd(1.0) <= b.usd(1.0) { (efs, fsx) } else { (fsx, efs) };
            format!("{} costs less than {} however much is run.", name(less), name(more))
        }
    }
}
