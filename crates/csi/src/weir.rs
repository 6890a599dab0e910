//! The program `weir`, which does the mounting: run on this machine, or out of a container on its host.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tonic::Code;

use crate::fault::{Fault, Result, Tried};
use crate::source::{Source, digest};

/// What a secret may have: the names that all S3 tools know, and what opens an encrypted volume.
const SECRETS: [&str; 4] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "WEIR_PASSPHRASE"];
const OF_BUCKETS: &str = "AWS_";
/// What the program is given of this one's environment. Of AWS's only what says no keys, if it has
/// keys of its own.
const PASSED: [&str; 5] = ["PATH", "HOME", "WEIR_LOG", "WEIR_RUN_DIR", "AWS_EC2_METADATA_DISABLED"];

/// Keys of a bucket and of a volume, given to one child in its environment and to nobody else.
#[derive(Clone, Default)]
pub(crate) struct Keys(Vec<(&'static str, String)>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl Keys {
    pub(crate) fn from_secrets(secrets: &HashMap<String, String>) -> Result<Self> {
        if let Some(other) = secrets.keys().find(|key| !SECRETS.contains(&key.as_str())) {
            let text = format!("the secret has {other}, and may have {}", SECRETS.join(", "));
            return Err(Fault::invalid(text));
        }
        let found = SECRETS.iter().filter_map(|key| Some((*key, secrets.get(*key)?.clone())));
        let keys = Self(found.collect());
        if keys.has_those_of_a_bucket()
            && !["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
                .iter()
                .all(|k| secrets.contains_key(*k))
        {
            return Err(Fault::invalid(
                "the secret needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ));
        }
        Ok(keys)
    }

    /// Whether there are some for the bucket; else the node's own role is.
    pub(crate) fn has_those_of_a_bucket(&self) -> bool {
        self.0.iter().any(|(name, _)| name.starts_with(OF_BUCKETS))
    }

    /// Tells keys apart without telling them.
    pub(crate) fn digest(&self) -> String {
        let texts: Vec<&[u8]> =
            self.0.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).collect();
        digest(&texts)
    }
}

/// Where a volume is to be mounted.
pub(crate) struct Place<'a> {
    pub(crate) at: &'a Path,
    pub(crate) tier: &'a Path,
    pub(crate) log: &'a Path,
    pub(crate) read_only: bool,
}

/// How the program is run.
#[derive(Clone, Debug)]
pub(crate) struct Weir {
    program: PathBuf,
    /// Whether this is a container, whose end the daemons must survive: they belong to the host then.
    on_host: bool,
}

impl Weir {
    pub(crate) fn new(program: PathBuf, on_host: bool) -> Self {
        Self { program, on_host }
    }

    /// Mounts a volume, and returns when it can be used. The daemon goes on by itself.
    pub(crate) fn mount(&self, source: &Source, keys: &Keys, place: &Place<'_>) -> Result<()> {
        let mut command = self.command(true, keys);
        command.arg("mount").arg(format!("--tier={}", place.tier.display()));
        command.arg(format!("--log-file={}", place.log.display()));
        let options = [
            ("tier-size", &source.tier_size),
            ("memory", &source.memory),
            ("flush-age", &source.flush_age),
            ("endpoint", &source.endpoint),
            ("region", &source.region),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                command.arg(format!("--{name}={value}"));
            }
        }
        if source.path_style() {
            command.arg("--path-style");
        }
        if source.encrypt_tier() {
            command.arg("--encrypt-tier");
        }
        if place.read_only {
            command.arg("--read-only");
        }
        command.arg("--").arg(&source.url).arg(place.at);
        run(command).map(drop).map_err(|text| Fault::new(code_of(&text), text))
    }

    /// Unmounts a volume when all of it is in the bucket.
    pub(crate) fn umount(&self, at: &Path) -> Result<()> {
        let mut command = self.command(false, &Keys::default());
        command.arg("umount").arg(at);
        run(command).map(drop).map_err(|text| Fault::new(Code::Unavailable, text))
    }

    /// Whether buckets of others are linked below a directory: what is removed there may be removed
    /// in those.
    pub(crate) fn has_links(&self, mounted: &Path, directory: &str) -> Result<bool> {
        let mut command = self.command(false, &Keys::default());
        command.args(["links", "--json", "--"]).arg(mounted);
        let json = run(command).map_err(|text| Fault::new(Code::Unavailable, text))?;
        let links: Vec<serde_json::Value> =
            serde_json::from_str(&json).tried(|| "read what `weir links` says".to_owned())?;
        let linked = links.iter().filter_map(|link| link["path"].as_str());
        Ok(linked.into_iter().any(|path| touches(path, directory)))
    }

    /// Holds a directory of a mounted volume to so many bytes.
    pub(crate) fn set_quota(&self, directory: &Path, bytes: i64) -> Result<()> {
        let mut command = self.command(false, &Keys::default());
        command.args(["quota", "set", "--json"]).arg(format!("--bytes={bytes}"));
        command.arg("--").arg(directory);
        run(command).map(drop).map_err(|text| Fault::new(Code::Unavailable, text))
    }

    /// The program, with an environment in which nothing is of this one but what it needs.
    fn command(&self, to_stay: bool, keys: &Keys) -> Command {
        let mut words: Vec<&OsStr> = Vec::new();
        if self.on_host {
            words.extend(NAMESPACES.map(OsStr::new));
            if to_stay {
                words.extend(SCOPE.map(OsStr::new));
            }
        }
        words.push(self.program.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().stdin(Stdio::null());
        for (name, value) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let role = !keys.has_those_of_a_bucket() && text.starts_with(OF_BUCKETS);
            if PASSED.contains(&&*text) || role {
                command.env(&name, value);
            }
        }
        command.envs(keys.0.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The host's namespaces, without which the daemon would end with the container or take it for the
/// host. That of processes is the host's already.
const NAMESPACES: [&str; 7] = ["nsenter", "--target=1", "--mount", "--net", "--uts", "--ipc", "--"];

/// A daemon's place on the host. A scope runs what it is given here, and only puts it elsewhere: it
/// has our pipes and environment, and no unit that others may read names the keys. It has time to flush when the machine is shut down, before the
/// network goes and after the pods.
const SCOPE: [&str; 9] = [
    "systemd-run",
    "--scope",
    "--quiet",
    "--collect",
    "--slice=weir.slice",
    "--property=TimeoutStopSec=300",
    "--property=After=network-online.target",
    "--property=Before=kubelet.service",
    "--",
];

/// Whether one of two directories of a volume is in the other.
fn touches(link: &str, directory: &str) -> bool {
    let (link, directory) =
        (Path::new(link.trim_matches('/')), Path::new(directory.trim_matches('/')));
    link.starts_with(directory) || directory.starts_with(link)
}

/// What a program printed, or what it complained of.
fn run(mut command: Command) -> std::result::Result<String, String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(e) => return Err(format!("run {}: {e}", command.get_program().display())),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => Err(format!("{} ends with {}", command.get_program().display(), output.status)),
        false => Err(lines.join("\n")),
    }
}

/// What a caller is to do about a mount that failed: what another machine, or the end of an earlier
/// mount, is in the way of needs somebody; all else may pass by itself.
fn code_of(text: &str) -> Code {
    const NEEDS_SOMEBODY: [&str; 5] = [
        "mounted for writing by",
        "has one writer",
        "--take-over",
        "--accept-loss",
        "in use by another",
    ];
    match NEEDS_SOMEBODY.iter().any(|words| text.contains(words)) {
        true => Code::FailedPrecondition,
        false => Code::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        let secrets = SECRETS.map(|name| (name.to_owned(), format!("secret of {name}")));
        Keys::from_secrets(&secrets.into()).unwrap()
    }

    #[test]
    fn keys_are_in_the_environment_of_the_child_and_nowhere_else() {
        for on_host in [false, true] {
            let weir = Weir::new("/opt/weir".into(), on_host);
            let command = weir.command(true, &keys());
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            assert!(!words.join(" ").contains("secret"), "{words:?}");
            let given =
                command.get_envs().filter(|(name, _)| SECRETS.map(OsStr::new).contains(name));
            assert_eq!(given.count(), SECRETS.len());
        }
        assert!(!format!("{:?}", keys()).contains("secret"));
    }

    #[test]
    fn a_daemon_on_the_host_is_in_a_scope_of_its_own_and_others_are_not() {
        let shown = |command: &Command| format!("{command:?}").replace('"', "");
        let weir = Weir::new("/opt/weir".into(), true);
        let mount = shown(&weir.command(true, &Keys::default()));
        assert!(
            mount.contains("nsenter --target=1 --mount --net --uts --ipc -- systemd-run --scope")
        );
        assert!(mount.ends_with("-- /opt/weir"), "{mount}");
        let other = shown(&weir.command(false, &Keys::default()));
        assert!(other.contains("nsenter") && !other.contains("systemd-run"), "{other}");
        let here = Weir::new("/opt/weir".into(), false).command(true, &Keys::default());
        assert_eq!(here.get_program(), "/opt/weir");
    }

    #[test]
    fn a_secret_with_something_else_is_refused() {
        for names in [&["password"][..], &["AWS_ACCESS_KEY_ID"], &["AWS_SESSION_TOKEN"]] {
            let secrets =
                names.iter().map(|name| ((*name).to_owned(), "hidden".to_owned())).collect();
            let fault = Keys::from_secrets(&secrets).unwrap_err();
            assert!(!fault.to_string().contains("hidden"), "{fault}");
        }
        assert!(!Keys::from_secrets(&HashMap::new()).unwrap().has_those_of_a_bucket());
        let words = HashMap::from([("WEIR_PASSPHRASE".to_owned(), "five words".to_owned())]);
        let opens = Keys::from_secrets(&words).unwrap();
        assert!(!opens.has_those_of_a_bucket(), "the node's role is for the bucket");
        assert_ne!(opens.digest(), Keys::default().digest());
        assert_ne!(keys().digest(), Keys::default().digest());
    }

    #[test]
    fn a_link_is_met_from_above_and_from_below() {
        for (link, directory, wanted) in [
            ("/volumes/a/lake", "volumes/a", true),
            ("/volumes", "volumes/a", true),
            ("/volumes/ab", "volumes/a", false),
            ("/lake", "volumes/a", false),
        ] {
            assert_eq!(touches(link, directory), wanted, "{link} {directory}");
        }
    }

    #[test]
    fn what_another_machine_holds_needs_somebody() {
        let held =
            "s3://b/v is mounted for writing by process 7 on node-a: unmount or stop it there";
        assert_eq!(code_of(held), Code::FailedPrecondition);
        assert_eq!(code_of("s3://b/v: the bucket does not answer"), Code::Unavailable);
    }
}
