//! What programs store into mirror files through mappings, past the daemon: it is found before each
//! flush of such a file.

use std::sync::Arc;

use weir_tier::Mirror;
use weir_types::{Ino, Result};

use super::mirrors::Mirrors;
use crate::volume::context::blocking;

impl Mirrors {
    /// Whether programs may store into the file past the daemon, and so change its times. Cheap.
    pub(crate) fn may_be_stored(&self, ino: Ino) -> bool {
        let tier = &self.tier;
        tier.in_passthrough(ino) && tier.find(ino).is_some_and(|mirror| mirror.may_be_stored())
    }

    /// Looks what became of lent files: dirty by stores through mappings, or lent no more. Looks at
    /// all of them, whatever fails, and answers the first error.
    pub(crate) async fn look_for_mapped_writes(self: &Arc<Self>) -> Result<()> {
        self.of_those_in_passthrough(|_| true, Mirror::look_for_mapped_writes).await
    }

    /// Before a flush of these files: all that was stored into them up to now is dirty. What cannot
    /// be looked at must not keep the others from the bucket: flush, and tell the error then.
    pub(crate) async fn scan_mapped_writes(self: &Arc<Self>, inos: &[Ino]) -> Result<()> {
        let wanted = |mirror: &Mirror| mirror.may_be_stored() && inos.contains(&mirror.ino());
        self.of_those_in_passthrough(wanted, Mirror::scan_mapped_writes).await
    }

    async fn of_those_in_passthrough(
        self: &Arc<Self>,
        which: impl Fn(&Mirror) -> bool,
        look: fn(&Mirror) -> Result<()>,
    ) -> Result<()> {
        let mut lent = self.tier.in_passthrough_now();
        lent.retain(|mirror| which(mirror));
        if lent.is_empty() {
            return Ok(());
        }
        blocking(move || lent.iter().map(|mirror| look(mirror)).fold(Ok(()), Result::and)).await
    }
}
