//! The threads that serve a mount.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno as Failure;

use crate::abi::{MINOR_MIN, VERSION, init, op};
use crate::backing::Registrar;
use crate::bytes::{Input, Output};
use crate::control::{Agreed, Control};
use crate::device::Device;
use crate::interrupts::{Interrupted, Interrupts};
use crate::notify::Notifier;
use crate::readers::{Place, Readers};
use crate::reply::{Errno, Reply};
use crate::request::{Dialect, Operation, Request};
use crate::ring::{Rings, Running, Transport};

/// Room for what stands before the bytes of a write.
const HEAD_BYTES: usize = 8192;
/// Pages of the kernel's smallest kind.
const PAGE_BYTES: u32 = 4096;

/// What is always asked: how messages look.
const OWN_FLAGS: u64 = init::BIG_WRITES | init::MAX_PAGES | init::INIT_EXT | init::SETXATTR_EXT;

/// Serves requests. It must not wait: others of the same thread wait behind it. A request of which
/// the handling panics is answered EIO.
pub trait Handler: Send + Sync + 'static {
    /// Serves one request, or has it served. What was dropped without an answer gets EIO.
    fn handle(
        &self,
        request: Request,
        operation: Operation<'_>,
        interrupted: Interrupted,
        reply: Reply,
    );
}

/// What a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Abilities: of [`crate::init`].
    pub flags: u64,
    /// Bytes that it reads ahead at most.
    pub readahead_bytes: u32,
}

/// What is wanted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of the abilities that it has.
    pub flags: u64,
    /// Bytes to read ahead.
    pub readahead_bytes: u32,
    /// Bytes of the largest request.
    pub write_bytes: u32,
    /// Requests for which nobody waits, before it holds more back.
    pub background: u16,
    /// File systems below this one, with [`crate::init::PASSTHROUGH`].
    pub stack_depth: u32,
}

/// A mount that has shaken hands with the kernel.
#[derive(Debug)]
pub struct Session {
    device: Arc<Device>,
    agreed: Agreed,
    readers: Arc<Readers>,
    transport: Transport,
    rings: Option<Rings>,
}

impl Session {
    /// Shakes hands. With [`crate::init::OVER_IO_URING`] in the answer requests come over io_uring
    /// where kernel and machine let them: see [`Session::transport`].
    ///
    /// # Errors
    /// Those of the device; `Unsupported` for a kernel that is too old.
    pub fn begin(device: OwnedFd, choose: impl FnOnce(Offer) -> Answer) -> io::Result<Self> {
        let device = Arc::new(Device(device));
        let mut buffer = vec![0; HEAD_BYTES];
        let count = loop {
            match device.read(&mut buffer) {
                Err(Failure::INTR | Failure::AGAIN | Failure::NOENT) => {}
                done => break done?,
            }
        };
        let (unique, offer) = offered(&buffer[..count])?;
        let mut answer = choose(offer);
        // Before the answer: from then on the kernel waits for them.
        let (transport, rings) = match rings(&device, offer, answer) {
            Ok(rings) => (Transport::rings(), Some(rings)),
            Err(why) => (Transport::device(why), None),
        };
        if rings.is_none() {
            answer.flags &= !init::OVER_IO_URING;
        }
        device.send(unique, 0, &handshake(offer, answer))?;
        let agreed = Agreed {
            write_bytes: answer.write_bytes,
            setxattr_ext: offer.flags & init::SETXATTR_EXT != 0,
            resends: offer.flags & init::HAS_RESEND != 0,
        };
        Ok(Self { device, agreed, readers: Arc::default(), transport, rings })
    }

    /// Goes on with a mount that somebody else shook hands for, and served from `/dev/fuse`. No
    /// request that they read may be unanswered: see [`crate::Still::send_again`].
    pub fn resume(device: OwnedFd, agreed: Agreed) -> Self {
        let transport = Transport::device("not asked for");
        Self {
            device: Arc::new(Device(device)),
            agreed,
            readers: Arc::default(),
            transport,
            rings: None,
        }
    }

    /// Holds it still; `None` where requests come over io_uring.
    pub fn control(&self) -> Option<Control> {
        let control = Control {
            device: self.device.clone(),
            readers: self.readers.clone(),
            agreed: self.agreed,
        };
        self.rings.is_none().then_some(control)
    }

    /// Knows files that were registered with the kernel.
    pub fn registrar(&self) -> Registrar {
        Registrar(self.device.clone())
    }

    /// Tells the kernel what it did not ask.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.device.clone())
    }

    /// How requests come.
    pub fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// Serves with so many threads until it is unmounted, and with one more for each ring.
    ///
    /// # Errors
    /// Those of the device, once all threads have ended. Where threads cannot be started fewer serve.
    pub fn serve(self, handler: Arc<dyn Handler>, threads: usize) -> io::Result<()> {
        let dialect = Dialect { setxattr_ext: self.agreed.setxattr_ext };
        let readers = self.readers.clone();
        let server = Server { interrupts: Arc::default(), handler, dialect, readers };
        let of_rings = {
            let (server, device) = (server.clone(), self.device.clone());
            Arc::new(move |request: Request, body: Input<'_>, slot| {
                server.serve(request, body, Reply::of_ring(&device, request.unique, slot));
            })
        };
        let rings = self.rings.map(|rings| rings.start(&self.transport, &of_rings)).transpose()?;
        let buffer_bytes = self.agreed.write_bytes as usize + HEAD_BYTES;
        let served = server.read_all(&self.device, buffer_bytes, threads);
        // The kernel sends nothing more, or nobody reads it.
        let ended = rings.map_or(Ok(()), Running::end);
        served.and(ended)
    }
}

/// Makes rings, or says why not.
fn rings(device: &Arc<Device>, offer: Offer, answer: Answer) -> Result<Rings, String> {
    if answer.flags & init::OVER_IO_URING == 0 {
        return Err("not asked for".to_owned());
    }
    if offer.flags & init::OVER_IO_URING == 0 {
        return Err("the kernel does not offer it: it needs Linux 6.14, and Y in \
                    /sys/module/fuse/parameters/enable_uring"
            .to_owned());
    }
    Rings::new(device, answer.write_bytes, pages(answer.write_bytes))
        .map_err(|error| format!("io_uring cannot be used here: {error}"))
}

/// What all threads of a mount share.
#[derive(Clone)]
struct Server {
    interrupts: Arc<Interrupts>,
    handler: Arc<dyn Handler>,
    dialect: Dialect,
    readers: Arc<Readers>,
}

impl Server {
    /// Serves what comes from the device with so many threads, until it is unmounted.
    fn read_all(&self, device: &Arc<Device>, bytes: usize, threads: usize) -> io::Result<()> {
        let mut others: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        for _ in 1..threads {
            match self.start_reader(device, bytes) {
                Ok(thread) => others.push(thread),
                Err(error) => {
                    tracing::warn!(%error, serving = others.len() + 1, "fewer threads serve a mount");
                    break;
                }
            }
        }
        let mut served = self.read(device, bytes);
        for thread in others {
            let ended = thread.join().map_err(|_| io::Error::other("a thread panicked"));
            served = served.and(ended.flatten());
        }
        served
    }

    /// A thread with a channel of its own.
    fn start_reader(
        &self,
        device: &Device,
        bytes: usize,
    ) -> io::Result<JoinHandle<io::Result<()>>> {
        let (server, device) = (self.clone(), Arc::new(device.clone_channel()?));
        let thread = std::thread::Builder::new().name("weir-fuse".to_owned());
        thread.spawn(move || server.read(&device, bytes))
    }

    /// Serves what comes from a channel.
    fn read(&self, device: &Arc<Device>, bytes: usize) -> io::Result<()> {
        let tell =
            |error: &io::Error| tracing::error!(%error, "a thread that serves a mount ended");
        self.read_until_unmounted(device, bytes).inspect_err(tell)
    }

    fn read_until_unmounted(&self, device: &Arc<Device>, buffer_bytes: usize) -> io::Result<()> {
        let mut buffer = vec![0; buffer_bytes];
        let place = Place::take(&self.readers);
        while !place.is_over() {
            let count = match place.read(|| device.read(&mut buffer)) {
                Ok(count) => count,
                // A request that was taken back meanwhile is ENOENT.
                Err(Failure::INTR | Failure::AGAIN | Failure::NOENT) => continue,
                // Unmounted.
                Err(Failure::NODEV) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let Some((request, body)) = Request::parse(&buffer[..count]) else {
                return Err(io::Error::other("the kernel sent a message without a whole header"));
            };
            self.serve(request, body, Reply::new(device, request.unique));
        }
        Ok(())
    }

    fn serve(&self, request: Request, body: Input<'_>, reply: Reply) {
        match Operation::parse(self.dialect, request.opcode, body) {
            None => reply.error(Errno(libc::EIO)),
            Some(Operation::Forget) => reply.none(),
            Some(Operation::Interrupt { unique }) => {
                reply.none();
                self.interrupts.came(unique);
            }
            Some(Operation::Destroy) => reply.ok(),
            Some(Operation::Other) => reply.error(Errno(libc::ENOSYS)),
            Some(operation) => {
                let (interrupts, unique) = (self.interrupts.clone(), request.unique);
                let interrupted = match reply.is_of_ring() {
                    true => Interrupted::of_ring(interrupts, unique, request.pid),
                    false => Interrupted::new(interrupts, unique),
                };
                let serve = || self.handler.handle(request, operation, interrupted, reply);
                // Its reply went with it, as EIO; the mount has all its threads yet.
                if catch_unwind(AssertUnwindSafe(serve)).is_err() {
                    tracing::error!(opcode = request.opcode, "serving a request panicked");
                }
            }
        }
    }
}

/// The number of the first request, and what the kernel has.
pub(crate) fn offered(message: &[u8]) -> io::Result<(u64, Offer)> {
    let strange = || io::Error::other("the kernel does not begin with FUSE_INIT");
    let (request, mut input) = Request::parse(message).ok_or_else(strange)?;
    if request.opcode != op::INIT {
        return Err(strange());
    }
    let mut next = || input.u32().ok_or_else(strange);
    let (major, minor) = (next()?, next()?);
    if major != VERSION.0 || minor < MINOR_MIN {
        let text = format!("the kernel speaks FUSE {major}.{minor}: it needs 7.{MINOR_MIN}");
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let (readahead_bytes, mut flags) = (next()?, u64::from(next()?));
    if flags & init::INIT_EXT != 0 {
        flags |= u64::from(next()?) << 32;
    }
    Ok((request.unique, Offer { flags, readahead_bytes }))
}

/// Pages of the largest request.
fn pages(write_bytes: u32) -> u32 {
    write_bytes.div_ceil(PAGE_BYTES)
}

fn handshake(offer: Offer, answer: Answer) -> Vec<u8> {
    let flags = offer.flags & (answer.flags | OWN_FLAGS);
    let mut out = Output::default();
    out.u32(VERSION.0).u32(VERSION.1);
    out.u32(answer.readahead_bytes.min(offer.readahead_bytes)).u32(flags as u32);
    // From three quarters on it is said to be congested, as the kernel's own default is.
    out.u16(answer.background).u16(answer.background / 4 * 3);
    out.u32(answer.write_bytes).u32(1).u16(pages(answer.write_bytes) as u16).u16(0);
    out.u32((flags >> 32) as u32).u32(answer.stack_depth).zeros(24);
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Answer = Answer {
        flags: init::ASYNC_READ | init::PASSTHROUGH,
        readahead_bytes: 1 << 20,
        write_bytes: 1 << 20,
        background: 256,
        stack_depth: 1,
    };

    #[test]
    fn only_what_the_kernel_has_is_asked_of_it() {
        let offer = Offer { flags: init::ASYNC_READ | init::MAX_PAGES, readahead_bytes: 4096 };
        let out = handshake(offer, ANSWER);
        assert_eq!(out.len(), 64);
        assert_eq!(out[8..12], 4096_u32.to_ne_bytes());
        assert_eq!(out[12..16], ((init::ASYNC_READ | init::MAX_PAGES) as u32).to_ne_bytes());
        assert_eq!(out[28..30], 256_u16.to_ne_bytes(), "pages of a MiB");
        assert_eq!(out[32..36], [0; 4]);
    }

    #[test]
    fn an_old_kernel_is_told_what_is_missing() {
        let mut out = Output::default();
        out.u32(56).u32(op::INIT).u64(2).zeros(24).u32(7).u32(12).u32(0).u32(0);
        let error = offered(&out.0).expect_err("too old");
        assert!(error.to_string().contains("7.12"), "{error}");
    }
}
