//! Which part of two trees a run is about.

/// Which part of two trees a run is about. All of them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// One path below the top, and nothing else: not the top itself either. Directories above it that are missing
    /// come with it.
    pub only: Option<Vec<u8>>,
    /// Paths below the top that stay as they are, with all that is in them.
    pub leave: Vec<Vec<u8>>,
}

impl Scope {
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let of_only = |only: &Vec<u8>| {
            path.strip_prefix(&only[..]).is_some_and(is_end) || is_below(only, path)
        };
        self.only.as_ref().is_none_or(of_only) && !self.leave.iter().any(|left| left == path)
    }

    /// Whether what stays as it is lies below this path.
    pub(crate) fn leaves_below(&self, path: &[u8]) -> bool {
        self.leave.iter().any(|left| is_below(left, path))
    }
}

fn is_below(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn is_end(rest: &[u8]) -> bool {
    matches!(rest.first(), None | Some(b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole() {
        let scope = Scope { only: Some(b"a".into()), leave: vec![b"a/b/c".into()] };
        let deep = Scope { only: Some(b"x/y".into()), ..Scope::default() };
        assert!(deep.has(b"x") && deep.has(b"x/y/z") && !deep.has(b"x/z") && !deep.has(b"xx"));
        for (path, is_in) in
            [("a", true), ("a/b", true), ("ab", false), ("b", false), ("a/b/c", false)]
        {
            assert_eq!(scope.has(path.as_bytes()), is_in, "{path}");
        }
        assert!(scope.leaves_below(b"a/b") && scope.leaves_below(b"a"));
        assert!(!scope.leaves_below(b"a/b/c") && !scope.leaves_below(b"a/b/"));
    }
}
