//! Whether what is in directories counts for the quotas that it lies in. Of trees only directories are looked at: a file
//! may have had a name in another one, which is where it was counted last.

use std::collections::HashMap;

use weir_types::{Account, Ino, TreeId};

use crate::{QuotaOf, QuotaRow};

const AGAIN: &str = "remove the quota and set it anew: `weir quota remove`, `weir quota set`";

/// Which quotas there are.
#[derive(Default)]
pub(super) struct Accounts {
    tops: HashMap<Ino, TreeId>,
    /// What lies in a tree may not count for it yet, or still for another one.
    trees_move: bool,
    /// All count for their users and groups.
    owners_count: bool,
    owners_move: bool,
}

impl Accounts {
    pub(super) fn quota(&mut self, of: QuotaOf, row: &QuotaRow) {
        let moves = row.counting || row.removed;
        match of {
            QuotaOf::Tree(tree) => {
                self.trees_move |= moves;
                self.tops.extend(row.root.map(|root| (root, tree)));
            }
            QuotaOf::User(_) | QuotaOf::Group(_) => {
                self.owners_count |= !moves;
                self.owners_move |= moves;
            }
        }
    }

    /// What is wrong about whom an inode counts for, by that of the directory that it is in. Of a file only that of its owners
    /// is looked at.
    pub(super) fn misplaced(
        &self,
        (ino, is_dir): (Ino, bool),
        counts: Account,
        above: Account,
    ) -> Option<String> {
        let lies_in = self.tops.get(&ino).copied().or(above.tree);
        if is_dir && !self.trees_move && counts.tree != lies_in {
            let name = |tree: Option<TreeId>| match tree {
                Some(tree) => format!("the quota of tree {}", tree.0),
                None => "no quota of a tree".to_owned(),
            };
            let (counts, lies_in) = (name(counts.tree), name(lies_in));
            return Some(format!("counts for {counts} and lies in {lies_in}; {AGAIN}"));
        }
        if self.owners_count && !self.owners_move && !counts.owners {
            return Some(format!("does not count for its user and its group; {AGAIN}"));
        }
        None
    }
}
