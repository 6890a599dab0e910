//! The end of a run: what needs all the rest to be there.

use std::io;
use std::sync::atomic::Ordering;

use weir_object::Component;
use weir_types::{ErrorKind, FsError, Result};

use crate::directory;
use crate::entry::{Entry, Kind};
use crate::place::Place;
use crate::run::{Report, Run};
use crate::walk::{blocking, local};

impl Run<'_> {
    /// What needs all the rest to be there: further names of files, deletions, times of directories,
    /// and that all is on disk.
    pub(crate) async fn finish(&self) -> Result<Report> {
        let (extra, unlisted) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.extra), state.unlisted)
        };
        self.delete(extra, unlisted).await?;
        let late = {
            let mut state = self.state.lock();
            state.cleared = true;
            std::mem::take(&mut state.late)
        };
        for entry in late {
            self.copy(entry).await?;
        }
        let again = std::mem::take(&mut self.state.lock().again);
        self.name_again(again).await;
        let tops = match (self.from, self.to, self.options.dry_run) {
            (Place::Directory(from), Place::Directory(to), false) => Some((Some(from), to)),
            (_, Place::Directory(to), false) => Some((None, to)),
            _ => None,
        };
        if let Some((from, to)) = tops {
            let (from, root) = (from.cloned(), to.clone());
            let mut directories = std::mem::take(&mut self.state.lock().directories);
            directories.retain(|entry| self.state.lock().touched.contains(&entry.path));
            directories.sort_by(Entry::order);
            let done = blocking(move || {
                // Those below first: what is done in one changes the time of that above.
                for entry in directories.iter().rev() {
                    if let Some(from) = &from {
                        directory::finish_directory(from, &root, entry)?;
                    }
                }
                rustix::fs::syncfs(&*root.fd).map_err(io::Error::from)
            });
            done.await.map_err(|error| local(error).within("the last step"))?;
        }
        Ok(std::mem::take(&mut self.state.lock().report))
    }

    async fn name_again(&self, again: Vec<(Vec<u8>, Entry)>) {
        let Place::Directory(root) = self.to else { return };
        for (first, entry) in again {
            let (root, path) = (root.clone(), entry.path.clone());
            let done = match self.options.dry_run {
                true => Ok(()),
                false => blocking(move || directory::name_again(&root, &first, &path)).await,
            };
            match done {
                Ok(()) => {
                    let mut state = self.state.lock();
                    state.report.copied += 1;
                    state.touch(&entry.path);
                }
                Err(error) => self.fail(&entry.shown(), &local(error)),
            }
        }
    }

    async fn delete(&self, extra: Vec<Entry>, unlisted: bool) -> Result<()> {
        if !self.options.delete {
            return Ok(());
        }
        let goes = |entry: &Entry| {
            entry.kind != Kind::Special && !self.options.scope.leaves_below(&entry.path)
        };
        if unlisted {
            let text = "nothing was deleted, because part of the source could not be listed";
            self.fail("", &FsError::new(ErrorKind::Invalid, text));
            self.state.lock().report.extra = extra.len() as u64;
            return Ok(());
        }
        if self.progress.seen.load(Ordering::Relaxed) == 0
            && !extra.is_empty()
            && !self.options.empty
        {
            let text = format!(
                "{} is empty, and all {} entries of {} would be deleted: is it mounted? --empty says \
                 that this is meant",
                self.from.shown(),
                extra.len(),
                self.to.shown()
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        // Those below come before the directory that they are in.
        for entry in extra.iter().rev().filter(|entry| goes(entry)) {
            let done = match (self.to, self.options.dry_run) {
                (_, true) => Ok(()),
                (Place::Bucket(bucket), _) => match entry.key() {
                    Ok(key) => bucket.delete(Component::Data, key).await,
                    Err(error) => Err(error),
                },
                (Place::Directory(root), _) => {
                    let (root, entry) = (root.clone(), entry.clone());
                    blocking(move || directory::remove(&root, &entry)).await.map_err(local)
                }
            };
            match done {
                Ok(()) => {
                    let mut state = self.state.lock();
                    state.report.deleted += 1;
                    state.touch(&entry.path);
                }
                Err(error) => self.fail(&entry.shown(), &error),
            }
        }
        Ok(())
    }
}
