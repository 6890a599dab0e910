//! What PostgreSQL's errors mean to the file system.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};
use weir_types::{ErrorKind, FsError};

use super::tls::TlsError;

/// What went wrong, by what the engine does next.
#[derive(Debug)]
pub(super) enum Failed {
    /// Nothing was done, and it will not be otherwise: for the caller.
    Final(FsError),
    /// Nothing was done; trying again may do it.
    Again(FsError),
    /// The connection is of no use any more. Whether something was done is not known.
    Lost(FsError),
}

impl Failed {
    pub(super) fn into_error(self) -> FsError {
        match self {
            Failed::Final(error) | Failed::Again(error) | Failed::Lost(error) => error,
        }
    }
}

/// What an error comes to that was met while trying to do `what`.
pub(super) fn failed(what: &str, error: Error) -> Failed {
    use ErrorKind as K;
    let Some(db) = error.as_db_error() else {
        return without_an_answer(what, error);
    };
    let code = db.code();
    let told = db.message();
    // A server that ends, or that ended this connection.
    let lost = !is_error(db) || code.code().starts_with("08");
    let (kind, advice) = match code.code() {
        "40001" | "40P01" => (K::Retry, "others were faster again and again; try again"),
        "57014" | "55P03" | "25P03" => (
            K::Retry,
            "the server did not get to it in time: see what holds locks or keeps it busy",
        ),
        "53100" => (K::NoSpace, "the disk of the database is full: make room there"),
        "42501" => (K::Permission, "grant the rights on the volume's schema to this user"),
        "3D000" => (K::NotFound, "the server has no such database: make it, or correct the URL"),
        "42P01" | "3F000" => {
            (K::NotFound, "the volume's tables are not there: it was not made here, or elsewhere")
        }
        "XX001" | "XX002" => (K::Corrupt, "the database is damaged: restore it"),
        "25006" => (K::Retry, "the server takes no writes: it is a standby, or becomes one"),
        "22003" => (K::Invalid, "a counter overflows"),
        code if code.starts_with("28") => {
            (K::Permission, "check user and password (PGPASSFILE, PGPASSWORD or PGSERVICE)")
        }
        code if ["53", "57", "58", "08"].contains(&&code[..2]) => {
            (K::Retry, "the server is overloaded, starts or ends; try again")
        }
        _ => (K::Bug, "the server did not understand; report this"),
    };
    let context = format!("cannot {what}: {advice} ({told}, SQLSTATE {})", code.code());
    let again = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
    let made = FsError::new(kind, context).with_source(error_text(&error));
    match kind {
        K::Retry if again.iter().any(|a| a.code() == code_of(&error)) => Failed::Again(made),
        K::Retry if lost || code_of(&error) == "25006" => Failed::Lost(made),
        _ => Failed::Final(made),
    }
}

/// Whether the connection goes on after it.
pub(super) fn is_error(db: &DbError) -> bool {
    // The text may be in any language.
    match db.parsed_severity() {
        Some(severity) => severity == Severity::Error,
        None => db.severity() == "ERROR",
    }
}

/// The SQLSTATE of an error; empty if the server did not say it.
pub(super) fn code_of(error: &Error) -> &str {
    error.code().map_or("", SqlState::code)
}

fn error_text(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}

fn without_an_answer(what: &str, error: Error) -> Failed {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(&error);
    while let Some(one) = cause {
        if one.is::<TlsError>() {
            let context = format!(
                "cannot {what}: the server could not be proven to be the one: {one}; give its \
                 authority by sslrootcert, and use the name that its certificate has"
            );
            return Failed::Final(FsError::new(ErrorKind::Permission, context).with_source(error));
        }
        causes.push(one.to_string());
        cause = one.source();
    }
    let why = if causes.is_empty() { error.to_string() } else { causes.join(": ") };
    if why.contains("does not support TLS") {
        let context = format!(
            "cannot {what}: the server has no TLS, and the URL asks for it: switch it on there, or \
             say sslmode=disable where nobody else is on the way"
        );
        return Failed::Final(FsError::new(ErrorKind::Invalid, context).with_source(error));
    }
    if why.contains("password missing") {
        let context = format!(
            "cannot {what}: the server wants a password: give it in ~/.pgpass, PGPASSFILE, \
             PGPASSWORD or a service file"
        );
        return Failed::Final(FsError::new(ErrorKind::Permission, context).with_source(error));
    }
    let context =
        format!("cannot {what}: the connection to the server broke or was refused: {why}");
    Failed::Lost(FsError::new(ErrorKind::Retry, context).with_source(error))
}
