//! Pins: files that are never released.

use std::sync::Arc;

use weir_types::Result;

use super::views::Root;
use super::walk::Walk;
use crate::services::actions::parts::Actions;

impl Actions {
    /// Pins the files at or below these roots, or unpins them; answers how many.
    pub(super) async fn set_pins(
        self: &Arc<Self>,
        roots: &[Root],
        recursive: bool,
        pinned: bool,
    ) -> Result<u64> {
        let mut walk = Walk::new(self, roots, recursive);
        let mut files = 0;
        while let Some(found) = walk.next().await? {
            let inos: Vec<_> = found.iter().map(|file| file.ino).collect();
            let done = self.meta.set_pins(&inos, pinned).await?;
            self.space.pins.set(&done, pinned);
            files += done.len() as u64;
        }
        Ok(files)
    }
}
