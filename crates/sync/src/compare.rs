//! Two places held against each other.

use std::cmp::Ordering;
use std::pin::Pin;

use futures::stream::{BoxStream, Peekable};
use futures::{Stream, StreamExt, stream};
use weir_types::{FsError, Result};

use crate::entry::{Entry, Kind};
use crate::place::Place;
use crate::walk::Found;

/// When two files are taken for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// Of one size, and of one time, or the object written after the file was.
    #[default]
    SizeAndTime,
    /// Of one size.
    Size,
    /// Never: all are copied.
    Nothing,
}

/// What is to be done about one path.
#[derive(Debug)]
pub(crate) enum Step {
    /// It is missing at the destination, or differs from what is there.
    Copy(Entry),
    /// It is the same there.
    Same {
        entry: Entry,
        /// Something of one of both changed that is not compared.
        changed: bool,
        /// Device and inode of what is there, if that has other names, too.
        shared: Option<(u64, u64)>,
    },
    /// Only the destination has it.
    Extra(Entry),
    /// A directory that could not be listed.
    Unlisted { source: bool, path: Vec<u8>, error: FsError },
}

type Listing = Pin<Box<Peekable<BoxStream<'static, Result<Found>>>>>;

/// What makes the destination like the source, in the order of keys.
pub(crate) fn compare(
    from: (BoxStream<'static, Result<Found>>, &Place),
    to: (BoxStream<'static, Result<Found>>, &Place),
    how: Comparison,
) -> impl Stream<Item = Result<Step>> + use<> {
    let both_directories = matches!((from.1, to.1), (Place::Directory(_), Place::Directory(_)));
    let (to_bucket, from_bucket) =
        (matches!(to.1, Place::Bucket(_)), matches!(from.1, Place::Bucket(_)));
    let rule = Rule { how, both_directories, to_bucket, from_bucket };
    let sides: (Listing, Listing) = (Box::pin(from.0.peekable()), Box::pin(to.0.peekable()));
    stream::try_unfold(sides, move |(mut from, mut to)| async move {
        let step = step(&mut from, &mut to, rule).await?;
        Ok(step.map(|step| (step, (from, to))))
    })
}

async fn step(from: &mut Listing, to: &mut Listing, rule: Rule) -> Result<Option<Step>> {
    for (listing, source) in [(&mut *from, true), (&mut *to, false)] {
        if !matches!(listing.as_mut().peek().await, Some(Ok(Found::Entry(_))) | None) {
            return match listing.next().await {
                Some(Ok(Found::Unlisted { path, error })) => {
                    Ok(Some(Step::Unlisted { source, path, error }))
                }
                Some(Err(error)) => Err(error),
                _ => Ok(None),
            };
        }
    }
    let order = match (entry(from).await, entry(to).await) {
        (None, None) => return Ok(None),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(from), Some(to)) => from.order(to),
    };
    let mut ours = None;
    if order != Ordering::Greater {
        ours = take(from).await;
    }
    let mut theirs = None;
    if order != Ordering::Less {
        theirs = take(to).await;
    }
    Ok(match (ours, theirs) {
        (Some(ours), Some(theirs)) if rule.same(&ours, &theirs) => {
            let ctime = |of: &Entry| of.owner.map(|owner| owner.ctime_ns);
            let changed = ctime(&ours) != ctime(&theirs);
            let shared = theirs.owner.and_then(|owner| owner.shared);
            Some(Step::Same { entry: ours, changed, shared })
        }
        (Some(ours), _) => Some(Step::Copy(ours)),
        (None, Some(theirs)) => Some(Step::Extra(theirs)),
        (None, None) => None,
    })
}

async fn entry(listing: &mut Listing) -> Option<&Entry> {
    match listing.as_mut().peek().await {
        Some(Ok(Found::Entry(entry))) => Some(entry),
        _ => None,
    }
}

async fn take(listing: &mut Listing) -> Option<Entry> {
    match listing.next().await {
        Some(Ok(Found::Entry(entry))) => Some(entry),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Rule {
    how: Comparison,
    both_directories: bool,
    to_bucket: bool,
    from_bucket: bool,
}

impl Rule {
    fn same(self, ours: &Entry, theirs: &Entry) -> bool {
        match (&ours.kind, &theirs.kind) {
            (Kind::Directory, Kind::Directory) => {
                ours.mtime_ns == theirs.mtime_ns && owned(ours, theirs)
            }
            (Kind::Symlink { target }, Kind::Symlink { target: theirs_target }) => {
                target == theirs_target && self.same_time(ours, theirs)
            }
            // A link is an object that holds where it leads.
            (Kind::Symlink { target }, Kind::File { size }) if self.to_bucket => {
                target.len() as u64 == *size && self.same_time(ours, theirs)
            }
            (Kind::File { size: ours_size }, Kind::File { size: theirs_size }) => {
                ours_size == theirs_size
                    && self.same_time(ours, theirs)
                    && (!self.both_directories || owned(ours, theirs))
            }
            (Kind::Node { .. }, Kind::Node { .. }) => {
                ours.kind == theirs.kind && self.same_time(ours, theirs) && owned(ours, theirs)
            }
            (Kind::Special, Kind::Special) => true,
            _ => false,
        }
    }

    fn same_time(self, ours: &Entry, theirs: &Entry) -> bool {
        match self.how {
            Comparison::Nothing => false,
            Comparison::Size => true,
            // Objects tell when they were written, in seconds: what is of the same second may have
            // changed since. Files that were copied from one keep its time.
            Comparison::SizeAndTime if self.to_bucket => theirs.mtime_ns > ours.mtime_ns,
            Comparison::SizeAndTime if self.from_bucket => {
                ours.mtime_ns / 1_000_000 == theirs.mtime_ns / 1_000_000
            }
            Comparison::SizeAndTime => ours.mtime_ns == theirs.mtime_ns,
        }
    }
}

/// Whether mode and owner are the same, as far as this user may set them.
fn owned(ours: &Entry, theirs: &Entry) -> bool {
    let (Some(ours), Some(theirs)) = (&ours.owner, &theirs.owner) else { return true };
    let root = rustix::process::geteuid().is_root();
    ours.mode == theirs.mode && (!root || (ours.user, ours.group) == (theirs.user, theirs.group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::file;

    #[test]
    fn times_of_objects_and_files_are_held_against_each_other_as_far_as_they_tell() {
        let at = |ms: i128| Entry { mtime_ns: ms * 1_000_000 + 7, ..file("a", 3) };
        let rule = |to_bucket: bool, from_bucket: bool| Rule {
            how: Comparison::SizeAndTime,
            both_directories: !to_bucket && !from_bucket,
            to_bucket,
            from_bucket,
        };
        // Directories: to the nanosecond.
        assert!(rule(false, false).same(&at(5), &at(5)));
        assert!(!rule(false, false).same(&at(5), &Entry { mtime_ns: 5_000_008, ..at(5) }));
        // To a bucket: written since.
        assert!(rule(true, false).same(&at(5), &at(9)));
        assert!(!rule(true, false).same(&at(5), &at(4)));
        // From a bucket: its milliseconds.
        assert!(rule(false, true).same(&at(5), &Entry { mtime_ns: 5_000_000, ..at(5) }));
        assert!(!rule(false, true).same(&at(5), &at(6)));
        assert!(!rule(true, true).same(&at(5), &Entry { kind: Kind::File { size: 4 }, ..at(9) }));
    }
}
