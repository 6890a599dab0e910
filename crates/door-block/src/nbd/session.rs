//! What a connection and the requests of it work on, and what each request does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use weir_engine::Disk;
use weir_types::{FsError, Result};

use super::errno::errno;
use super::output::Reply;
use super::protocol::{
    self, Command, CommandFlags, ExtentStatus, Headers, NbdError, PAYLOAD_BYTES_MAX, Request,
    TransmissionFlags,
};
use crate::body::whole;
use crate::counts::{Connected, Counts};

/// The most extents in one reply.
const EXTENTS_MAX: usize = 4096;
/// Zeroing whole pages only changes metadata; parts of pages are written.
const PAGE_BYTES: u64 = 4096;
/// A connection logs one failure in this time.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// What was agreed on in the handshake.
pub(super) struct Agreed {
    pub(super) disk: Disk,
    pub(super) headers: Headers,
    /// BLOCK_STATUS may be asked for.
    pub(super) block_status: bool,
    pub(super) read_only: bool,
}

/// A connection in the transmission phase.
pub(super) struct Session {
    agreed: Agreed,
    counts: Arc<Counts>,
    log: FailureLog,
}

/// Why a request is refused or failed.
pub(super) struct Failure {
    error: NbdError,
    text: String,
    /// The engine failed: people should know, and not only this client.
    log: bool,
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        let number = errno(error.kind());
        let log = matches!(number, NbdError::Io | NbdError::Permission);
        Self { error: number, text: error.to_string(), log }
    }
}

fn refuse(error: NbdError, text: impl Into<String>) -> Failure {
    Failure { error, text: text.into(), log: false }
}

/// What a disk lets its clients do.
pub(super) fn flags(disk: &Disk, read_only: bool, headers: Headers) -> TransmissionFlags {
    TransmissionFlags {
        read_only: read_only || disk.read_only(),
        dont_fragment: headers != Headers::Simple,
    }
}

impl Session {
    pub(super) fn new(agreed: Agreed, counts: Arc<Counts>) -> Self {
        Self { agreed, counts, log: FailureLog::default() }
    }

    /// Counts the connection until what is returned goes.
    pub(super) fn connected(&self) -> Connected {
        self.counts.connected()
    }

    pub(super) fn headers(&self) -> Headers {
        self.agreed.headers
    }

    pub(super) fn disk_name(&self) -> &str {
        self.agreed.disk.name()
    }

    /// Is this a request that can be done? Says so before its data are read.
    pub(super) fn check(&self, request: &Request) -> Result<(), Failure> {
        let allowed = CommandFlags::FUA | self.flags_of(request.command);
        if let Command::Unknown(number) = request.command {
            return Err(refuse(NbdError::Invalid, format!("command {number} is unknown")));
        }
        if !request.flags.within(allowed) {
            let text = format!("flags {:#x} do not go with this command", request.flags.0);
            return Err(refuse(NbdError::Invalid, text));
        }
        let writes =
            matches!(request.command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && (self.agreed.read_only || self.agreed.disk.read_only()) {
            let text = format!("disk `{}` is served read-only", self.disk_name());
            return Err(refuse(NbdError::Permission, text));
        }
        let carries = matches!(request.command, Command::Read | Command::Write);
        if carries && request.len > PAYLOAD_BYTES_MAX {
            let text = format!("{} bytes at once: the most is {PAYLOAD_BYTES_MAX}", request.len);
            return Err(refuse(NbdError::Invalid, text));
        }
        self.check_range(request)?;
        self.check_details(request)
    }

    /// The flags that a command may have besides FUA, which all may.
    fn flags_of(&self, command: Command) -> u16 {
        match (command, self.headers()) {
            (Command::Read, Headers::Structured | Headers::Extended) => CommandFlags::DONT_FRAGMENT,
            (Command::Write, Headers::Extended) => CommandFlags::PAYLOAD,
            (Command::WriteZeroes, _) => CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO,
            (Command::BlockStatus, _) => CommandFlags::ONE_EXTENT,
            _ => 0,
        }
    }

    fn check_range(&self, request: &Request) -> Result<(), Failure> {
        if request.command == Command::Flush {
            return Ok(());
        }
        // Asked anew each time: the disk may have grown.
        let size = self.agreed.disk.size_bytes();
        if request.offset.checked_add(request.len).is_some_and(|end| end <= size) {
            return Ok(());
        }
        let error = match request.command {
            Command::Write | Command::WriteZeroes => NbdError::NoSpace,
            _ => NbdError::Invalid,
        };
        let text = format!(
            "{} bytes at {} reach past the end of disk `{}` at {size}",
            request.len,
            request.offset,
            self.disk_name()
        );
        Err(refuse(error, text))
    }

    fn check_details(&self, request: &Request) -> Result<(), Failure> {
        let aligned =
            request.offset.is_multiple_of(PAGE_BYTES) && request.len.is_multiple_of(PAGE_BYTES);
        match request.command {
            Command::WriteZeroes if request.flags.has(CommandFlags::FAST_ZERO) && !aligned => {
                let text = format!("only multiples of {PAGE_BYTES} bytes are zeroed fast");
                Err(refuse(NbdError::Unsupported, text))
            }
            Command::BlockStatus if !self.agreed.block_status => {
                Err(refuse(NbdError::Invalid, "no metadata context was chosen in the handshake"))
            }
            Command::BlockStatus if request.len == 0 => {
                Err(refuse(NbdError::Invalid, "block status of no bytes"))
            }
            _ => Ok(()),
        }
    }

    /// Does a request that was checked, and makes the reply to it.
    pub(super) async fn perform(&self, request: &Request, payload: Bytes) -> Reply {
        match self.perform_on_disk(request, payload).await {
            Ok(reply) => {
                self.count(request);
                self.count_bytes(request);
                reply
            }
            Err(failure) => self.fail(request, failure),
        }
    }

    async fn perform_on_disk(&self, request: &Request, payload: Bytes) -> Result<Reply, Failure> {
        let (disk, headers) = (&self.agreed.disk, self.headers());
        let Request { offset, len, .. } = *request;
        let about = (request.cookie, offset);
        let fua = request.flags.has(CommandFlags::FUA);
        match request.command {
            Command::Read => {
                let body = whole(disk.read(offset, len).await?, len)?;
                return Ok(reply(protocol::read_data(headers, about, len), body));
            }
            Command::BlockStatus => {
                let extents = self.extents(request).await?;
                let (head, body) = protocol::block_status(headers, about, &extents);
                return Ok(reply(head, vec![body.into()]));
            }
            Command::Write => disk.write(offset, payload, fua).await?,
            Command::Trim => disk.trim(offset, len, fua).await?,
            // NO_HOLE asks that room be kept for later writes: a bucket has room without that.
            Command::WriteZeroes => disk.write_zeroes(offset, len, fua).await?,
            Command::Flush => disk.flush().await?,
            Command::Disconnect | Command::Unknown(_) => {
                return Err(refuse(NbdError::Invalid, "this command has no reply"));
            }
        }
        Ok(reply(protocol::done(headers, about), Vec::new()))
    }

    async fn extents(&self, request: &Request) -> Result<Vec<ExtentStatus>, Failure> {
        let one = request.flags.has(CommandFlags::ONE_EXTENT);
        let limit = if one { 1 } else { EXTENTS_MAX };
        let extents = self.agreed.disk.extents(request.offset, request.len, limit).await?;
        let status =
            |extent: &weir_engine::DiskExtent| ExtentStatus { len: extent.len, hole: extent.hole };
        match extents.is_empty() {
            true => Err(refuse(NbdError::Io, "the disk shrank meanwhile")),
            false => Ok(extents.iter().map(status).collect()),
        }
    }

    /// The reply to a request that is refused or failed.
    pub(super) fn fail(&self, request: &Request, failure: Failure) -> Reply {
        self.count(request);
        self.counts.errors.fetch_add(1, Relaxed);
        if failure.log {
            self.log.failure(self.disk_name(), request, &failure.text);
        }
        let about = (request.cookie, request.offset);
        let (head, body) = protocol::error(self.headers(), about, failure.error, &failure.text);
        reply(head, vec![body.into()])
    }

    fn count(&self, request: &Request) {
        let counts = &self.counts;
        let count = match request.command {
            Command::Read => &counts.reads,
            Command::Write | Command::WriteZeroes => &counts.writes,
            Command::Trim => &counts.trims,
            Command::Flush => &counts.flushes,
            Command::BlockStatus | Command::Disconnect | Command::Unknown(_) => return,
        };
        count.fetch_add(1, Relaxed);
    }

    fn count_bytes(&self, request: &Request) {
        let bytes = match request.command {
            Command::Read => &self.counts.bytes_read,
            Command::Write => &self.counts.bytes_written,
            _ => return,
        };
        bytes.fetch_add(request.len, Relaxed);
    }
}

fn reply(head: protocol::Head, body: Vec<Bytes>) -> Reply {
    Reply { head, body, _held: Vec::new() }
}

/// Failures of the engine in the log, one line for many.
#[derive(Default)]
struct FailureLog {
    last: Mutex<Option<Instant>>,
    left_out: AtomicU64,
}

impl FailureLog {
    fn failure(&self, disk: &str, request: &Request, text: &str) {
        let now = Instant::now();
        let mut last = self.last.lock();
        if last.is_some_and(|last| now.duration_since(last) < LOG_EVERY) {
            self.left_out.fetch_add(1, Relaxed);
            return;
        }
        *last = Some(now);
        let left_out = self.left_out.swap(0, Relaxed);
        let Request { command, offset, len, .. } = request;
        tracing::warn!(disk, ?command, offset, len, left_out, "{text}");
    }
}
