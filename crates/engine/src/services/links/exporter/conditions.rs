//! Whether the server of a link holds the conditions of what is exported to it.

use std::sync::Arc;

use weir_object::{Bucket, Component, Conditions};
use weir_types::Result;

use crate::services::links::exporter::Exporter;
use crate::services::links::registry::Link;

impl Exporter {
    /// The bucket of a link, to be written to: before the first write its server was asked which
    /// conditions it holds, and of others the bucket looks first.
    pub(in crate::services::links) async fn bucket_to_write(
        &self,
        link: &Arc<Link>,
    ) -> Result<Bucket> {
        let bucket = self.registry.bucket(link.id)?;
        if let Some(conditions) = link.record().conditions {
            return Ok(bucket.with_conditions(conditions));
        }
        let _probe = link.probe.lock().await;
        let conditions = match link.record().conditions {
            Some(known) => known,
            None => {
                let found = probe(&bucket).await?;
                let record = link.change_record(|record| record.conditions = Some(found));
                self.meta.set_link(link.id, &record.encode()?).await?;
                found
            }
        };
        Ok(bucket.with_conditions(conditions))
    }
}

/// Asks the server, and says so if it takes no notice.
pub(in crate::services::links) async fn probe(bucket: &Bucket) -> Result<Conditions> {
    let found = bucket.probe_conditions(Component::Link).await?;
    if found != Conditions::ALL {
        tracing::warn!(url = %bucket.url(), absent = found.absent, matches = found.matches,
            "the server takes no notice of conditions of a PUT: each object is looked at right \
             before it is written, and what somebody puts there in that moment is lost");
    }
    Ok(found)
}
