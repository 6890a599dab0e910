//! `mount.weir`: what `mount(8)` calls for `-t weir` and for lines of /etc/fstab.

use std::ffi::{OsStr, OsString};

use weir_types::{ErrorKind, FsError, Result};

/// Options that are for `mount(8)`, systemd or the boot, and mean nothing here.
const NOT_OURS: [&str; 18] = [
    "defaults",
    "auto",
    "noauto",
    "_netdev",
    "nofail",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "rw",
    "strictatime",
    "lazytime",
    "nolazytime",
    "diratime",
    "nodiratime",
    "silent",
    "loud",
];

/// Options that are flags of `weir mount`, and whether they take a value.
pub(super) const FLAGS: [(&str, bool); 43] = [
    ("tier", true),
    ("tier-size", true),
    ("size", true),
    ("memory", true),
    ("sign-payload", false),
    ("journal", true),
    ("meta", true),
    ("accept-loss", true),
    ("flush-age", true),
    ("config", true),
    ("log-file", true),
    ("log-format", true),
    ("threads", true),
    ("admin-listen", true),
    ("admin-token-file", true),
    ("nfs", true),
    ("nfs-tls-cert", true),
    ("nfs-tls-key", true),
    ("nfs-tls-client-ca", true),
    ("nfs-tls-required", false),
    ("nfs-lease", true),
    ("manage-gids", false),
    ("nbd", true),
    ("nbd-unix", true),
    ("nbd-tls-cert", true),
    ("nbd-tls-key", true),
    ("nbd-tls-client-ca", true),
    ("endpoint", true),
    ("region", true),
    ("profile", true),
    ("key-file", true),
    ("key-command", true),
    ("encrypt-tier", false),
    ("anonymous", false),
    ("path-style", false),
    ("shared", false),
    ("peer-listen", true),
    ("peer-address", true),
    ("take-over", false),
    ("allow-other", false),
    ("acl", false),
    ("no-passthrough", false),
    ("transport", true),
];

/// Options of the kernel's mount, handed on.
const KERNEL: [&str; 13] = [
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "exec",
    "noexec",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "sync",
    "async",
    "dirsync",
];

const USAGE: &str = "usage: mount.weir URL DIR [-sfnv] [-o tier=DIR,option,...]";

/// The command line of `weir` that does what the helper's asks; `None` if it asks for nothing
/// (`-f`).
pub(super) fn weir_arguments(argv: &[OsString]) -> Result<Option<Vec<OsString>>> {
    let mut places: Vec<OsString> = Vec::new();
    let mut flags: Vec<OsString> = Vec::new();
    let (mut fake, mut sloppy) = (false, false);
    let mut words = argv.iter().skip(1);
    let mut lists: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        match word.to_str().filter(|word| word.starts_with('-') && word.len() > 1) {
            None => places.push(word.clone()),
            Some("-o") => lists.push(text_after(word, words.next())?),
            Some("-t" | "-N") => drop(text_after(word, words.next())?),
            Some(letters) => {
                for letter in letters.chars().skip(1) {
                    match letter {
                        'f' => fake = true,
                        's' => sloppy = true,
                        'v' => flags.push("-v".into()),
                        'n' => {}
                        _ => return Err(bad(format!("`{letters}` is not known; {USAGE}"))),
                    }
                }
            }
        }
    }
    let [url, dir] = &places[..] else {
        return Err(bad(USAGE.to_owned()));
    };
    let options: Vec<&str> = lists.iter().flat_map(|list| list.split(',')).collect();
    if options.contains(&"remount") {
        let kernel: Vec<OsString> = vec!["weir".into(), "remount".into(), "-o".into()];
        let line = kernel.into_iter().chain([options.join(",").into(), "--".into(), dir.clone()]);
        return Ok((!fake).then(|| line.collect()));
    }
    let mut line: Vec<OsString> = vec!["weir".into(), "mount".into()];
    for option in options {
        flags.extend(translate(option, sloppy)?);
    }
    if !flags.iter().any(|flag| flag.to_string_lossy().starts_with("--tier=")) {
        let text = "option `tier` is missing: name a directory on a local disk, as in \
                    -o tier=/nvme/weir";
        return Err(bad(text.to_owned()));
    }
    line.extend(flags);
    line.extend(["--".into(), url.clone(), dir.clone()]);
    Ok((!fake).then_some(line))
}

/// One option of `-o` as flags. With `sloppy` (`-s`) unknown ones are passed over.
fn translate(option: &str, sloppy: bool) -> Result<Vec<OsString>> {
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    let flag = name.replace('_', "-");
    let ours = FLAGS.iter().find(|(known, _)| *known == flag);
    Ok(match (ours, value) {
        (Some((_, true)), Some(value)) => vec![format!("--{flag}={value}").into()],
        (Some((_, true)), None) => {
            return Err(bad(format!("option `{name}` needs a value: {name}=…")));
        }
        (Some((_, false)), None) => vec![format!("--{flag}").into()],
        (Some((_, false)), Some(_)) => {
            return Err(bad(format!("option `{name}` takes no value")));
        }
        (None, _) if matches!(option, "ro" | "read-only") => vec!["--read-only".into()],
        (None, _) if KERNEL.contains(&option) || matches!(name, "context" | "max_read") => {
            vec!["-o".into(), option.into()]
        }
        (None, _) if option.is_empty() || NOT_OURS.contains(&option) => Vec::new(),
        (None, _) if name == "comment" || name.starts_with("x-") || name.starts_with("X-") => {
            Vec::new()
        }
        (None, _) if sloppy => Vec::new(),
        (None, _) => {
            let known: Vec<&str> = FLAGS.iter().map(|(name, _)| *name).collect();
            return Err(bad(format!(
                "option `{option}` is not known; known are {}, ro, and those of mount(8)",
                known.join(", ")
            )));
        }
    })
}

fn text_after(word: &OsStr, next: Option<&OsString>) -> Result<String> {
    let text = next.and_then(|next| next.to_str());
    text.map(str::to_owned).ok_or_else(|| bad(format!("{} needs a value; {USAGE}", word.display())))
}

fn bad(text: String) -> FsError {
    FsError::new(ErrorKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn asked(line: &str) -> Result<Option<Vec<OsString>>> {
        weir_arguments(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_of_fstab_becomes_a_mount() {
        let line = "/sbin/mount.weir file:///srv/v /mnt -n -o \
                    rw,_netdev,nofail,x-systemd.automount,noexec,relatime,tier=/nvme,tier_size=64MiB,\
                    allow_other,take-over,endpoint=http://h:1,path_style";
        let argv = asked(line).expect("fine").expect("not fake");
        let Command::Mount(mount) = Cli::try_parse_from(argv).expect("parses").command else {
            panic!("mount expected");
        };
        assert_eq!(mount.url, "file:///srv/v");
        assert_eq!(mount.dir, Path::new("/mnt"));
        assert_eq!(mount.engine.tier, Path::new("/nvme"));
        assert_eq!(mount.engine.tier_size, Some(weir_types::Bytes::mib(64)));
        assert_eq!(mount.options, ["noexec", "relatime"]);
        assert!(mount.allow_other && mount.engine.take_over && mount.engine.connect.path_style);
        assert_eq!(mount.engine.connect.endpoint.as_deref(), Some("http://h:1"));
        assert!(!mount.engine.read_only);
    }

    #[test]
    fn every_flag_that_is_listed_exists() {
        for (flag, takes_value) in FLAGS {
            let value = match flag {
                "tier-size" | "size" | "memory" => "64MiB",
                "accept-loss" => "tier",
                "flush-age" | "nfs-lease" => "1s",
                "threads" => "2",
                "transport" => "dev",
                "admin-listen" | "nbd" | "nfs" => "127.0.0.1:1",
                "log-format" => "json",
                _ => "x",
            };
            let tls = "nbd=127.0.0.1:1,nbd-tls-cert=x,nbd-tls-key=x";
            let nfs_tls = "nfs=127.0.0.1:1,nfs-tls-cert=x,nfs-tls-key=x";
            let option = match flag {
                "nbd-tls-cert" | "nbd-tls-key" => tls.to_owned(),
                "admin-token-file" => format!("admin-listen=127.0.0.1:1,{flag}={value}"),
                "peer-listen" | "peer-address" => format!("shared,{flag}={value}"),
                "nbd-tls-client-ca" => format!("{tls},{flag}={value}"),
                "nfs-tls-cert" | "nfs-tls-key" => nfs_tls.to_owned(),
                "nfs-tls-client-ca" => format!("{nfs_tls},{flag}={value}"),
                "nfs-tls-required" => format!("{nfs_tls},{flag}"),
                "nfs-lease" => format!("nfs=127.0.0.1:1,{flag}={value}"),
                "manage-gids" => format!("nfs=127.0.0.1:1,{flag}"),
                _ if takes_value => format!("{flag}={value}"),
                _ => flag.to_owned(),
            };
            let tier = if flag == "tier" { "" } else { ",tier=/t" };
            let argv = asked(&format!("mount.weir s3://b /mnt -o {option}{tier}"));
            Cli::try_parse_from(argv.expect(flag).expect("not fake")).expect(flag);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, reason) in [
            ("mount.weir s3://b", "usage"),
            ("mount.weir s3://b /mnt", "tier=/nvme/weir"),
            ("mount.weir s3://b /mnt -o teir=/t", "`teir=/t`"),
            ("mount.weir s3://b /mnt -o tier", "needs a value"),
            ("mount.weir s3://b /mnt -o tier=/t,take-over=1", "takes no value"),
            ("mount.weir s3://b /mnt -o", "-o needs a value"),
            ("mount.weir s3://b /mnt -q", "`-q`"),
        ] {
            let error = asked(line).expect_err(line).to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
        assert!(asked("mount.weir s3://b /mnt -s -o tier=/t,teir=/t").is_ok());
        assert!(asked("mount.weir s3://b /mnt -f -o tier=/t").expect("fine").is_none());
    }
}
