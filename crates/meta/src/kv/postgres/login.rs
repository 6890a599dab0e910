//! Who logs in where: what the URL leaves open, from where PostgreSQL's own programs take it.
//!
//! A service (`service=` or PGSERVICE) is a section of PGSERVICEFILE or `~/.pg_service.conf`. A
//! password that neither the URL nor the service has comes from PGPASSWORD, or from the lines of
//! PGPASSFILE or `~/.pgpass`. It is looked up anew for each connection, so that it may change.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use weir_types::{ErrorKind, FsError, Result};

use super::url::{PostgresUrl, Server, SslMode};

/// The environment: a variable's value.
pub(super) type Env<'a> = &'a (dyn Fn(&str) -> Option<OsString> + Sync);

/// All that is needed to log in at one of several servers.
pub(super) struct Login {
    pub(super) user: String,
    pub(super) database: String,
    pub(super) servers: Vec<Server>,
    sslmode: Option<SslMode>,
    pub(super) sslrootcert: Option<String>,
    password: Option<String>,
    passwords: Vec<[String; 5]>,
}

impl Login {
    /// What `url` says, with the rest from the service and the environment.
    pub(super) fn of(url: &PostgresUrl, env: Env<'_>) -> Result<Self> {
        let mut url = url.clone();
        let text = |name| env(name).and_then(|v: OsString| v.into_string().ok());
        if let Some(service) = url.service.clone().or_else(|| text("PGSERVICE")) {
            url = with_service(url, &service, env)?;
        }
        let user = url.user.or_else(|| text("PGUSER")).or_else(|| text("USER"));
        let user = user.ok_or_else(|| invalid("the URL names no user: postgres://USER@host/db"))?;
        if url.servers.is_empty() {
            return Err(invalid("the URL names no server: postgres://user@HOST/db"));
        }
        let password = url.password.or_else(|| text("PGPASSWORD"));
        let passwords = if password.is_some() { Vec::new() } else { password_file(env)? };
        Ok(Self {
            database: url.database.unwrap_or_else(|| user.clone()),
            user,
            servers: url.servers,
            sslmode: url.sslmode,
            sslrootcert: url.sslrootcert,
            password,
            passwords,
        })
    }

    /// The password for a server, if there is one.
    pub(super) fn password(&self, server: &Server) -> Option<&str> {
        let port = server.port.to_string();
        let is = |pattern: &String, value: &str| pattern == "*" || pattern == value;
        let line = self.passwords.iter().find(|[host, at, database, user, _]| {
            let here = is(host, &server.host) || (server.is_socket() && host == "localhost");
            here && is(at, &port) && is(database, &self.database) && is(user, &self.user)
        });
        self.password.as_deref().or_else(|| line.map(|line| line[4].as_str()))
    }

    /// How the connection to a server is to be encrypted.
    pub(super) fn sslmode(&self, server: &Server) -> SslMode {
        match self.sslmode {
            // Nobody is on the way, and the server offers no TLS there.
            _ if server.is_socket() => SslMode::Disable,
            Some(mode) => mode,
            None if server.is_here() => SslMode::Disable,
            None => SslMode::VerifyFull,
        }
    }
}

fn at_home(env: Env<'_>, named_by: &str, name: &str) -> Option<PathBuf> {
    let named = env(named_by).filter(|path| !path.is_empty()).map(PathBuf::from);
    named.or_else(|| env("HOME").map(|home| Path::new(&home).join(name)))
}

/// The lines of the password file; none if there is no such file.
fn password_file(env: Env<'_>) -> Result<Vec<[String; 5]>> {
    let Some(path) = at_home(env, "PGPASSFILE", ".pgpass") else {
        return Ok(Vec::new());
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(FsError::local_io(format!("cannot read {}", path.display()), error));
        }
    };
    let mode = std::fs::metadata(&path).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        let path = path.display();
        let context = format!("{path} has passwords and others may read it: chmod 0600 {path}");
        return Err(FsError::new(ErrorKind::Permission, context));
    }
    Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(password_line).collect())
}

/// The five fields of `host:port:database:user:password`; a backslash keeps what follows it.
fn password_line(line: &str) -> Option<[String; 5]> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(chars.next()),
            c => fields.last_mut()?.push(c),
        }
    }
    fields.try_into().ok()
}

/// The URL with what it leaves open filled in from a service.
fn with_service(mut url: PostgresUrl, service: &str, env: Env<'_>) -> Result<PostgresUrl> {
    let path = at_home(env, "PGSERVICEFILE", ".pg_service.conf")
        .ok_or_else(|| invalid("a service is named, and neither PGSERVICEFILE nor HOME is set"))?;
    let text = std::fs::read_to_string(&path)
        .map_err(|error| FsError::local_io(format!("cannot read {}", path.display()), error))?;
    let header = format!("[{service}]");
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != header);
    if lines.next().is_none() {
        return Err(invalid(&format!("{} has no service {header}", path.display())));
    }
    let (mut hosts, mut ports) = (None, None);
    for line in lines.take_while(|line| !line.starts_with('[')) {
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim().to_owned());
        match name {
            "host" => hosts = Some(value),
            "port" => ports = Some(value),
            "user" => url.user = url.user.or(Some(value)),
            "password" => url.password = url.password.or(Some(value)),
            "dbname" => url.database = url.database.or(Some(value)),
            "sslmode" if url.sslmode.is_some() => {}
            "sslrootcert" if url.sslrootcert.is_some() => {}
            "sslmode" | "sslrootcert" | "target_session_attrs" => url.set(name, value)?,
            // Others are for other programs.
            _ => {}
        }
    }
    if let Some(hosts) = hosts.filter(|_| url.servers.is_empty()) {
        url.servers = service_servers(&hosts, ports.as_deref().unwrap_or("5432"))?;
    }
    Ok(url)
}

fn service_servers(hosts: &str, ports: &str) -> Result<Vec<Server>> {
    let ports: Vec<&str> = ports.split(',').collect();
    let each = hosts.split(',').enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).copied().unwrap_or_default();
        let port =
            port.trim().parse().map_err(|_| invalid(&format!("`{port}` in it is no port")))?;
        Ok(Server { host: host.trim().to_owned(), port })
    });
    each.collect()
}

fn invalid(why: &str) -> FsError {
    FsError::new(ErrorKind::Invalid, format!("cannot log in at the metadata's database: {why}"))
}

#[cfg(test)]
#[path = "tests/login.rs"]
mod tests;
