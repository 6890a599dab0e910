//! Stand-ins.
use weir_types::{ErrorKind, Result};

use crate::{Bucket, Component, ObjectInfo, PutCondition};

/// How a copy ended.
#[derive(Clone, Debug)]
pub enum Copied {
    /// Done.
    Done(ObjectInfo),
    /// The source is another one.
    SourceChanged,
    /// The target is another one.
    TargetChanged,
}

impl Bucket {
    /// Copies.
    pub async fn copy_object_if(
        &self,
        component: Component,
        from: &str,
        etag: Option<&str>,
        to: &str,
        condition: &PutCondition,
    ) -> Result<Copied> {
        match self.head(component, from).await {
            Ok(info) if info.etag.as_deref() == etag => {}
            Ok(_) => return Ok(Copied::SourceChanged),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Copied::SourceChanged),
            Err(error) => return Err(error),
        }
        let there = match self.head(component, to).await {
            Ok(info) => Some(info),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let holds = match condition {
            PutCondition::Any => true,
            PutCondition::Absent => there.is_none(),
            PutCondition::Matches(etag) => there.is_some_and(|i| i.etag.as_ref() == Some(etag)),
        };
        if !holds {
            return Ok(Copied::TargetChanged);
        }
        self.copy_object(component, from, to).await.map(Copied::Done)
    }

    /// Deletes.
    pub async fn delete_if(&self, component: Component, key: &str, etag: &str) -> Result<bool> {
        match self.head(component, key).await {
            Ok(info) if info.etag.as_deref() != Some(etag) => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        }
        self.delete(component, key).await.map(|()| true)
    }
}
