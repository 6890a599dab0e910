//! What moves into cheaper storage classes.

use weir_types::{Ino, Result};

use crate::engine::Engine;
use crate::services::lifecycle::{LifecyclePlan, LifecycleRule, LifecycleView};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// The rules by which objects move between storage classes, what is in which, and how far the pass over them is. Two
    /// reads, and one for each 10,000 segments.
    pub fn lifecycle(&self) -> Boxed<'_, Result<LifecycleView>> {
        boxed(self.lifecycle.view())
    }

    /// Whether the pass over objects stands still, and is tried again. Costs nothing.
    pub fn lifecycle_stands_still(&self) -> bool {
        self.lifecycle.stands_still()
    }

    /// What would move at once if a directory had this rule, or none. Three reads for each 1,000 segments, and where there are
    /// rules of directories a GET for each of up to 1,000 segments.
    pub fn plan_lifecycle(
        &self,
        dir: Ino,
        rule: Option<LifecycleRule>,
    ) -> Boxed<'_, Result<LifecyclePlan>> {
        boxed(self.lifecycle.plan(dir, rule))
    }

    /// Gives a directory a rule, which holds for all below it that has none of its own, or takes its rule away; then a pass
    /// begins. `Unsupported` where a bucket of the volume has no such storage class.
    pub fn set_lifecycle(
        &self,
        dir: Ino,
        rule: Option<LifecycleRule>,
    ) -> Boxed<'_, Result<LifecycleView>> {
        boxed(self.lifecycle.set(dir, rule))
    }

    /// Has a pass over all segments begin soon, without waiting for the next one, which is a day after the last. Two reads
    /// and a commit.
    pub fn begin_lifecycle_pass(&self) -> Boxed<'_, Result<LifecycleView>> {
        boxed(self.lifecycle.begin())
    }
}
