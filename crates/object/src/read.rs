//! Reading objects: whole or by range, asked for twice when slow, resumed where a body broke off.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::select_ok;
use object_store::path::Path;
use object_store::{
    Attributes, Error, GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use weir_types::ErrorKind;

use crate::asks::HeadAsk;
use crate::caller::{Ask, Caller, Failure};
use crate::etags::{etag, still};
use crate::failure::{broken, judge, may_be_no_bucket, no_bucket};
use crate::{Component, RequestKind, Scheme};

/// A body from which nothing comes for so long is given up and asked for again.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A bucket that did what it was asked for is there for so long: one with objects cannot be removed.
const THERE: Duration = Duration::from_secs(1);
/// A body that is a local file is read in steps of so many bytes.
const FILE_STEP_BYTES: usize = 1 << 20;

/// A whole body that has the length it should have.
pub(crate) struct Got {
    pub(crate) meta: ObjectMeta,
    pub(crate) range: Range<u64>,
    pub(crate) attributes: Attributes,
    pub(crate) bytes: Bytes,
}

/// What is left of a body, and who takes it.
struct Rest<'a> {
    next: u64,
    /// Bytes that came in, over all attempts.
    received: u64,
    take: &'a mut (dyn FnMut(Bytes) + Send),
}

impl Caller {
    /// Size, times and attributes; no body.
    pub(crate) async fn head(&self, component: Component, path: &Path) -> Result<Got, Failure> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        self.get(component, path, options).await
    }

    /// Like [`Caller::head`], of a key in full that need not be a path. Only S3 has such objects.
    pub(crate) async fn head_raw(&self, component: Component, key: &str) -> Result<Got, Failure> {
        if self.url.scheme() != Scheme::S3 || key.is_empty() {
            let source = "no object here has such a key".into();
            let error = Error::NotFound { path: key.to_owned(), source };
            return Err(Failure { error, attempts: 0, elapsed: Duration::ZERO });
        }
        let mut options = GetOptions { head: true, ..GetOptions::default() };
        options.extensions.insert(HeadAsk(key.to_owned()));
        self.get(component, &self.prefix, options).await
    }

    /// Reads the whole body, which has exactly the length that the store announced.
    pub(crate) async fn get(
        &self,
        component: Component,
        path: &Path,
        options: GetOptions,
    ) -> Result<Got, Failure> {
        let kind = if options.head { RequestKind::Head } else { RequestKind::Get };
        let expects = match &options.range {
            Some(object_store::GetRange::Bounded(range)) => range.end.saturating_sub(range.start),
            _ => 0,
        };
        let ask = Ask { expects, ..Ask::new(component, kind) };
        let got = self.run(ask, |_| {
            let options = options.clone();
            async move {
                let head = options.head;
                let result = self.open(ask, path, options).await?;
                let (meta, range) = (result.meta.clone(), result.range.clone());
                let attributes = result.attributes.clone();
                if head {
                    return Ok((Got { meta, range, attributes, bytes: Bytes::new() }, 0));
                }
                let bytes = result.bytes().await?;
                let (have, want) = (bytes.len() as u64, range.end.saturating_sub(range.start));
                if have != want {
                    let message = format!("the body ended after {have} of {want} bytes");
                    return Err(broken(io::ErrorKind::UnexpectedEof, message));
                }
                Ok((Got { meta, range, attributes, bytes }, have))
            }
        });
        self.or_no_bucket(component, got.await).await
    }

    /// The same, but where S3 left open what was not found (as it does to every HEAD) and it is the
    /// bucket, an error that says so: nobody shall take all objects of a bucket for deleted. Then
    /// one HEAD more, unless the bucket served somebody a moment ago.
    async fn or_no_bucket<T>(
        &self,
        component: Component,
        got: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let failure = match got {
            Err(failure) if self.url.scheme() == Scheme::S3 => failure,
            other => return other,
        };
        let served = *self.served.lock();
        let is_there = served.is_some_and(|at| at.elapsed() < THERE);
        if is_there || !may_be_no_bucket(&failure.error) {
            return Err(failure);
        }
        let ask = Ask::new(component, RequestKind::Head);
        let bucket = self.run(ask, |_| async {
            let mut options = GetOptions { head: true, ..GetOptions::default() };
            options.extensions.insert(HeadAsk(String::new()));
            match self.store.get_opts(&self.prefix, options).await {
                // Policies for a prefix allow no such question: an answer like others.
                Err(error) if judge(&error).kind == ErrorKind::Permission => Ok(((), 0)),
                asked => asked.map(|_| ((), 0)),
            }
        });
        match bucket.await {
            Err(Failure { error: Error::NotFound { .. }, .. }) => {
                Err(Failure { error: no_bucket(), ..failure })
            }
            Err(other) if judge(&other.error).transient => Err(other),
            // It is there, as far as we may ask.
            _ => Err(failure),
        }
    }

    /// Reads a range piece by piece, in order, as it comes. An attempt that breaks off is resumed
    /// behind the last byte that was taken, if the object is still the one that was asked for.
    /// Answers the object's size where it ends too early.
    pub(crate) async fn get_pieces(
        &self,
        component: Component,
        path: &Path,
        range: Range<u64>,
        if_match: Option<&str>,
        take: &mut (dyn FnMut(Bytes) + Send),
    ) -> Result<Option<u64>, Failure> {
        let rest = Mutex::new(Rest { next: range.start, received: 0, take });
        let expects = range.end.saturating_sub(range.start);
        let ask = Ask { expects, ..Ask::new(component, RequestKind::Get) };
        let read = self.run(ask, |_| {
            let (rest, end) = (&rest, range.end);
            async move {
                let next = lock(rest).next;
                let wanted = next..end;
                let bounded = Some(GetRange::Bounded(wanted.clone()));
                let same = if_match.map(str::to_owned);
                let options =
                    GetOptions { range: bounded, if_match: same, ..GetOptions::default() };
                let opened = self.open(ask, path, options).await?;
                // Some servers do not know the condition.
                still(if_match, opened.meta.e_tag.as_deref(), path)?;
                if opened.range != wanted {
                    return Ok((Some(opened.meta.size), 0));
                }
                if let Some(etag) = pour(opened, rest, end).await? {
                    still(if_match, Some(&etag), path)?;
                }
                Ok((None, lock(rest).received))
            }
        });
        self.or_no_bucket(component, read.await).await
    }

    /// Asks for an object, twice if the first answer is slow to come and the budget allows it.
    async fn open(
        &self,
        ask: Ask,
        path: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let began = Instant::now();
        let patience = self.hedger.begin();
        let mut first = self.store.get_opts(path, options.clone());
        let opened = match patience {
            None => first.await,
            Some(patience) => match tokio::time::timeout(patience, &mut first).await {
                Ok(opened) => opened,
                Err(_) if !self.hedger.spend() => first.await,
                Err(_) => {
                    let mut count = self.begin(ask);
                    (count.counted.hedge, count.counted.failed) = (true, false);
                    let second = self.store.get_opts(path, options);
                    select_ok([first, second]).await.map(|(opened, _)| opened)
                }
            },
        };
        if opened.is_ok() {
            self.hedger.answered(began.elapsed());
        }
        opened
    }
}

/// Hands the body to whoever takes it, up to `end`. Answers the ETag that a local file, which may
/// be written to at any time, had afterwards.
async fn pour(
    opened: GetResult,
    rest: &Mutex<Rest<'_>>,
    end: u64,
) -> object_store::Result<Option<String>> {
    let give = |piece: Bytes| {
        let mut rest = lock(rest);
        let fits = piece.len() as u64 <= end - rest.next;
        rest.received += piece.len() as u64;
        if fits {
            rest.next += piece.len() as u64;
            (rest.take)(piece);
        }
        match fits {
            true => Ok(()),
            false => Err(broken(io::ErrorKind::InvalidData, "the body is too long".to_owned())),
        }
    };
    let range = opened.range.clone();
    let mut after = None;
    match opened.payload {
        // The library's stream of a file goes in steps of 8 KiB.
        GetResultPayload::File(file, path) => {
            let file = Arc::new(file);
            for start in range.clone().step_by(FILE_STEP_BYTES) {
                let len = (range.end - start).min(FILE_STEP_BYTES as u64) as usize;
                let file = file.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&file, start, len));
                let told = |e| broken(io::ErrorKind::Other, format!("{}: {e}", path.display()));
                give(read.await?.map_err(told)?)?;
            }
            after = file.metadata().ok().map(|meta| etag(&meta));
        }
        GetResultPayload::Stream(mut body) => {
            let silent = |_| broken(io::ErrorKind::TimedOut, "the body stopped coming".to_owned());
            while let Some(piece) =
                tokio::time::timeout(SILENCE_MAX, body.next()).await.map_err(silent)?
            {
                give(piece?)?;
            }
        }
    }
    let missing = end - lock(rest).next;
    if missing > 0 {
        let message = format!("the body ended {missing} bytes too early");
        return Err(broken(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(after)
}

/// Up to `len` bytes of a file; fewer at its end.
fn read_file(file: &File, start: u64, len: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match file.read_at(&mut bytes[done..], start + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes.into())
}

fn lock<'a, 'b>(rest: &'a Mutex<Rest<'b>>) -> parking_lot::MutexGuard<'a, Rest<'b>> {
    rest.lock()
}
