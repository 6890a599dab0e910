//! Tells errors of the library below apart: what to try again, and what to tell people.

use std::error::Error as StdError;
use std::io;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use weir_types::{ErrorCode, ErrorKind, FsError};

/// What an error means, found once from its whole chain of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) kind: ErrorKind,
    /// The same request may be answered better in a moment.
    pub(crate) transient: bool,
    /// What people can do about it.
    pub(crate) advice: &'static str,
}

const AWAY: &str = "the store is away or overloaded: check the endpoint and the network, \
                    or allow more time";
const NOBODY: &str = "nothing listens at this address: check the endpoint, or start the server";
const KEYS: &str = "check the access keys and what they allow on this bucket";
const REGION: &str = "the bucket is in another region: set the region";

const ARCHIVED: &str = "the object is in an archive class (GLACIER, DEEP_ARCHIVE) and cannot be read: \
                        `weir hydrate --restore standard` has it restored, which takes hours and is paid for";

const SHORT: &str = "the object is shorter than it should be";

/// Nobody gives keys.
#[derive(Debug)]
pub(crate) struct NoKeys {
    /// Who was asked, why there are none, and what to do.
    pub(crate) why: String,
    /// They gave some before.
    pub(crate) transient: bool,
}

impl std::fmt::Display for NoKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl StdError for NoKeys {}

/// Keys are there, and the bucket refuses them.
#[derive(Debug)]
struct Refused {
    /// Without the answer's XML, which the cause has.
    told: String,
    cause: Error,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.told)
    }
}

impl StdError for Refused {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.cause)
    }
}

/// An error that says that keys were refused tells `whose`; any other stays as it is.
pub(crate) fn refused(error: Error, whose: impl FnOnce() -> String) -> Error {
    if judge(&error).kind != ErrorKind::Permission || find::<NoKeys>(&error).is_some() {
        return error;
    }
    let status = http_status(&error).map(|status| format!("HTTP {status}"));
    let why = answered(&chain(&error)).or(status).unwrap_or_else(|| "not allowed".to_owned());
    let told = format!("{} ({why})", whose());
    let source = Box::new(Refused { told, cause: error });
    Error::PermissionDenied { path: String::new(), source }
}

/// What `error` means and what follows from it.
pub(crate) fn judge(error: &Error) -> Verdict {
    let is = |kind, advice| Verdict { kind, transient: false, advice };
    let again = Verdict { kind: ErrorKind::Retry, transient: true, advice: AWAY };
    if let Some(none) = find::<NoKeys>(error) {
        return if none.transient { again } else { is(ErrorKind::Permission, KEYS) };
    }
    match error {
        // Not `NotFound`, which says that an object is gone: nobody knows of any.
        _ if is_no_bucket(error) => {
            is(ErrorKind::Retry, "there is no such bucket: make it or correct the URL")
        }
        // Nobody's keys are wrong: no key reads it.
        _ if mentions(error, &["InvalidObjectState"]) => is(ErrorKind::Unsupported, ARCHIVED),
        // One server says 404 to a key that it does not know.
        _ if mentions(error, &["XAdminUserNotFound"]) => is(ErrorKind::Permission, KEYS),
        // Amazon answers 409 to one of two conditional writes in flight at once and asks to repeat
        // it; the library takes every 409 for "exists".
        Error::AlreadyExists { .. } if mentions(error, &["ConditionalRequestConflict"]) => again,
        Error::AlreadyExists { .. } if mentions(error, &["OperationAborted"]) => again,
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            is(ErrorKind::Conflict, "somebody else changed the object: read it again")
        }
        Error::NotFound { .. } => is(ErrorKind::NotFound, "there is no such object"),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            is(ErrorKind::Permission, KEYS)
        }
        Error::InvalidPath { .. } | Error::UnknownConfigurationKey { .. } => {
            is(ErrorKind::Invalid, "correct the name")
        }
        Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            is(ErrorKind::Unsupported, "this store cannot do it: use another")
        }
        other => judge_cause(other),
    }
}

/// The verdict of the first cause in the chain that tells something.
fn judge_cause(error: &Error) -> Verdict {
    let is = |kind, advice| Verdict { kind, transient: false, advice };
    let again = Verdict { kind: ErrorKind::Retry, transient: true, advice: AWAY };
    if let Some(status) = http_status(error) {
        return match status {
            408 | 429 | 500 | 502..=599 | 200..=299 => again,
            300..=399 => is(ErrorKind::Invalid, REGION),
            400 if mentions(error, &["AccessKey", "Token", "Credential"]) => {
                is(ErrorKind::Permission, KEYS)
            }
            400 if mentions(error, &["AuthorizationHeaderMalformed"]) => {
                is(ErrorKind::Invalid, REGION)
            }
            400 if mentions(error, &["RequestTimeout", "RequestTimeTooSkewed"]) => again,
            401 | 403 => is(ErrorKind::Permission, KEYS),
            404 => is(ErrorKind::NotFound, "there is no such object"),
            416 => is(ErrorKind::Corrupt, SHORT),
            501 => is(ErrorKind::Unsupported, "this store cannot do it: use another"),
            _ => is(ErrorKind::Invalid, "the store refuses the request"),
        };
    }
    if mentions(error, &["redirect without LOCATION"]) {
        return is(ErrorKind::Invalid, REGION);
    }
    if let Some(error) = find::<HttpError>(error) {
        return match error.kind() {
            _ if is_refused_connection(error) => Verdict { advice: NOBODY, ..again },
            HttpErrorKind::Connect if mentions(error, &["URL scheme is not allowed"]) => {
                is(ErrorKind::Invalid, "correct the endpoint")
            }
            _ => again,
        };
    }
    if let Some(error) = find::<io::Error>(error) {
        return match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                is(ErrorKind::NoSpace, "the disk is full: make room")
            }
            io::ErrorKind::PermissionDenied => {
                is(ErrorKind::Permission, "check owner and mode of the directory")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                is(ErrorKind::ReadOnly, "the file system below is read-only")
            }
            io::ErrorKind::NotFound => is(ErrorKind::NotFound, "there is no such directory"),
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                is(ErrorKind::Invalid, "something of another kind has this name, or one above it")
            }
            io::ErrorKind::InvalidFilename => {
                is(ErrorKind::Invalid, "the key is too long for a file name")
            }
            _ => again,
        };
    }
    // Asking past the end has an error type that the library keeps to itself.
    if mentions(error, &["nvalid range", "range was invalid", "start too large"]) {
        return is(ErrorKind::Corrupt, SHORT);
    }
    is(ErrorKind::Retry, AWAY)
}

/// Whether a machine is there that takes no connection: no server runs.
pub(crate) fn is_refused_connection(error: &(dyn StdError + 'static)) -> bool {
    let refused = find::<io::Error>(error);
    refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Whether it is the bucket that is not there.
pub(crate) fn is_no_bucket(error: &Error) -> bool {
    mentions(error, &["NoSuchBucket"])
}

/// Whether an answer "not found" leaves open what was not found: one to a HEAD has no body.
pub(crate) fn may_be_no_bucket(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. }) && !mentions(error, &["NoSuchKey", "NoSuchBucket"])
}

/// The error for a bucket that is not there.
pub(crate) fn no_bucket() -> Error {
    Error::Generic { store: "S3", source: "NoSuchBucket".into() }
}

/// The error as people and callers see it: `what` failed, why, and what to do.
pub(crate) fn tell(what: &str, error: Error) -> FsError {
    let verdict = judge(&error);
    let why = match (find::<NoKeys>(&error), find::<Refused>(&error)) {
        // It says what to do.
        (Some(none), _) => none.to_string(),
        (None, Some(refused)) => format!("{refused}; {}", verdict.advice),
        (None, None) if verdict.advice == NOBODY => {
            let (text, at) = (chain(&error), "://");
            let place =
                text.split_once(at).and_then(|(_, rest)| rest.split(['/', ' ', '?']).next());
            format!("connection refused by {}; {NOBODY}", place.unwrap_or("the server"))
        }
        (None, None) => format!("{}; {}", without_xml(&chain(&error)), verdict.advice),
    };
    let told = FsError::new(verdict.kind, format!("{what}: {why}"));
    let told = match code_of(&verdict, &error) {
        Some(code) => told.coded(code),
        None => told,
    };
    told.with_source(error)
}

fn code_of(verdict: &Verdict, error: &Error) -> Option<ErrorCode> {
    match verdict.advice {
        _ if find::<NoKeys>(error).is_some() => Some(ErrorCode::CredentialsMissing),
        _ if is_no_bucket(error) => Some(ErrorCode::BucketMissing),
        KEYS => Some(ErrorCode::BucketDenied),
        AWAY | NOBODY | REGION => Some(ErrorCode::BucketAway),
        ARCHIVED => Some(ErrorCode::Archived),
        _ => None,
    }
}

/// The error in one line, for who is told of many.
pub(crate) fn brief(error: &Error) -> String {
    match (find::<NoKeys>(error), find::<Refused>(error)) {
        (Some(none), _) => none.to_string(),
        (None, Some(refused)) => refused.to_string(),
        (None, None) => error.to_string(),
    }
}

/// A transient error of our own making: no answer in time, or a body cut short.
pub(crate) fn broken(kind: io::ErrorKind, message: String) -> Error {
    Error::Generic { store: "weir", source: Box::new(io::Error::new(kind, message)) }
}

/// What the server's answer, in XML, says: its code and its message.
fn answered(text: &str) -> Option<String> {
    let within = |tag: &str| {
        let after = text.split_once(&format!("<{tag}>"))?.1;
        Some(after.split_once('<')?.0.trim()).filter(|inner| !inner.is_empty())
    };
    let code = within("Code")?;
    let message = within("Message").map(|message| message.trim_end_matches('.'));
    Some(message.map_or_else(|| code.to_owned(), |message| format!("{code}: {message}")))
}

/// `text` with what the XML in it says in its place.
fn without_xml(text: &str) -> String {
    let start = text.find("<?xml").or_else(|| text.find("<Error>"));
    match (start, text.split_once("</Error>"), answered(text)) {
        (Some(start), Some((_, rest)), Some(answered)) => {
            format!("{}{answered}{rest}", &text[..start])
        }
        _ => text.to_owned(),
    }
}

/// The texts of all causes, each told once.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn mentions(error: &(dyn StdError + 'static), words: &[&str]) -> bool {
    let text = chain(error);
    words.iter().any(|word| text.contains(word))
}

/// The HTTP status in the error's text: the library keeps its type to itself.
fn http_status(error: &Error) -> Option<u16> {
    let text = chain(error);
    let at = text.find("status code: ")? + "status code: ".len();
    text.get(at..at + 3)?.parse().ok()
}

fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_from_the_text() {
        for (text, kind, transient) in [
            ("status code: 503 Service Unavailable: SlowDown", ErrorKind::Retry, true),
            ("status code: 429 Too Many Requests: ", ErrorKind::Retry, true),
            ("status code: 416 Range Not Satisfiable: ", ErrorKind::Corrupt, false),
            ("status code: 301 Moved Permanently: ", ErrorKind::Invalid, false),
            ("status code: 400 Bad Request: ExpiredToken", ErrorKind::Permission, false),
            ("status code: 501 Not Implemented: ", ErrorKind::Unsupported, false),
        ] {
            let source = format!("Error performing PUT: Server returned non-2xx {text}").into();
            let verdict = judge(&Error::Generic { store: "S3", source });
            assert_eq!((verdict.kind, verdict.transient), (kind, transient), "{text}");
        }
    }

    #[test]
    fn what_is_archived_is_not_denied() {
        let text = "status code: 403 Forbidden: <Code>InvalidObjectState</Code><Message>The operation is not valid \
                    for the object's storage class</Message>";
        let error = || Error::PermissionDenied { path: "key".to_owned(), source: text.into() };
        let verdict = judge(&error());
        assert_eq!((verdict.kind, verdict.transient), (ErrorKind::Unsupported, false));
        assert!(verdict.advice.contains("weir hydrate --restore"));
        assert_eq!(tell("GET", error()).code(), Some(ErrorCode::Archived));
        assert!(
            refused(error(), || "somebody".to_owned()).to_string().contains("InvalidObjectState")
        );
    }

    #[test]
    fn local_errors_keep_their_meaning() {
        for (io, kind, transient) in [
            (io::ErrorKind::StorageFull, ErrorKind::NoSpace, false),
            (io::ErrorKind::PermissionDenied, ErrorKind::Permission, false),
            (io::ErrorKind::NotADirectory, ErrorKind::Invalid, false),
            (io::ErrorKind::UnexpectedEof, ErrorKind::Retry, true),
        ] {
            let verdict = judge(&broken(io, "x".to_owned()));
            assert_eq!((verdict.kind, verdict.transient), (kind, transient), "{io}");
        }
    }
}
