//! What a hydration has restored out of archive classes, and what that costs.

use weir_cost::{PriceBook, Restored, price_restores};
use weir_engine::ActionView;
use weir_types::{ArchiveClass, Bytes};

use crate::render::files;

/// Whose list prices are told: the books that come along know all of them there only.
const REGION: &str = "us-east-1";

/// What was asked for, how long that takes, and its price; `None` where nothing is archived.
pub(super) fn told(action: &ActionView) -> Option<String> {
    let restore = action.request.restore?;
    let asked = &action.archived.asked;
    if asked.is_empty() && action.archived.waiting == 0 {
        return None;
    }
    let classes: Vec<_> = asked
        .iter()
        .map(|of| format!("{} of {} ({})", of.objects, of.class, Bytes(of.bytes)))
        .collect();
    let mut told = match &classes[..] {
        [] => "nothing new was asked to be restored".to_owned(),
        classes => format!("asked to restore {}", classes.join(", ")),
    };
    let restored = asked.iter().filter_map(|of| {
        Some(Restored::of(ArchiveClass::named(&of.class)?, restore, of.objects, of.bytes))
    });
    let book = PriceBook::built_in();
    let bill = price_restores(book.at(REGION), restored);
    if !classes.is_empty() {
        told.push_str(&format!(
            ", {}: {bill} with the copies of {} day{} (list prices of {REGION})",
            restore.tier,
            restore.days,
            if restore.days == 1 { "" } else { "s" },
        ));
    }
    if action.archived.waiting > 0 {
        let takes = restore.tier.takes();
        told.push_str(&format!("; {} to come, {takes}", files(action.archived.waiting)));
    }
    Some(told)
}
