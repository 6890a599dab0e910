//! The URL of a database, as PostgreSQL's own tools write it, and what it says.
//!
//! A password is kept apart from the rest: neither `Display` nor `Debug` shows it, so that what is
//! logged or stored of a URL never has it.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use weir_types::{ErrorKind, FsError, Result};

/// The port of a server that names none.
const PORT: u16 = 5432;

/// What is written as it is; all else is escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// How a connection is encrypted, and how the server is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    /// Not encrypted. What a URL without `sslmode` means for a socket and for this machine itself.
    Disable,
    /// Encrypted. Who the server is, is not checked unless `sslrootcert` is given: then as
    /// `verify-ca`.
    Require,
    /// The server's certificate must be from an authority that is trusted.
    VerifyCa,
    /// And it must be for the host of the URL. What a URL without `sslmode` means for all others.
    VerifyFull,
}

impl SslMode {
    fn name(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        }
    }
}

/// Where one server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Name, address, or the directory of its socket (which starts with `/`).
    pub host: String,
    /// The port, also of a socket.
    pub port: u16,
}

impl Server {
    /// Whether it is reached by a socket in a directory of this machine.
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// Whether bytes to it stay on this machine.
    pub(super) fn is_here(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.is_socket() || self.host == "localhost" || address.is_ok_and(|a| a.is_loopback())
    }
}

/// `postgres://user@host1:5432,host2/database?sslmode=verify-full`: one database, on one server or on
/// several of which one takes writes.
///
/// Its `Display` is the URL without the password: what may be stored, and be parsed again.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) servers: Vec<Server>,
    pub(super) database: Option<String>,
    pub(super) sslmode: Option<SslMode>,
    pub(super) sslrootcert: Option<String>,
    pub(super) service: Option<String>,
}

impl PostgresUrl {
    /// Host and port of the server that is tried first; `None` where that is on this machine, or where the
    /// URL does not say it.
    pub fn elsewhere(&self) -> Option<(&str, u16)> {
        let first = self.servers.first().filter(|server| !server.is_here())?;
        Some((&first.host, first.port))
    }

    /// Reads a URL. `Invalid` says what is wrong with it, without its password.
    pub fn parse(text: &str) -> Result<Self> {
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or_else(|| invalid("it does not start with postgres://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        // The last one, because nobody escapes the `@` of a password.
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, decoded(password)?),
            None => (login, None),
        };
        let mut url = Self {
            user: decoded(user)?,
            password,
            servers: servers(hosts)?,
            database: decoded(database)?,
            sslmode: None,
            sslrootcert: None,
            service: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?.unwrap_or_default();
            url.set(name, value)?;
        }
        Ok(url)
    }

    /// Whether the URL has a password in it: better kept in `~/.pgpass`, because command lines and
    /// configuration are read by others.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The servers, in the order in which they are asked.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The database; `None` where a service or the user's name says it.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    pub(super) fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "dbname" => self.database = Some(value),
            "host" => self.servers = servers(&value)?,
            "service" => self.service = Some(value),
            "sslrootcert" => self.sslrootcert = Some(value),
            "sslmode" => self.sslmode = Some(sslmode(&value)?),
            "target_session_attrs" if value == "read-write" || value == "primary" => {}
            "target_session_attrs" => {
                return Err(invalid(
                    "target_session_attrs must be read-write: metadata is written",
                ));
            }
            // Said in every program's URL; both are ours to say.
            "application_name" | "connect_timeout" => {}
            _ => {
                let known = "user, password, dbname, host, service, sslmode, sslrootcert, \
                             target_session_attrs";
                return Err(invalid(&format!("`{name}` is not known (known: {known})")));
            }
        }
        Ok(())
    }
}

fn sslmode(value: &str) -> Result<SslMode> {
    match value {
        "disable" => Ok(SslMode::Disable),
        "require" => Ok(SslMode::Require),
        "verify-ca" => Ok(SslMode::VerifyCa),
        "verify-full" => Ok(SslMode::VerifyFull),
        "allow" | "prefer" => Err(invalid(&format!(
            "sslmode={value} goes on without encryption where somebody on the way wants it so; say \
             verify-full, or disable"
        ))),
        _ => Err(invalid(&format!(
            "sslmode={value} is not known (known: disable, require, verify-ca, verify-full)"
        ))),
    }
}

/// The servers of `a:1,b,[::1]:2,%2Frun%2Fpostgresql`.
fn servers(text: &str) -> Result<Vec<Server>> {
    text.split(',').filter(|one| !one.is_empty()).map(server).collect()
}

fn server(text: &str) -> Result<Server> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => PORT,
        Some(port) => {
            port.parse().map_err(|_| invalid(&format!("`{port}` is no port (1 to 65535)")))?
        }
    };
    let host = decoded(host)?.ok_or_else(|| invalid("a server has a port and no name"))?;
    Ok(Server { host, port })
}

/// The text behind the escapes; `None` if there is none.
fn decoded(text: &str) -> Result<Option<String>> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| invalid("an escape (%..) in it is no UTF-8"))?;
    if text.contains('\0') {
        return Err(invalid("it has a zero byte in it"));
    }
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

fn invalid(why: &str) -> FsError {
    let context = format!(
        "the URL of the metadata's database cannot be used: {why}; it is like \
         postgres://user@host/database"
    );
    FsError::new(ErrorKind::Invalid, context)
}

impl FromStr for PostgresUrl {
    type Err = FsError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text| utf8_percent_encode(text, ESCAPED);
        f.write_str("postgres://")?;
        if let Some(user) = &self.user {
            write!(f, "{}@", escaped(user))?;
        }
        for (at, Server { host, port }) in self.servers.iter().enumerate() {
            f.write_str(if at > 0 { "," } else { "" })?;
            match host.contains(':') {
                true => write!(f, "[{host}]")?,
                false => write!(f, "{}", escaped(host))?,
            }
            if *port != PORT {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", escaped(self.database.as_deref().unwrap_or_default()))?;
        let settings = [
            ("service", self.service.as_deref()),
            ("sslmode", self.sslmode.map(SslMode::name)),
            ("sslrootcert", self.sslrootcert.as_deref()),
        ];
        let set = settings.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (at, (name, value)) in set.enumerate() {
            write!(f, "{}{name}={}", if at > 0 { '&' } else { '?' }, escaped(value))?;
        }
        Ok(())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
