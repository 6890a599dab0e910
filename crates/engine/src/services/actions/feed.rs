//! From a walk to who works on its files: a queue of bounded length, with the files counted ahead
//! of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_types::{ErrorKind, FsError, Result};

use super::action::Action;
use super::found::Found;
use super::portions::own_of;
use super::walk::Walk;
use crate::services::actions::parts::Actions;

/// Pages of files that wait.
const PAGES: usize = 64;
/// Rest before a directory that could not be read is tried again, in milliseconds.
const REST_MS: u64 = 1_000;

/// The files of an action, in the order of their directories.
pub(crate) struct Feed {
    pages: mpsc::Receiver<Vec<Found>>,
    page: VecDeque<Found>,
    walking: JoinSet<Result<()>>,
}

impl Feed {
    /// Starts to walk. The walk ends when the feed goes.
    pub(crate) fn begin(actions: &Arc<Actions>, action: &Arc<Action>) -> Self {
        let walk = Walk::new(actions, &action.request.roots, action.request.recursive);
        let (sender, pages) = mpsc::channel(PAGES);
        let mut walking = JoinSet::new();
        walking.spawn(feed(actions.clone(), walk, action.clone(), sender));
        Self { pages, page: VecDeque::new(), walking }
    }

    /// The next file; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Found> {
        while self.page.is_empty() {
            self.page = self.pages.recv().await?.into();
        }
        self.page.pop_front()
    }

    /// Up to a page of files; `None` at the end.
    pub(crate) async fn page(&mut self) -> Option<Vec<Found>> {
        self.pages.recv().await
    }

    /// After the end: whether the walk got there.
    pub(crate) async fn end(&mut self) -> Result<()> {
        match self.walking.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Err(FsError::new(ErrorKind::Bug, format!("a walk: {error}"))),
            None => Ok(()),
        }
    }
}

/// As long as the queue takes what is found, one walk counts and feeds. Then another one goes
/// ahead and counts the rest.
async fn feed(
    actions: Arc<Actions>,
    mut walk: Walk,
    action: Arc<Action>,
    queue: mpsc::Sender<Vec<Found>>,
) -> Result<()> {
    let mut counting = JoinSet::new();
    while let Some(page) = next(&mut walk, &action, true).await? {
        if counting.is_empty() {
            action.found(&page);
        }
        let page = actions.without_held(&action, page).await;
        if let Err(full) = queue.try_send(page) {
            if counting.is_empty() {
                counting.spawn(count(walk.clone(), action.clone()));
            }
            if queue.send(full.into_inner()).await.is_err() {
                return Ok(());
            }
        }
    }
    match counting.join_next().await {
        Some(_) => {}
        None => action.counted(),
    }
    Ok(())
}

async fn count(mut walk: Walk, action: Arc<Action>) -> Result<()> {
    while let Some(page) = next(&mut walk, &action, false).await? {
        action.found(&page);
    }
    action.counted();
    Ok(())
}

/// The walk's next page. What cannot be read for longer than the bucket takes is tried again; what
/// is damaged is passed over, and refused by one of two walks.
async fn next(walk: &mut Walk, action: &Action, refuse: bool) -> Result<Option<Vec<Found>>> {
    loop {
        match walk.next().await {
            Ok(page) => return Ok(page.map(|page| own_of(action, page))),
            Err(error) if error.kind() == ErrorKind::Fenced => return Err(error),
            Err(error) if error.kind() == ErrorKind::Retry => {
                let id = action.id.0;
                tracing::warn!(action = id, %error, "a directory was not read: tried again");
                tokio::time::sleep(Duration::from_millis(REST_MS)).await;
            }
            Err(error) => {
                let path = walk.skip();
                if refuse {
                    action.refuse_path(|| path, &error.to_string());
                }
            }
        }
    }
}
