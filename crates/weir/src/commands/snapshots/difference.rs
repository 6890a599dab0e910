//! What is different between two snapshots, as people read it.

use std::collections::HashMap;

use serde::Serialize;
use weir_engine::{DifferenceView, NameChange};

/// What became of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Became {
    Added,
    Removed,
    Renamed,
    Content,
    Attributes,
}

/// A name that is different, or a file that has another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) change: Became,
    pub(super) path: String,
    /// What it was called before, if it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    pub(super) kind: String,
    /// A file that was renamed has other bytes, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) rewritten: bool,
}

/// A file that lost one name and has another was renamed. By path.
pub(super) fn with_renames(found: Vec<DifferenceView>) -> Vec<Line> {
    let (removed, rest): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|one| one.change == NameChange::Removed);
    let mut gone: HashMap<u64, Vec<DifferenceView>> = HashMap::new();
    for one in removed {
        gone.entry(one.ino).or_default().push(one);
    }
    let mut lines = Vec::new();
    for one in rest {
        let was = match one.change {
            NameChange::Added => gone.get_mut(&one.ino).and_then(Vec::pop),
            _ => None,
        };
        let change = match one.change {
            NameChange::Added if was.is_some() => Became::Renamed,
            NameChange::Added => Became::Added,
            NameChange::Removed => Became::Removed,
            NameChange::Content => Became::Content,
            NameChange::Attributes => Became::Attributes,
        };
        let rewritten = change == Became::Renamed && one.rewritten;
        let from = was.map(|was| was.path);
        lines.push(Line { change, path: one.path, from, kind: one.kind, rewritten });
    }
    lines.extend(gone.into_values().flatten().map(|one| Line {
        change: Became::Removed,
        path: one.path,
        from: None,
        kind: one.kind,
        rewritten: false,
    }));
    lines.sort_by(|a, b| (&a.path, &a.from).cmp(&(&b.path, &b.from)));
    lines
}

/// A line for each.
pub(super) fn lines(all: &[Line]) -> String {
    let line = |one: &Line| {
        let slash = if one.kind == "directory" { "/" } else { "" };
        let path = format!("{}{slash}", one.path.escape_debug());
        match (&one.from, one.change) {
            (Some(from), _) => {
                let more = if one.rewritten { ", and has other bytes" } else { "" };
                format!("R {}{slash} -> {path}{more}\n", from.escape_debug())
            }
            (_, Became::Added | Became::Renamed) => format!("+ {path}\n"),
            (_, Became::Removed) => format!("- {path}\n"),
            (_, Became::Content) => format!("M {path}\n"),
            (_, Became::Attributes) => format!("A {path}\n"),
        }
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(change: NameChange, path: &str, ino: u64) -> DifferenceView {
        let (path, kind) = (path.to_owned(), "file".to_owned());
        DifferenceView { change, path, kind, ino, rewritten: ino == 9 }
    }

    #[test]
    fn names_that_moved_are_one_line() {
        use NameChange::{Added, Attributes, Content, Removed};
        let mut found = vec![
            one(Added, "/z", 7),
            one(Removed, "/a", 7),
            one(Removed, "/gone", 8),
            one(Content, "/m", 3),
            one(Attributes, "/n", 4),
            one(Added, "/linked", 3),
            one(Added, "/other", 9),
            one(Removed, "/line\nbreak", 9),
        ];
        found[1].kind = "directory".to_owned();
        found[0].kind = "directory".to_owned();
        let text = lines(&with_renames(found));
        let wanted = "- /gone\n+ /linked\nM /m\nA /n\n\
                      R /line\\nbreak -> /other, and has other bytes\nR /a/ -> /z/\n";
        assert_eq!(text, wanted);
        assert_eq!(lines(&[]), "");
    }
}
