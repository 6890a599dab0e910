//! Whether some order of what nodes did, one after the other, explains what each was told (Wing and
//! Gong's search, which remembers where it was).

use std::collections::HashSet;

use crate::op::Leaf;
use crate::tree::{End, Entry, NameOp, Progress, Step, Tree};

/// What was told of an operation on names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Done,
    /// What a file that was made is.
    Ino(u64),
    Leaf(Leaf),
    Failed(i32),
    /// Nobody knows whether it happened, or will.
    Maybe,
}

/// One operation on names, from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) op: NameOp,
    pub(crate) seen: Seen,
}

/// Where the search ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Explained,
    Unexplained,
    /// There are too many orders.
    Undecided,
}

/// Looks for an order of all calls that ends with this tree.
pub(crate) fn explain(calls: &[Call], last: &[Leaf]) -> Verdict {
    assert!(calls.len() < 200, "a round is short");
    let mut search = Search { calls, last, been: HashSet::new() };
    match search.from(&vec![Progress::default(); calls.len()], &Tree::default()) {
        true => Verdict::Explained,
        false if search.been.len() >= Search::MOST => Verdict::Undecided,
        false => Verdict::Unexplained,
    }
}

struct Search<'a> {
    calls: &'a [Call],
    last: &'a [Leaf],
    been: HashSet<(Vec<Progress>, Tree)>,
}

impl Search<'_> {
    const MOST: usize = 400_000;

    fn from(&mut self, at: &[Progress], tree: &Tree) -> bool {
        let open = |n: &usize| !at[*n].done;
        let all = 0..self.calls.len();
        if all.clone().filter(open).all(|n| self.calls[n].seen == Seen::Maybe) && self.is_last(tree)
        {
            return true;
        }
        if self.been.len() >= Self::MOST || !self.been.insert((at.to_owned(), tree.clone())) {
            return false;
        }
        let end = |n: usize| match self.calls[n].seen {
            Seen::Maybe => u64::MAX,
            _ => self.calls[n].end,
        };
        let first_end = all.clone().filter(open).map(end).min().unwrap_or(u64::MAX);
        for n in all.filter(open).filter(|n| self.calls[*n].start <= first_end) {
            let op = self.calls[n].op;
            if self.calls[n].seen == Seen::Failed(libc::ESTALE) && tree.may_be_stale(op) {
                let mut next = at.to_owned();
                next[n] = Progress::ended();
                if self.from(&next, tree) {
                    return true;
                }
            }
            for step in tree.step(op, n as u8, at[n]) {
                let mut next = at.to_owned();
                let found = match step {
                    Step::Goes(progress) => {
                        next[n] = progress;
                        self.from(&next, tree)
                    }
                    Step::Ends(told, tree) => {
                        next[n] = Progress::ended();
                        self.is_told(n, told) && self.from(&next, &tree)
                    }
                };
                if found {
                    return true;
                }
            }
        }
        false
    }

    fn ino(&self, file: u8) -> Option<u64> {
        match self.calls[usize::from(file)].seen {
            Seen::Ino(ino) => Some(ino),
            _ => None,
        }
    }

    /// Whether what the model says is what was told.
    fn is_told(&self, n: usize, model: End) -> bool {
        let is =
            |leaf: &Leaf, file| !leaf.is_dir && self.ino(file).is_none_or(|ino| ino == leaf.ino);
        match (&self.calls[n].seen, model) {
            (Seen::Maybe, _) | (Seen::Done | Seen::Ino(_), End::Done) => true,
            (Seen::Leaf(leaf), End::File(file, links)) => is(leaf, file) && leaf.links == links,
            (Seen::Leaf(leaf), End::Is(Entry::File(file))) => is(leaf, file),
            (Seen::Leaf(leaf), End::Is(Entry::Dir(_))) => leaf.is_dir,
            (Seen::Failed(number), End::Failed(errno)) => *number == errno.raw_os_error(),
            _ => false,
        }
    }

    fn is_last(&self, tree: &Tree) -> bool {
        let leaves = tree.leaves(&|file| self.ino(file));
        leaves.len() == self.last.len()
            && leaves.iter().zip(self.last).all(|((model, known), leaf)| {
                model.path == leaf.path
                    && (model.is_dir, model.links) == (leaf.is_dir, leaf.links)
                    && (!known || model.ino == leaf.ino)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::How;
    use crate::tree::Path;

    const A: Path = Path { parent: None, name: 0 };
    const B: Path = Path { parent: None, name: 1 };
    const D0: Path = Path { parent: None, name: 3 };
    const D1: Path = Path { parent: None, name: 4 };

    fn call(start: u64, end: u64, op: NameOp, seen: Seen) -> Call {
        Call { start, end, op, seen }
    }

    fn file(path: &str, ino: u64) -> Leaf {
        Leaf { path: path.to_owned(), is_dir: false, ino, links: 1, size: 0 }
    }

    fn directory(path: &str) -> Leaf {
        Leaf { path: path.to_owned(), is_dir: true, ino: 9, links: 0, size: 0 }
    }

    const EXISTS: Seen = Seen::Failed(libc::EEXIST);
    const NONE: Seen = Seen::Failed(libc::ENOENT);

    #[test]
    fn two_that_create_one_name_cannot_both_have_made_it() {
        let calls = |second| {
            [call(0, 10, NameOp::Create(A), Seen::Ino(1)), call(5, 20, NameOp::Create(A), second)]
        };
        assert_eq!(explain(&calls(EXISTS), &[file("a", 1)]), Verdict::Explained);
        assert_eq!(explain(&calls(Seen::Ino(2)), &[file("a", 1)]), Verdict::Unexplained);
        // Nor can it be another file than the one that was made, or none.
        assert_eq!(explain(&calls(EXISTS), &[file("a", 7)]), Verdict::Unexplained);
        assert_eq!(explain(&calls(EXISTS), &[]), Verdict::Unexplained);
        assert_eq!(explain(&calls(Seen::Maybe), &[file("a", 1)]), Verdict::Explained);
    }

    #[test]
    fn who_looks_after_the_end_sees_it_and_who_looks_beside_it_may() {
        let calls = |start, seen| {
            [
                call(0, 1, NameOp::Create(A), Seen::Ino(1)),
                call(2, 10, NameOp::Rename(A, B, How::Replace), Seen::Done),
                call(start, 12, NameOp::Look(A), seen),
            ]
        };
        let last = [file("b", 1)];
        assert_eq!(explain(&calls(9, Seen::Leaf(file("a", 1))), &last), Verdict::Explained);
        assert_eq!(explain(&calls(9, NONE), &last), Verdict::Explained);
        assert_eq!(explain(&calls(11, NONE), &last), Verdict::Explained);
        assert_eq!(explain(&calls(11, Seen::Leaf(file("a", 1))), &last), Verdict::Unexplained);
    }

    #[test]
    fn directories_that_go_into_each_other_leave_a_tree() {
        let within = |parent: Path, name| Path { parent: Some(parent.name), name };
        let calls = |second| {
            [
                call(0, 1, NameOp::Mkdir(D0), Seen::Done),
                call(2, 3, NameOp::Mkdir(D1), Seen::Done),
                call(4, 9, NameOp::Rename(D0, within(D1, 0), How::Replace), Seen::Done),
                call(4, 9, NameOp::Rename(D1, within(D0, 0), How::Replace), second),
            ]
        };
        let last = [directory("d1"), directory("d1/a")];
        assert_eq!(explain(&calls(NONE), &last), Verdict::Explained);
        assert_eq!(explain(&calls(Seen::Failed(libc::EINVAL)), &last), Verdict::Explained);
        assert_eq!(explain(&calls(Seen::Done), &[]), Verdict::Unexplained);
        assert_eq!(explain(&calls(Seen::Done), &last), Verdict::Unexplained);
    }

    #[test]
    fn stale_is_what_a_directory_may_be_and_no_file() {
        let stale = Seen::Failed(libc::ESTALE);
        let calls =
            |made, seen, stale_op| [call(0, 1, made, seen), call(2, 3, stale_op, stale.clone())];
        let rename = NameOp::Rename(D0, B, How::Replace);
        let of_directory = calls(NameOp::Mkdir(D0), Seen::Done, rename);
        assert_eq!(explain(&of_directory, &[directory("d0")]), Verdict::Explained);
        assert_eq!(explain(&of_directory, &[directory("b")]), Verdict::Unexplained);
        let of_file = calls(NameOp::Create(D0), Seen::Ino(1), rename);
        assert_eq!(explain(&of_file, &[file("d0", 1)]), Verdict::Unexplained);
    }

    #[test]
    fn what_nobody_knows_may_have_happened_or_not() {
        let calls = [
            call(0, 1, NameOp::Create(A), Seen::Ino(1)),
            call(2, 3, NameOp::Unlink(A), Seen::Maybe),
            call(9, 10, NameOp::Look(A), Seen::Leaf(file("a", 1))),
        ];
        assert_eq!(explain(&calls, &[]), Verdict::Explained);
        assert_eq!(explain(&calls, &[file("a", 1)]), Verdict::Explained);
        assert_eq!(explain(&calls, &[file("b", 1)]), Verdict::Unexplained);
    }
}
