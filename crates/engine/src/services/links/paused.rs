//! Links that stand still.

use weir_meta::Meta;
use weir_types::Result;

use super::registry::LinkRecord;
use super::views::Policy;

/// Has all links neither import nor export by themselves. Answers how many did. A read, and a commit for each.
pub(crate) async fn pause_all(meta: &Meta) -> Result<u64> {
    let mut paused = 0;
    for (id, bytes) in meta.links().await? {
        let mut link = LinkRecord::decode(id, &bytes)?;
        let nothing = Policy::default();
        if link.options.import != nothing || link.options.export != nothing {
            (link.options.import, link.options.export) = (nothing, nothing);
            meta.set_link(id, &link.encode()?).await?;
            paused += 1;
        }
    }
    Ok(paused)
}
