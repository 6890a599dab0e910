//! What is asked of daemons about links, actions, files and disks.

use std::path::Path;

use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_door_block::attach::{AttachOptions, Attached};
use weir_engine::{
    ActionId, ActionRequest, ActionView, AsideView, DiskView, ExtractReport, FileState,
    HiddenObject, LinkId, LinkOptions, LinkPlan, LinkView, MergeReport, PlannedExports,
    RecoverProgress, Root, Spell, ThroughputChange, ThroughputReport, Whose,
};
use weir_types::{ErrorKind, FsError, Ino, Result};

use super::{Client, understand};

/// Hidden objects asked for at once.
const HIDDEN_PAGE: usize = 1_000;
/// Files whose state is asked for at once.
pub(crate) const STATES_AT_ONCE: usize = 4_096;

impl Client {
    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T> {
        understand(self.send(method, path, None).await?)
    }

    /// Asks for a change.
    pub(crate) async fn tell<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        let body = serde_json::to_vec(body)
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode a request").with_source(e))?;
        understand(self.send(Method::POST, path, Some(body)).await?)
    }

    /// Makes a link.
    pub(crate) async fn link(
        &self,
        ino: Ino,
        path: &str,
        options: &LinkOptions,
    ) -> Result<LinkView> {
        self.tell("/links", &json!({ "ino": ino, "path": path, "options": options })).await
    }

    /// Ends a link.
    pub(crate) async fn unlink(&self, ino: Ino) -> Result<LinkView> {
        self.ask(Method::DELETE, &format!("/links?ino={}", ino.0)).await
    }

    /// All links of the volume.
    pub(crate) async fn links(&self) -> Result<Vec<LinkView>> {
        self.ask(Method::GET, "/links").await
    }

    /// How throughput stands.
    pub(crate) async fn throughput(&self) -> Result<ThroughputReport> {
        self.ask(Method::GET, "/throughput").await
    }

    /// Changes the rule of a directory or user.
    pub(crate) async fn set_throughput(
        &self,
        whose: Whose,
        name: &str,
        change: &ThroughputChange,
    ) -> Result<ThroughputReport> {
        self.tell("/throughput", &json!({ "whose": whose, "name": name, "change": change })).await
    }

    /// What was used since a time in milliseconds since 1970, or since the mount.
    pub(crate) async fn used(&self, since_unix_ms: Option<u64>) -> Result<Spell> {
        let since = since_unix_ms.map(|ms| format!("?since_unix_ms={ms}")).unwrap_or_default();
        self.ask(Method::GET, &format!("/used{since}")).await
    }

    /// A page of the objects that cannot show, after a key; the last page is empty.
    pub(crate) async fn hidden(
        &self,
        link: LinkId,
        after: Option<&str>,
    ) -> Result<Vec<HiddenObject>> {
        let after = after.map(|key| format!("&after={}", encoded(key))).unwrap_or_default();
        let path = format!("/links/hidden?link={}&limit={HIDDEN_PAGE}{after}", link.0);
        self.ask(Method::GET, &path).await
    }

    /// Imports what changed: all of a link, or some keys.
    pub(crate) async fn refresh(&self, link: LinkId, keys: Option<&[String]>) -> Result<LinkView> {
        self.tell(&format!("/links/refresh?link={}", link.0), &json!({ "keys": keys })).await
    }

    /// What a link would show and ask for.
    pub(crate) async fn plan_link(&self, options: &LinkOptions) -> Result<LinkPlan> {
        self.tell("/links/plan", &json!(options)).await
    }

    /// What of a link waits for its export: as much as one answer holds.
    pub(crate) async fn pending(&self, link: LinkId) -> Result<PlannedExports> {
        let path = format!("/links/pending?link={}&limit={HIDDEN_PAGE}", link.0);
        self.ask(Method::GET, &path).await
    }

    /// Imports all of a link, deletions that were held, too.
    pub(crate) async fn confirm(&self, link: LinkId) -> Result<LinkView> {
        self.tell(&format!("/links/refresh?link={}&confirm=true", link.0), &json!({})).await
    }

    /// Begins an action.
    pub(crate) async fn start(&self, request: &ActionRequest) -> Result<ActionView> {
        self.tell("/actions", request).await
    }

    /// All actions, oldest first.
    pub(crate) async fn actions(&self) -> Result<Vec<ActionView>> {
        self.ask(Method::GET, "/actions").await
    }

    /// An action once it has ended, or as it stands after `wait_ms`.
    pub(crate) async fn action(&self, id: ActionId, wait_ms: u64) -> Result<ActionView> {
        self.ask(Method::GET, &format!("/actions/{}?wait_ms={wait_ms}", id.0)).await
    }

    /// Stops an action.
    pub(crate) async fn cancel(&self, id: ActionId) -> Result<ActionView> {
        self.ask(Method::DELETE, &format!("/actions/{}", id.0)).await
    }

    /// Pins or unpins files; answers how many.
    pub(crate) async fn pin(&self, roots: &[Root], recursive: bool, pinned: bool) -> Result<u64> {
        #[derive(Deserialize)]
        struct Pinned {
            files: u64,
        }
        let body = json!({ "roots": roots, "recursive": recursive, "pinned": pinned });
        let Pinned { files } = self.tell("/pin", &body).await?;
        Ok(files)
    }

    /// What is set aside.
    pub(crate) async fn aside(&self) -> Result<Vec<AsideView>> {
        self.ask(Method::GET, "/recover").await
    }

    /// Puts back what nobody changed since.
    pub(crate) async fn merge_aside(&self, label: Option<&str>) -> Result<MergeReport> {
        self.tell("/recover/merge", &json!({ "label": label })).await
    }

    /// Has what is set aside written into a directory.
    pub(crate) async fn extract_aside(
        &self,
        label: Option<&str>,
        directory: &Path,
    ) -> Result<ExtractReport> {
        let body = json!({ "label": label, "directory": directory });
        self.tell("/recover/extract", &body).await
    }

    /// Gives an entry up.
    pub(crate) async fn discard_aside(&self, label: &str) -> Result<()> {
        self.tell("/recover/discard", &json!({ "label": label })).await.map(|_: Value| ())
    }

    /// How far a merge or extraction is.
    pub(crate) async fn aside_progress(&self) -> Result<RecoverProgress> {
        self.ask(Method::GET, "/recover/progress").await
    }

    /// All disks of the volume.
    pub(crate) async fn disks(&self) -> Result<Vec<DiskView>> {
        self.ask(Method::GET, "/disks").await
    }

    /// The devices that the daemon keeps.
    pub(crate) async fn devices(&self) -> Result<Vec<Attached>> {
        self.ask(Method::GET, "/devices").await
    }

    /// Makes a disk a device.
    pub(crate) async fn attach(&self, options: &AttachOptions) -> Result<Attached> {
        self.tell("/devices/attach", options).await
    }

    /// Takes a device away.
    pub(crate) async fn detach(&self, device: &str) -> Result<Attached> {
        self.tell("/devices/detach", &json!({ "device": device })).await
    }

    /// How files stand, in their order; `None` for those that are gone.
    pub(crate) async fn states(&self, inos: &[u64]) -> Result<Vec<Option<FileState>>> {
        let states: Vec<_> = self.tell("/states", &json!({ "inos": inos })).await?;
        match states.len() == inos.len() {
            true => Ok(states),
            false => Err(FsError::new(ErrorKind::Bug, "the daemon told of other files")),
        }
    }
}

/// A key as part of a query.
fn encoded(key: &str) -> String {
    const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');
    utf8_percent_encode(key, KEY).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_a_query() {
        assert_eq!(encoded("a/b-1_2.x"), "a/b-1_2.x");
        assert_eq!(encoded("a b+c&d=é\\x"), "a%20b%2Bc%26d%3D%C3%A9%5Cx");
    }
}
