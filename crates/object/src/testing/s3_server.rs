//! A real S3 server on loopback for as long as the value lives.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use weir_types::{ErrorKind, FsError, Result};

use crate::{Bucket, BucketUrl, ConnectOptions, Meter};

/// Keys of the server's only user.
const KEY: (&str, &str) = ("weirtest", "weirtestsecret");

/// A `versitygw` process over a temporary directory; ended, and the directory removed, on drop.
pub struct S3Server {
    process: Child,
    directory: TempDir,
    port: u16,
}

impl S3Server {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// `NotFound` when the program is not installed, and what to do about it; `Retry` when it does
    /// not come up.
    pub async fn start() -> Result<S3Server> {
        let program = program()?;
        let mut last = FsError::new(ErrorKind::Retry, "the S3 server was never started");
        // Somebody else may take the free port first.
        for _ in 0..5 {
            let server = Self::spawn(&program)
                .map_err(|e| FsError::local_io(format!("starting {}", program.display()), e))?;
            match server.wait().await {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn spawn(program: &Path) -> io::Result<S3Server> {
        let directory = tempfile::tempdir()?;
        std::fs::create_dir(directory.path().join("ready"))?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let process = Command::new(program)
            .args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "posix"])
            .arg(directory.path())
            .env("ROOT_ACCESS_KEY", KEY.0)
            .env("ROOT_SECRET_KEY", KEY.1)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(S3Server { process, directory, port })
    }

    async fn wait(&self) -> Result<()> {
        let url: BucketUrl = "s3://ready".parse()?;
        let options = ConnectOptions { timeout_ms: 100, ..self.options() };
        let bucket = Bucket::connect(&url, &options, &Meter::new())?;
        let mut last = Ok(());
        for _ in 0..100 {
            last = bucket.probe().await;
            if last.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        last
    }

    /// Its address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Options that reach it with the right keys.
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions {
            endpoint: Some(self.endpoint()),
            region: Some("us-east-1".to_owned()),
            access_key_id: Some(KEY.0.to_owned()),
            secret_access_key: Some(KEY.1.to_owned()),
            ..ConnectOptions::default()
        }
    }

    /// Makes a bucket and returns its URL with `prefix`.
    ///
    /// # Errors
    /// Those of the local disk; `Invalid` for names that make no URL.
    pub fn bucket(&self, name: &str, prefix: &str) -> Result<BucketUrl> {
        let url = format!("s3://{name}/{prefix}").parse()?;
        match std::fs::create_dir(self.directory.path().join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(FsError::local_io(format!("making bucket {name}"), error))
            }
            _ => Ok(url),
        }
    }

    /// Uploads in parts to a bucket that neither were completed nor aborted.
    pub fn uploads(&self, bucket: &str) -> Vec<PathBuf> {
        let objects = self.directory.path().join(bucket).join(".sgwtmp/multipart");
        let below = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        let uploads = below(objects).flat_map(|object| below(object.path()));
        uploads.map(|upload| upload.path()).filter(|path| path.is_dir()).collect()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // It may have ended already; there is nothing more to do then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The installed program: in the tools cache, on the path, or where `go install` puts it.
fn program() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = std::env::var_os("WEIR_CACHE").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| home.join(".cache/weir"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = vec![cache.join("bin")];
    places.extend(std::env::split_paths(&path));
    places.push(home.join("go/bin"));
    places.iter().map(|dir| dir.join("versitygw")).find(|file| file.is_file()).ok_or_else(|| {
        let why = "the S3 server `versitygw` is not installed: run `make test-tools`";
        FsError::new(ErrorKind::NotFound, why)
    })
}
