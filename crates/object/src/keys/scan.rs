//! Lists an interval of keys: with many listings side by side, or one after the other.
//!
//! The work is a queue of intervals that nobody lists yet. Whoever has a page that is not the last
//! of its interval goes on behind it; if others are idle, the rest is cut up for them first. Cuts
//! are guesses, and each may cost a LIST that shows little or nothing: so there are no more of them
//! than full pages, and a scan takes at most twice the LISTs that one listing would.

use std::collections::VecDeque;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::task::JoinSet;
use weir_types::{ErrorKind, FsError, Result};

use super::pages::{PageAsk, Pages};
use super::split::{Alphabet, cuts};
use crate::listed::{KeyPage, KeyRange, ListedObject, Page};

/// Cuts lie no further apart than this many pages.
const REACH_MAX: u32 = 256;
/// Of so many keys one teaches the alphabet.
const LEARN_EVERY: usize = 16;

/// One page of keys below a prefix.
pub(super) trait Source: Clone + Send + 'static {
    /// The page after `ask.after`.
    fn page(&mut self, ask: &PageAsk) -> impl Future<Output = Result<Page>> + Send;
}

impl Source for Pages {
    fn page(&mut self, ask: &PageAsk) -> impl Future<Output = Result<Page>> + Send {
        Pages::page(self, ask)
    }
}

/// An interval of which nothing was listed yet.
struct Interval {
    ask: PageAsk,
    until: Option<Vec<u8>>,
    /// Its lower end is a guess: perhaps there is nothing behind it.
    guessed: bool,
}

type Listed = (Interval, Result<Page>);

/// Many listings side by side.
pub(super) struct Scan<S> {
    source: S,
    parallel: usize,
    queue: VecDeque<Interval>,
    under_way: JoinSet<Listed>,
    alphabet: Alphabet,
    /// How many pages apart cuts may lie: further while they turn out to be right.
    reach: u32,
    /// Full pages so far, less cuts.
    credit: usize,
}

impl<S: Source> Scan<S> {
    pub(super) fn new(source: S, range: KeyRange, parallel: usize) -> Self {
        let ask = PageAsk { after: range.after, token: None, delimiter: false };
        Self {
            source,
            parallel,
            queue: VecDeque::from([Interval { ask, until: range.until, guessed: false }]),
            under_way: JoinSet::new(),
            alphabet: Alphabet::new(),
            reach: 1,
            credit: 0,
        }
    }

    pub(super) fn into_stream(self) -> BoxStream<'static, Result<KeyPage>> {
        stream::try_unfold(self, |mut scan| async move {
            Ok(scan.next().await?.map(|page| (page, scan)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<KeyPage>> {
        loop {
            while self.under_way.len() < self.parallel
                && let Some(interval) = self.queue.pop_front()
            {
                let mut source = self.source.clone();
                self.under_way.spawn(async move {
                    let page = source.page(&interval.ask).await;
                    (interval, page)
                });
            }
            let Some(done) = self.under_way.join_next().await else { return Ok(None) };
            let (interval, page) = done.map_err(|error| {
                FsError::new(ErrorKind::Bug, format!("a listing ended early: {error}"))
            })?;
            if let Some(page) = self.take(interval, page?) {
                return Ok(Some(page));
            }
        }
    }

    /// Takes a page in: what is behind it goes into the queue. None if the page said nothing.
    fn take(&mut self, interval: Interval, page: Page) -> Option<KeyPage> {
        let Interval { ask, until, guessed } = interval;
        let (objects, next) = within(page, &ask, until.as_deref());
        self.learn(guessed, &objects);
        let Some(next) = next else {
            return Some(KeyPage { after: ask.after, until, objects });
        };
        self.credit += 1;
        let end = next.after.clone();
        let ends = objects.first().zip(objects.last());
        self.share(next, until, ends.map(|(first, last)| (&*first.key, &*last.key)));
        (end != ask.after).then_some(KeyPage { after: ask.after, until: end, objects })
    }

    fn learn(&mut self, guessed: bool, objects: &[ListedObject]) {
        let sample = objects.iter().step_by(LEARN_EVERY).chain(objects.last());
        sample.for_each(|object| self.alphabet.learn(&object.key));
        if guessed {
            let reach = if objects.is_empty() { self.reach / 2 } else { self.reach * 2 };
            self.reach = reach.clamp(1, REACH_MAX);
        }
    }

    /// Puts the rest of an interval into the queue, cut up if others are idle.
    fn share(&mut self, ask: PageAsk, until: Option<Vec<u8>>, seen: Option<(&[u8], &[u8])>) {
        let busy = self.under_way.len() + self.queue.len() + 1;
        let idle = self.parallel.saturating_sub(busy).min(self.credit);
        let cuts = match seen {
            Some(seen) if idle > 0 => {
                until.iter().for_each(|key| self.alphabet.learn(key));
                cuts(&self.alphabet, seen, until.as_deref(), self.reach, idle)
            }
            _ => Vec::new(),
        };
        self.credit -= cuts.len();
        let ends = cuts.iter().cloned().map(Some).chain([until]);
        let starts = cuts.iter().map(|cut| PageAsk::after(cut.clone()));
        let asks = std::iter::once((ask, false)).chain(starts.map(|ask| (ask, true)));
        for ((ask, guessed), until) in asks.zip(ends) {
            self.queue.push_back(Interval { ask, until, guessed });
        }
    }
}

/// What of a page is in the interval up to `until`, and what to ask for next.
fn within(page: Page, ask: &PageAsk, until: Option<&[u8]>) -> (Vec<ListedObject>, Option<PageAsk>) {
    let next = page.next(ask, false);
    let mut objects = page.objects;
    let Some(until) = until else { return (objects, next) };
    let inside = objects.partition_point(|object| object.key.as_slice() <= until);
    let over = inside < objects.len();
    objects.truncate(inside);
    let reached = |next: &PageAsk| next.after.as_deref().is_some_and(|after| after >= until);
    (objects, next.filter(|next| !over && !reached(next)))
}

/// One page after the other.
pub(super) fn in_turn<S: Source>(
    source: S,
    range: KeyRange,
) -> BoxStream<'static, Result<KeyPage>> {
    let ask = PageAsk { after: range.after, token: None, delimiter: false };
    let begin = (source, Some(ask), range.until);
    stream::try_unfold(begin, |(mut source, ask, until)| async move {
        let Some(ask) = ask else { return Ok(None) };
        let page = source.page(&ask).await?;
        let (objects, next) = within(page, &ask, until.as_deref());
        let end = match &next {
            Some(next) => next.after.clone(),
            None => until.clone(),
        };
        let page = KeyPage { after: ask.after, until: end, objects };
        Ok(Some((page, (source, next, until))))
    })
    .boxed()
}
