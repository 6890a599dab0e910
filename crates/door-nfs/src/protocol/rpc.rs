//! Remote procedure calls (RFC 5531): what is around a request and its answer.

use bytes::Bytes;

use super::numbers::callback;
use super::xdr::{BadXdr, Reader, Writer, Xdr};

const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
const NFS_PROGRAM: u32 = 100_003;
const NFS_VERSION: u32 = 4;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
/// A credential's bytes, and a verifier's.
const AUTH_BYTES_MAX: usize = 400;
/// What a server of RFC 9289 says to who probes it.
const STARTTLS: &[u8] = b"STARTTLS";
/// Groups that `AUTH_SYS` has room for.
pub(crate) const SYS_GROUPS_MAX: usize = 16;

const FLAVOR_NONE: u32 = 0;
const FLAVOR_SYS: u32 = 1;
const FLAVOR_GSS: u32 = 6;
const FLAVOR_TLS: u32 = 7;
/// Ways in which a client may be called.
const SECURITIES_MAX: usize = 8;

/// Who a call says that it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    None,
    Sys { uid: u32, gid: u32, groups: Vec<u32> },
}

/// What came.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// Procedure 0, which does nothing.
    Null { xid: u32 },
    /// The same, from who asks whether TLS can begin.
    ProbeTls { xid: u32 },
    /// Procedure 1, with what is behind the envelope.
    Compound { xid: u32, credential: Credential, arguments: Reader },
    /// No call: what a client answers to one of ours, after the head of an answer.
    Answer { xid: u32, answer: Reader },
    /// What gets this answer and no more.
    Refused { reply: Bytes },
}

/// Takes a record apart. `BadXdr` if it is no call at all: the connection is of no use then.
pub(crate) fn call(record: Bytes) -> Xdr<Call> {
    let mut input = Reader::new(record);
    let xid = input.u32()?;
    match input.u32()? {
        CALL => {}
        REPLY => return Ok(Call::Answer { xid, answer: input }),
        _ => return Err(BadXdr),
    }
    if input.u32()? != RPC_VERSION {
        return Ok(Call::Refused { reply: denied(xid, &[0, RPC_VERSION, RPC_VERSION]) });
    }
    let (program, version, procedure) = (input.u32()?, input.u32()?, input.u32()?);
    let (flavor, body) = (input.u32()?, input.opaque(AUTH_BYTES_MAX)?);
    let (_, _) = (input.u32()?, input.opaque(AUTH_BYTES_MAX)?);
    if program != NFS_PROGRAM {
        return Ok(Call::Refused { reply: accepted(xid, &[PROGRAM_UNAVAILABLE]) });
    }
    if version != NFS_VERSION {
        let reply = accepted(xid, &[PROGRAM_MISMATCH, NFS_VERSION, NFS_VERSION]);
        return Ok(Call::Refused { reply });
    }
    let credential = match (flavor, procedure) {
        (FLAVOR_TLS, 0) => return Ok(Call::ProbeTls { xid }),
        (_, 0) => return Ok(Call::Null { xid }),
        (FLAVOR_NONE, _) => Credential::None,
        (FLAVOR_SYS, _) => match sys(body) {
            Ok(credential) => credential,
            Err(BadXdr) => {
                return Ok(Call::Refused { reply: denied(xid, &[AUTH_ERROR, BAD_CREDENTIAL]) });
            }
        },
        _ => return Ok(Call::Refused { reply: denied(xid, &[AUTH_ERROR, TOO_WEAK]) }),
    };
    match procedure {
        1 => Ok(Call::Compound { xid, credential, arguments: input }),
        _ => Ok(Call::Refused { reply: accepted(xid, &[PROCEDURE_UNAVAILABLE]) }),
    }
}

const SUCCESS: u32 = 0;
const PROGRAM_UNAVAILABLE: u32 = 1;
const PROGRAM_MISMATCH: u32 = 2;
const PROCEDURE_UNAVAILABLE: u32 = 3;
const GARBAGE: u32 = 4;
const AUTH_ERROR: u32 = 1;
const BAD_CREDENTIAL: u32 = 1;
const TOO_WEAK: u32 = 5;

fn sys(body: Bytes) -> Xdr<Credential> {
    let mut input = Reader::new(body);
    input.u32()?;
    input.opaque(255)?;
    let (uid, gid) = (input.u32()?, input.u32()?);
    let groups = input.list(SYS_GROUPS_MAX, Reader::u32)?;
    match input.remaining() {
        0 => Ok(Credential::Sys { uid, gid, groups }),
        _ => Err(BadXdr),
    }
}

/// An answer to which nothing is added.
fn accepted(xid: u32, words: &[u32]) -> Bytes {
    all(&[&[xid, REPLY, ACCEPTED, FLAVOR_NONE, 0], words])
}

fn denied(xid: u32, words: &[u32]) -> Bytes {
    all(&[&[xid, REPLY, DENIED], words])
}

fn all(words: &[&[u32]]) -> Bytes {
    words.concat().into_iter().flat_map(u32::to_be_bytes).collect()
}

/// The answer to a procedure that did what it should; the result follows.
pub(crate) fn success(xid: u32) -> Bytes {
    accepted(xid, &[SUCCESS])
}

/// The answer to arguments that are none.
pub(crate) fn garbage(xid: u32) -> Bytes {
    accepted(xid, &[GARBAGE])
}

/// The answer to who asks whether TLS can begin: it can, now.
pub(crate) fn start_tls(xid: u32) -> Bytes {
    let mut out = Writer::default();
    for word in [xid, REPLY, ACCEPTED, FLAVOR_NONE] {
        out.u32(word);
    }
    out.opaque(STARTTLS);
    out.u32(SUCCESS);
    out.finish().concat().into()
}

/// The answer to who asks for TLS where there is none.
pub(crate) fn no_tls(xid: u32) -> Bytes {
    denied(xid, &[AUTH_ERROR, TOO_WEAK])
}

/// Who a client wants to be called by (`callback_sec_parms4`).
#[derive(Clone, Debug)]
pub(crate) enum Security {
    None,
    /// The body of the credential.
    Sys(Bytes),
}

/// Of those that a client would take, the first that there is here.
pub(crate) fn read_securities(input: &mut Reader) -> Xdr<Option<Security>> {
    let all = input.list(SECURITIES_MAX, read_security)?;
    Ok(all.into_iter().flatten().next())
}

fn read_security(input: &mut Reader) -> Xdr<Option<Security>> {
    match input.u32()? {
        FLAVOR_NONE => Ok(Some(Security::None)),
        FLAVOR_SYS => {
            let mut body = Writer::default();
            body.u32(input.u32()?);
            body.opaque(&input.opaque(255)?);
            body.u32(input.u32()?);
            body.u32(input.u32()?);
            let groups = input.list(SYS_GROUPS_MAX, Reader::u32)?;
            body.u32(groups.len() as u32);
            groups.into_iter().for_each(|group| body.u32(group));
            Ok(Some(Security::Sys(body.finish().concat().into())))
        }
        FLAVOR_GSS => {
            input.u32()?;
            input.opaque(AUTH_BYTES_MAX)?;
            input.opaque(AUTH_BYTES_MAX)?;
            Ok(None)
        }
        _ => Err(BadXdr),
    }
}

/// The head of a call to a client; the `CB_COMPOUND4args` follow.
pub(crate) fn callback(xid: u32, program: u32, security: &Security) -> Writer {
    const COMPOUND: u32 = 1;
    let mut out = Writer::default();
    for word in [xid, CALL, RPC_VERSION, program, callback::VERSION, COMPOUND] {
        out.u32(word);
    }
    let (flavor, body) = match security {
        Security::None => (FLAVOR_NONE, &[][..]),
        Security::Sys(body) => (FLAVOR_SYS, &body[..]),
    };
    out.u32(flavor);
    out.opaque(body);
    out.u32(FLAVOR_NONE);
    out.opaque(b"");
    out
}

/// What a client answered, if it did what it was asked.
pub(crate) fn result(mut answer: Reader) -> Xdr<Reader> {
    let accepted = answer.u32()? == ACCEPTED;
    let (_flavor, _body) = (answer.u32()?, answer.opaque(AUTH_BYTES_MAX)?);
    match accepted && answer.u32()? == SUCCESS {
        true => Ok(answer),
        false => Err(BadXdr),
    }
}
