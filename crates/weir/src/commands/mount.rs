//! `weir mount` and `weir serve`: start the daemon and wait until the volume can be used, or tell why
//! not.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use weir_engine::{BucketUrl, DiskSpace};
use weir_types::{Bytes, ErrorCode, ErrorKind, FsError, Result};

use crate::cli::{EngineArgs, LogArgs};
use crate::client::Client;
use crate::command_line::insert_behind;
use crate::commands::{flush, umount};
use crate::daemon::{self, Work};
use crate::{descriptors, paths, render, secrets};

pub(crate) fn run(work: Work, log: &LogArgs, argv: &[OsString]) -> Result<ExitCode> {
    let args = work.engine();
    if args.daemon.is_some() || args.handed_over.is_some() {
        return daemon::run(work, log, argv);
    }
    if args.foreground {
        check_free(&work)?;
        return daemon::run(work, log, argv);
    }
    // Before there is a log, so that the most common mistakes leave no trace.
    let (word, place) = match &work {
        Work::Mount(mount) => {
            weir_door_fuse::check_mountpoint(&mount.dir)?;
            ("mount", paths::real(&mount.dir)?)
        }
        Work::Serve(serve) => ("serve", paths::of_volume(&serve.url.parse()?)),
    };
    check_free(&work)?;
    let passphrase = secrets::for_daemon(&args.connect)?;
    let (log_path, log_file) = paths::open_log(args.log_file.as_deref(), &place, &args.tier)?;
    descriptors::close_on_exec();
    let child = Command::new(own_program())
        .arg0("weir")
        .args(daemon_arguments(argv, word, &log_path))
        // It is not what the service is that somebody mounts in.
        .env_remove("NOTIFY_SOCKET")
        .env_remove("WATCHDOG_USEC")
        .envs(home())
        .envs(passphrase.map(|words| (secrets::PASSPHRASE_VARIABLE, words)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log_file)
        .spawn()
        .map_err(|e| FsError::local_io("start the daemon", e))?;
    let at = |e| FsError::local_io("listen to the daemon", e);
    match hear(child).map_err(at)? {
        Heard::Ready => {
            warn_of_small_disk(work.engine());
            Ok(ExitCode::SUCCESS)
        }
        Heard::Failed { code, message, causes } => {
            let error = FsError::new(ErrorKind::Invalid, message).with_source(causes);
            Err(code.into_iter().fold(error, FsError::coded))
        }
        Heard::Died(how) => {
            let text =
                format!("the daemon died ({how}) while it started: see {}", log_path.display());
            Err(FsError::new(ErrorKind::Bug, text))
        }
    }
}

/// Waits for a daemon of this machine that flushes the volume before it ends. Says how to go on if
/// another one writes it: the volume's own refusal can only tell of a process.
fn check_free(work: &Work) -> Result<()> {
    let url: BucketUrl = work.url().parse()?;
    if work.engine().read_only || work.engine().take_over {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| FsError::local_io("start a runtime", e))?;
    runtime.block_on(await_last_flush(&url));
    let Some((_, status)) = runtime.block_on(Client::having(&url)) else { return Ok(()) };
    if status.engine.read_only || (status.engine.shared && work.engine().shared) {
        return Ok(());
    }
    if status.engine.shared || work.engine().shared {
        let how = if status.engine.shared { "with" } else { "without" };
        let text = format!(
            "{url} is mounted {how} --shared at {}: who writes it together must all mount it with \
             --shared",
            status.mountpoint.unwrap_or_default().display()
        );
        return Err(FsError::new(ErrorKind::Exists, text).coded(ErrorCode::VolumeInUse));
    }
    let text = match (&status.mountpoint, work) {
        (Some(dir), Work::Serve(_)) => format!(
            "{url} is mounted at {0}, and a volume has one writer: to serve its disks as well, \
             `weir umount {0}` and mount it with --nbd IP:PORT",
            dir.display()
        ),
        (Some(dir), Work::Mount(_)) => format!(
            "{url} is mounted at {0}, and a volume has one writer: use it there, `weir umount {0}` \
             first, or mount it with --read-only",
            dir.display()
        ),
        (None, _) => format!(
            "{url} is served by process {}, and a volume has one writer: `weir stop {url}` first, \
             or mount it with --read-only",
            status.pid
        ),
    };
    Err(FsError::new(ErrorKind::Exists, text).coded(ErrorCode::VolumeInUse))
}

/// A plain `umount` returns at once, and the daemon still has to flush.
async fn await_last_flush(url: &BucketUrl) {
    for (client, status) in Client::all_having(url).await {
        if !status.ending || status.engine.read_only {
            continue;
        }
        render::tell(&format!(
            "weir: {url} was unmounted, and process {} still flushes it: waiting for that\n",
            status.pid
        ));
        tokio::select! {
            () = umount::gone(status.pid) => {}
            () = flush::show_what_is_left(&client) => {}
        }
    }
}

/// Who asks for a larger tier than its disk should hear that it is not.
fn warn_of_small_disk(args: &EngineArgs) {
    let (Some(size), Ok(space)) = (args.tier_size, DiskSpace::ask(&args.tier)) else { return };
    if space.bytes < size.0 {
        render::tell(&format!(
            "weir: warning: the disk below --tier has {}, less than --tier-size {size}: the tier \
             takes what it can give, as `weir status` shows\n",
            Bytes(space.bytes)
        ));
    }
}

/// The home directory, where nobody said it: mount(8) takes it away, and keys may be in it.
fn home() -> Option<(&'static str, PathBuf)> {
    match std::env::var_os("HOME") {
        Some(_) => None,
        None => Some(("HOME", std::env::home_dir()?)),
    }
}

/// The program by its path, which names the process for `ps`; should it have been replaced since
/// it was started, the one that runs.
fn own_program() -> PathBuf {
    let path = std::env::current_exe().ok().filter(|path| path.exists());
    path.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

/// The same command line, with what makes it a daemon after the command.
fn daemon_arguments(argv: &[OsString], command: &str, log: &Path) -> Vec<OsString> {
    let mut daemon = OsString::from("--daemon=");
    daemon.push(log);
    insert_behind(argv, command, daemon).split_off(1)
}

enum Heard {
    Ready,
    Failed { code: Option<ErrorCode>, message: String, causes: String },
    Died(std::process::ExitStatus),
}

fn hear(mut child: Child) -> std::io::Result<Heard> {
    let Some(pipe) = child.stdout.take() else {
        return Ok(Heard::Died(child.wait()?));
    };
    let mut pipe = BufReader::new(pipe);
    let mut first = String::new();
    pipe.read_line(&mut first)?;
    let first = first.trim_end();
    if first == daemon::READY {
        return Ok(Heard::Ready);
    }
    let (mut message, mut causes) = (String::new(), String::new());
    pipe.read_line(&mut message)?;
    pipe.read_to_string(&mut causes)?;
    let status = child.wait()?;
    Ok(match message.is_empty() {
        true => Heard::Died(status),
        false => Heard::Failed {
            code: ErrorCode::of(first),
            message: message.trim_end().to_owned(),
            causes: causes.trim_end().to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_gets_the_same_arguments() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let log = Path::new("/l");
        let argv = words("weir -v mount --tier /t -- s3://b /mnt");
        let line = daemon_arguments(&argv, "mount", log);
        assert_eq!(line, words("-v mount --daemon=/l --tier /t -- s3://b /mnt"));
        let line = daemon_arguments(&words("weir serve s3://b --tier /mount"), "serve", log);
        assert_eq!(line, words("serve --daemon=/l s3://b --tier /mount"));
    }
}
