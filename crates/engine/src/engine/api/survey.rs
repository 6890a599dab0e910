//! How much is where.

use weir_types::Result;

use crate::engine::Engine;
use crate::services::survey::Survey;
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// How much is below the directories, and how much of it is here: of a walk that ends after
    /// 50,000 names or half a second, and is done anew after a minute only, when somebody asks.
    pub fn survey(&self) -> Boxed<'_, Result<Survey>> {
        boxed(self.surveyor.survey())
    }
}
