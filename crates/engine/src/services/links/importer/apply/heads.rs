//! Asking for the attributes of objects.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use weir_object::{Component, ListedObject, is_addressable};
use weir_types::{ErrorKind, Result};

use super::Import;
use crate::services::links::attributes::Attributes;
use crate::services::links::rule::place;

use crate::services::links::Attributes as Ask;

/// HEADs in flight at once.
const HEADS: usize = 32;
/// Objects looked at to learn whether any have attributes.
const SAMPLE: usize = 32;

impl Import {
    /// The attributes of those of these objects that have any, if they are asked for.
    pub(super) async fn attributes_of(
        &self,
        objects: &[ListedObject],
    ) -> Result<BTreeMap<Vec<u8>, Attributes>> {
        let keys: Vec<_> = objects.iter().map(|object| object.key.as_slice()).collect();
        let known = self.link.sampled().asks;
        let asks = match (self.link.attributes(), known) {
            (Ask::Always, _) => true,
            (Ask::Never, _) => false,
            (Ask::Auto, Some(asks)) => asks,
            (Ask::Auto, None) => {
                let step = objects.len().div_ceil(SAMPLE).max(1);
                let some: Vec<_> = keys.iter().copied().step_by(step).collect();
                let asks = !self.heads(&some).await?.is_empty();
                let mut sampled = self.link.sampled();
                sampled.objects += some.len();
                // Too few say nothing of the rest.
                if sampled.objects >= SAMPLE || asks {
                    sampled.asks = Some(asks);
                }
                asks
            }
        };
        match asks {
            true => self.heads(&keys).await,
            false => Ok(BTreeMap::new()),
        }
    }

    /// Those that directories of a lazy link have by their markers: whoever sees a directory is to
    /// see whom it is for, before anybody looked into it.
    pub(super) async fn attributes_of_directories(
        &self,
        keys: &[String],
    ) -> Result<BTreeMap<Vec<u8>, Attributes>> {
        let asks = match self.link.attributes() {
            Ask::Always => true,
            Ask::Never => false,
            Ask::Auto => self.link.sampled().asks == Some(true),
        };
        let keys = keys.iter().map(String::as_bytes).filter(|_| asks);
        self.heads(&keys.collect::<Vec<_>>()).await
    }

    pub(super) async fn heads(&self, keys: &[&[u8]]) -> Result<BTreeMap<Vec<u8>, Attributes>> {
        let can = |key: &[u8]| {
            is_addressable(key.strip_suffix(b"/").unwrap_or(key)) && place(key).is_ok()
        };
        let shown = keys.iter().filter(|key| can(key));
        let keys: Vec<_> = shown.filter_map(|key| String::from_utf8(key.to_vec()).ok()).collect();
        let heads = stream::iter(keys).map(|key| {
            let bucket = self.bucket.clone();
            async move {
                match bucket.head_attributes(Component::Link, &key).await {
                    Ok((_, metadata)) => Ok(Some((key.into_bytes(), Attributes::read(&metadata)))),
                    // It went since it was listed.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                }
            }
            .boxed()
        });
        let found: Vec<_> = heads.buffer_unordered(HEADS).try_collect().await?;
        Ok(found.into_iter().flatten().filter(|(_, found)| !found.is_empty()).collect())
    }
}
