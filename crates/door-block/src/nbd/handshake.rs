//! The handshake: options of a client are answered until one of them names the disk that it goes on
//! with.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use weir_engine::{Disk, DiskCache, Engine};
use weir_types::{Bytes, ErrorKind, FsError};

use super::protocol::{
    ClientFlags, ClientOption, Headers, Info, InfoRequest, MetaQuery, OPTION_HEADER_BYTES,
    OptionAnswer, OptionHeader, PAYLOAD_BYTES_MAX, Refusal, export_name_answer, greeting, option,
};
use super::session::{Agreed, flags};

/// Options of one connection; more than any client has a use for.
const OPTIONS_MAX: usize = 1_000;
/// Data of one option, in bytes.
const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Data of a refused option that are read past; more ends the connection.
const SKIP_BYTES_MAX: u32 = 16 << 20;
/// What clients do best in, where the tier takes parts of records.
const PAGE_BYTES: u64 = 4096;

/// How a connection stands to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// There is none.
    Absent,
    /// Nothing but TLS can begin.
    Required,
    /// This is inside of it.
    Within,
}

/// How a handshake ended.
pub(super) enum Negotiated {
    /// Transmission begins.
    Go(Agreed),
    /// TLS begins, and in it a handshake that knows nothing of this one.
    StartTls(ClientFlags),
    /// The client wants no more.
    Ended,
}

/// One handshake.
pub(super) struct Handshake<'a, S> {
    stream: &'a mut S,
    engine: &'a Arc<Engine>,
    client: ClientFlags,
    tls: Tls,
    read_only: bool,
    headers: Headers,
    /// The export of which the one metadata context was chosen, by the name that the client used.
    context_of: Option<String>,
}

fn refused(why: Refusal, text: &str) -> OptionAnswer<'_> {
    OptionAnswer::Refused(why, text)
}

/// Greets a client that has just connected.
pub(super) async fn greet<S>(stream: &mut S) -> io::Result<ClientFlags>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(&greeting()).await?;
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await?;
    ClientFlags::decode(bytes).ok_or_else(|| io::Error::other("it sent flags that are unknown"))
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Handshake<'a, S> {
    pub(super) fn new(
        stream: &'a mut S,
        engine: &'a Arc<Engine>,
        client: ClientFlags,
        tls: Tls,
        read_only: bool,
    ) -> Self {
        let (headers, context_of) = (Headers::Simple, None);
        Self { stream, engine, client, tls, read_only, headers, context_of }
    }

    /// Answers options. An error is what the client did wrong, or what became of it.
    pub(super) async fn run(mut self) -> io::Result<Negotiated> {
        for _ in 0..OPTIONS_MAX {
            let mut header = [0; OPTION_HEADER_BYTES];
            self.stream.read_exact(&mut header).await?;
            let header = OptionHeader::decode(&header)
                .ok_or_else(|| io::Error::other("it sent what is no option"))?;
            if header.data_bytes > OPTION_BYTES_MAX {
                self.skip(header).await?;
                continue;
            }
            let mut data = vec![0; header.data_bytes as usize];
            self.stream.read_exact(&mut data).await?;
            let decoded = ClientOption::decode(header.number, &data);
            let needs_tls = self.tls == Tls::Required
                && !matches!(header.number, option::ABORT | option::STARTTLS);
            let outcome = match decoded {
                _ if needs_tls && header.number == option::EXPORT_NAME => {
                    return Err(io::Error::other("it named a disk before TLS"));
                }
                _ if needs_tls => {
                    let text = "this server talks TLS only: begin with STARTTLS";
                    self.answer(header.number, &[refused(Refusal::TlsRequired, text)]).await?
                }
                Err(why) if header.number == option::EXPORT_NAME => {
                    return Err(io::Error::other(why.0));
                }
                Err(why) => {
                    if header.number == option::SET_META_CONTEXT {
                        self.context_of = None;
                    }
                    self.answer(header.number, &[refused(Refusal::Invalid, why.0)]).await?
                }
                Ok(option) => self.take(header.number, option).await?,
            };
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
        Err(io::Error::other(format!("it sent {OPTIONS_MAX} options and named no disk")))
    }

    /// Refuses an option with more data than any has a use for.
    async fn skip(&mut self, header: OptionHeader) -> io::Result<()> {
        let len = header.data_bytes;
        if len > SKIP_BYTES_MAX || header.number == option::EXPORT_NAME {
            return Err(io::Error::other(format!("it sent an option of {len} bytes")));
        }
        let mut data = (&mut *self.stream).take(u64::from(len));
        tokio::io::copy(&mut data, &mut tokio::io::sink()).await?;
        let text = format!("{len} bytes of data: the most is {OPTION_BYTES_MAX}");
        self.answer(header.number, &[refused(Refusal::TooBig, &text)]).await.map(drop)
    }

    async fn answer(
        &mut self,
        number: u32,
        answers: &[OptionAnswer<'_>],
    ) -> io::Result<Option<Negotiated>> {
        let mut bytes = Vec::new();
        for answer in answers {
            answer.encode(number, &mut bytes);
        }
        self.send(&bytes).await.map(|()| None)
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    async fn take(&mut self, number: u32, option: ClientOption) -> io::Result<Option<Negotiated>> {
        match option {
            ClientOption::ExportName(name) => self.export_name(&name).await,
            ClientOption::Abort => {
                // Many clients do not wait for the answer.
                let _ = self.answer(number, &[OptionAnswer::Ack]).await;
                Ok(Some(Negotiated::Ended))
            }
            ClientOption::List => self.list(number).await,
            ClientOption::StartTls => self.start_tls(number).await,
            ClientOption::Info(request) => {
                self.info(number, &request).await?;
                Ok(None)
            }
            ClientOption::Go(request) => match self.info(number, &request).await? {
                Some(disk) => Ok(Some(Negotiated::Go(self.agree(disk, &request.name)))),
                None => Ok(None),
            },
            ClientOption::StructuredReply => self.structured_reply(number).await,
            ClientOption::ExtendedHeaders => {
                self.headers = Headers::Extended;
                self.answer(number, &[OptionAnswer::Ack]).await
            }
            ClientOption::ListMetaContext(query) => self.list_contexts(number, &query).await,
            ClientOption::SetMetaContext(query) => self.set_contexts(number, query).await,
            ClientOption::Unknown => {
                let text = "this server does not know that option";
                self.answer(number, &[refused(Refusal::Unsupported, text)]).await
            }
        }
    }

    async fn export_name(&mut self, name: &str) -> io::Result<Option<Negotiated>> {
        let disk = open(self.engine, name).await.map_err(io::Error::other)?;
        let flags = flags(&disk, self.read_only, self.headers);
        let answer = export_name_answer(disk.size_bytes(), flags, self.client);
        self.send(&answer).await?;
        Ok(Some(Negotiated::Go(self.agree(disk, name))))
    }

    fn agree(&self, disk: Disk, name: &str) -> Agreed {
        let block_status = self.context_of.as_deref() == Some(name);
        Agreed { disk, headers: self.headers, block_status, read_only: self.read_only }
    }

    async fn list(&mut self, number: u32) -> io::Result<Option<Negotiated>> {
        match self.engine.disks().await {
            Ok(disks) => {
                let names = disks.iter().map(|disk| OptionAnswer::Server(&disk.name));
                let answers: Vec<_> = names.chain([OptionAnswer::Ack]).collect();
                self.answer(number, &answers).await
            }
            Err(error) => self.cannot(number, &error).await,
        }
    }

    /// Refuses an option because of the volume, or because of what it names in it.
    async fn cannot(&mut self, number: u32, error: &FsError) -> io::Result<Option<Negotiated>> {
        if error.kind() != ErrorKind::NotFound {
            tracing::warn!("a disk cannot be served: {error}");
        }
        self.answer(number, &[refused(Refusal::Unknown, &error.to_string())]).await
    }

    async fn start_tls(&mut self, number: u32) -> io::Result<Option<Negotiated>> {
        let (why, text) = match self.tls {
            Tls::Required => {
                self.answer(number, &[OptionAnswer::Ack]).await?;
                return Ok(Some(Negotiated::StartTls(self.client)));
            }
            Tls::Within => (Refusal::Invalid, "TLS has begun already"),
            Tls::Absent => (Refusal::Policy, "there is no TLS here: the server has no certificate"),
        };
        self.answer(number, &[refused(why, text)]).await
    }

    /// Tells about a disk and answers it, or refuses.
    async fn info(&mut self, number: u32, request: &InfoRequest) -> io::Result<Option<Disk>> {
        let disk = match open(self.engine, &request.name).await {
            Ok(disk) => disk,
            Err(error) => {
                self.cannot(number, &error).await?;
                return Ok(None);
            }
        };
        let flags = flags(&disk, self.read_only, self.headers);
        let (name, description) = (disk.name().to_owned(), description(&disk));
        let mut answers = vec![OptionAnswer::Info(Info::Export(disk.size_bytes(), flags))];
        let asked = |what| request.wanted.contains(&what);
        if asked(Info::NAME) {
            answers.push(OptionAnswer::Info(Info::Name(&name)));
        }
        if asked(Info::DESCRIPTION) {
            answers.push(OptionAnswer::Info(Info::Description(&description)));
        }
        if asked(Info::BLOCK_SIZE) {
            let (best, most) = (best_bytes(&disk) as u32, PAYLOAD_BYTES_MAX as u32);
            answers.push(OptionAnswer::Info(Info::BlockSize(1, best, most)));
        }
        answers.push(OptionAnswer::Ack);
        self.answer(number, &answers).await?;
        Ok(Some(disk))
    }

    async fn structured_reply(&mut self, number: u32) -> io::Result<Option<Negotiated>> {
        if self.headers == Headers::Extended {
            let text = "extended headers were agreed on: replies are structured with them";
            return self.answer(number, &[refused(Refusal::ExtendedHeaders, text)]).await;
        }
        self.headers = Headers::Structured;
        self.answer(number, &[OptionAnswer::Ack]).await
    }

    async fn list_contexts(
        &mut self,
        number: u32,
        query: &MetaQuery,
    ) -> io::Result<Option<Negotiated>> {
        let listed = query.lists().then_some(OptionAnswer::MetaContext { chosen: false });
        self.contexts(number, &query.name, listed).await.map(|_| None)
    }

    async fn set_contexts(
        &mut self,
        number: u32,
        query: MetaQuery,
    ) -> io::Result<Option<Negotiated>> {
        self.context_of = None;
        let chosen = query.selects().then_some(OptionAnswer::MetaContext { chosen: true });
        if self.contexts(number, &query.name, chosen).await? && chosen.is_some() {
            self.context_of = Some(query.name);
        }
        Ok(None)
    }

    /// Answers with a context or none; `false` if it is refused instead.
    async fn contexts(
        &mut self,
        number: u32,
        name: &str,
        context: Option<OptionAnswer<'_>>,
    ) -> io::Result<bool> {
        if self.headers == Headers::Simple {
            let text = "metadata contexts need structured replies: ask for these first";
            self.answer(number, &[refused(Refusal::Invalid, text)]).await?;
            return Ok(false);
        }
        if let Err(error) = open(self.engine, name).await {
            self.cannot(number, &error).await?;
            return Ok(false);
        }
        let answers: Vec<_> = context.into_iter().chain([OptionAnswer::Ack]).collect();
        self.answer(number, &answers).await?;
        Ok(true)
    }
}

/// The disk of this name. No name is that of the only disk, where there is one only.
async fn open(engine: &Engine, name: &str) -> Result<Disk, FsError> {
    if name.is_empty() {
        let mut disks = engine.disks().await?;
        disks.retain(|disk| !disk.read_only);
        return match &disks[..] {
            [only] => engine.open_disk(&only.name).await,
            _ => {
                let text = format!(
                    "no disk was named, and there are {}: `weir disk list` shows their names",
                    disks.len()
                );
                Err(FsError::new(ErrorKind::NotFound, text))
            }
        };
    }
    engine.open_disk(name).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let text = format!(
                "there is no disk `{}`: `weir disk list` shows those that there are",
                name.escape_debug()
            );
            FsError::new(ErrorKind::NotFound, text)
        }
        _ => error,
    })
}

fn description(disk: &Disk) -> String {
    let what = if disk.read_only() { "read-only disk" } else { "disk" };
    format!("{what} of {} in records of {}", Bytes(disk.size_bytes()), Bytes(disk.record_bytes()))
}

/// Requests of this many bytes, aligned, cost nothing besides.
fn best_bytes(disk: &Disk) -> u64 {
    match disk.cache() {
        DiskCache::None => disk.record_bytes().clamp(PAGE_BYTES, PAYLOAD_BYTES_MAX),
        DiskCache::Tier => PAGE_BYTES,
    }
}
