//! Links as text.

use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_engine::{Conditions, HeldDeletions, ImportView, LinkView};
use weir_types::Bytes;

use super::plan;
use crate::render::{files, heading, objects, seconds, table};
use crate::values::policy_text;
use crate::{clock, targets};

/// A link and where it is.
#[derive(Serialize)]
pub(super) struct LinksReport<L> {
    pub(super) mountpoint: PathBuf,
    #[serde(flatten)]
    pub(super) link: L,
}

/// How far an import is.
pub(super) fn importing(import: &ImportView) -> String {
    let removed = match import.removed {
        0 => String::new(),
        removed => format!(", {} removed", files(removed)),
    };
    format!("{} listed, {} imported{removed}", objects(import.listed), files(import.imported))
}

/// What a link made.
pub(super) fn linked(view: &LinkView, path: &Path) -> String {
    let (at, url) = (path.display(), &view.options.url);
    let mut text = format!("{at} shows {url}: {}, {}\n", files(view.files), Bytes(view.bytes));
    if let Some(import) = &view.importing {
        text.push_str(&format!(
            "the import goes on ({}): see `weir links {at}`\n",
            importing(import)
        ));
    }
    if let Some(held) = &view.held_deletions {
        text.push_str(&format!("{}\n", held_deletions(held, &at.to_string())));
    }
    text.push_str(&plan::polls_warning(view).unwrap_or_default());
    if view.hidden > 0 {
        text.push_str(&format!(
            "{} cannot show as files: see `weir links {at} --hidden`\n",
            objects(view.hidden)
        ));
    }
    text
}

/// How a link stands.
pub(super) fn link(view: &LinkView, mountpoint: &Path) -> String {
    let path = targets::above(mountpoint, &view.path);
    let title = format!("{} on {}", view.options.url, path.display());
    format!("{}\n{}", heading(&title), table(&facts(view, &path), 2))
}

fn facts(view: &LinkView, path: &Path) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
    row("files", format!("{}, {}", files(view.files), Bytes(view.bytes)));
    if view.hidden > 0 {
        row(
            "hidden",
            format!("{} cannot show as files: --hidden lists them", objects(view.hidden)),
        );
    }
    let options = &view.options;
    let every = match options.import == weir_engine::Policy::default() {
        true => String::new(),
        false => format!(", polled every {}{}", seconds(options.poll_s), plan::polls_text(view)),
    };
    let lazy = if options.lazy_dirs { ", directories when they are looked into" } else { "" };
    row("import", format!("{}{every}{lazy}", policy_text(options.import)));
    row("export", policy_text(options.export));
    if let Some(conditions) = view.conditions {
        row("server", holds(conditions));
    }
    match (&view.importing, view.imported_unix_ms) {
        (Some(import), _) => row("importing", importing(import)),
        (None, Some(at)) => row("last import", format!("{} ago", ago(at))),
        (None, None) => row("last import", "none ended yet".to_owned()),
    }
    if let Some(error) = &view.import_error {
        row("IMPORT FAILED", error.clone());
    }
    if let Some(held) = &view.held_deletions {
        row("DELETIONS HELD", held_deletions(held, &path.display().to_string()));
    }
    if view.export_waiting > 0 {
        row("export waits", files(view.export_waiting));
    }
    if view.export_failed > 0 {
        let why = view.export_error.as_deref().unwrap_or("see the log");
        row("EXPORT FAILED", format!("{}, tried again: {why}", files(view.export_failed)));
    }
    if view.conflicts > 0 {
        let text = format!("{} since the mount: see *.weir-conflict-*", view.conflicts);
        row("conflicts", text);
    }
    rows
}

/// Deletions in the bucket that wait for somebody to say that they are meant.
pub(crate) fn held_deletions(held: &HeldDeletions, at: &str) -> String {
    format!(
        "{} of {} in its link are gone from the bucket, and none is removed here: look whether that is so, then \
         `weir refresh {at} --confirm`",
        files(held.files),
        held.of
    )
}

/// What the server does about the conditions of a PUT.
fn holds(conditions: Conditions) -> String {
    let ignored = match (conditions.absent, conditions.matches) {
        (true, true) => return "overwrites nothing that others put".to_owned(),
        (false, true) => "If-None-Match",
        (true, false) => "If-Match",
        (false, false) => "If-Match and If-None-Match",
    };
    format!(
        "takes no notice of {ignored}: each object is looked at right before it is written, and \
         what somebody puts there in that moment is lost"
    )
}

fn ago(unix_ms: i64) -> String {
    let past = clock::now().0 / 1_000_000_000 - unix_ms / 1_000;
    seconds(u64::try_from(past).unwrap_or(0))
}

#[cfg(test)]
pub(super) mod tests {
    use weir_engine::{Attributes, LinkId, LinkOptions, Policy};
    use weir_types::Ino;

    use super::*;

    pub(in super::super) fn view(url: &str) -> LinkView {
        LinkView {
            id: LinkId(2),
            ino: Ino(9),
            path: "db".to_owned(),
            options: LinkOptions {
                url: url.to_owned(),
                import: Policy { new: true, changed: false, deleted: true },
                export: Policy::default(),
                lazy_dirs: false,
                attributes: Attributes::Auto,
                poll_s: 60,
                endpoint: None,
                region: None,
                profile: None,
                anonymous: false,
            },
            files: 3,
            bytes: 3 << 30,
            hidden: 0,
            importing: None,
            imported_unix_ms: None,
            import_error: None,
            export_waiting: 0,
            export_failed: 0,
            export_error: None,
            conflicts: 0,
            conditions: None,
            held_deletions: None,
        }
    }

    #[test]
    fn a_quiet_link_says_little_and_trouble_is_told() {
        let mut view = view("s3://b/db");
        let text = link(&view, Path::new("/mnt"));
        assert_eq!(
            text,
            "s3://b/db on /mnt/db\n  files        3 files, 3 GiB\n  import       new,deleted, \
             polled every 1 min 0 s, about $0.219 a month\n  export       none\n  last import  none ended yet\n"
        );
        view.hidden = 4;
        view.import_error = Some("no such bucket".to_owned());
        view.export_failed = 2;
        view.conflicts = 1;
        let text = link(&view, Path::new("/mnt"));
        for wanted in ["--hidden", "IMPORT FAILED  no such bucket", "2 files, tried again", "conf"]
        {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        view.conditions = Some(Conditions { absent: true, matches: false });
        let text = link(&view, Path::new("/mnt"));
        assert!(text.contains("takes no notice of If-Match: each object is looked at"), "{text}");
        view.held_deletions = Some(HeldDeletions { files: 900, of: 1_000 });
        let text = link(&view, Path::new("/mnt"));
        assert!(text.contains("900 files of 1000 in its link"), "{text}");
        assert!(text.contains("`weir refresh /mnt/db --confirm`"), "{text}");
        let text = linked(&view, Path::new("/mnt/db"));
        assert!(text.contains("weir links /mnt/db --hidden"), "{text}");
    }

    #[test]
    fn an_import_tells_how_far_it_is() {
        let import = ImportView { listed: 2_000, imported: 1, removed: 0, since_unix_ms: 0 };
        assert_eq!(importing(&import), "2000 objects listed, 1 file imported");
    }
}
