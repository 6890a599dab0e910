//! The token of the port of the machine: who sends it may cancel actions. It is in a file of the
//! daemon's user alone, which is read anew for each request, so that another token counts at once.
//! It is in no log, no answer and no command line.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use axum::http::{HeaderMap, header};
use weir_types::{ErrorKind, FsError, Result};

/// A token that is shorter can be guessed.
const LENGTH_MIN: usize = 16;
const LENGTH_MAX: usize = 1024;
/// What group and others may.
const OTHERS: u32 = 0o077;

/// Where the token is.
#[derive(Clone, Debug)]
pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    /// A file with a token that can be used.
    ///
    /// # Errors
    /// `Permission` where others may read it; `Invalid` where it has no token.
    pub(crate) fn new(path: PathBuf) -> Result<Self> {
        read(&path)?;
        Ok(Self(path))
    }

    /// Whether a request has the token that is in the file now.
    ///
    /// # Errors
    /// As [`TokenFile::new`].
    pub(crate) async fn admits(&self, headers: &HeaderMap) -> Result<bool> {
        let path = self.0.clone();
        let token = tokio::task::spawn_blocking(move || read(&path)).await;
        let token =
            token.map_err(|e| FsError::new(ErrorKind::Bug, format!("the token: {e}")))??;
        Ok(sent(headers).is_some_and(|sent| same(sent.as_bytes(), token.as_bytes())))
    }
}

fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let refused =
        |kind, why: &str| FsError::new(kind, format!("--admin-token-file {shown}: {why}"));
    let at = |error| FsError::local_io(format!("--admin-token-file {shown}"), error);
    // What is no file must not be waited for.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(at)?;
    let found = file.metadata().map_err(at)?;
    if !found.is_file() {
        return Err(refused(ErrorKind::Invalid, "it is no file"));
    }
    let mine = rustix::process::geteuid().as_raw();
    if found.uid() != mine && found.uid() != 0 {
        let text = format!("it belongs to user {}: give it to user {mine} (chown)", found.uid());
        return Err(refused(ErrorKind::Permission, &text));
    }
    if found.mode() & OTHERS != 0 {
        let text = "other users of this machine may read it: chmod 600 it, and write another token \
                    into it, for this one may be known";
        return Err(refused(ErrorKind::Permission, text));
    }
    let mut bytes = Vec::new();
    file.take(LENGTH_MAX as u64 + 2).read_to_end(&mut bytes).map_err(at)?;
    let token = bytes.trim_ascii();
    if !(LENGTH_MIN..=LENGTH_MAX).contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic)
    {
        let text = format!(
            "a token is {LENGTH_MIN} to {LENGTH_MAX} letters, digits and signs without a space; \
             `openssl rand -hex 32` makes one"
        );
        return Err(refused(ErrorKind::Invalid, &text));
    }
    Ok(String::from_utf8_lossy(token).into_owned())
}

/// The token of a request.
fn sent(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Takes as long wherever they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    let pairs = a.iter().zip(b);
    let differ = pairs.fold(a.len() ^ b.len(), |differ, (a, b)| {
        std::hint::black_box(differ | usize::from(a ^ b))
    });
    differ == 0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use axum::http::HeaderValue;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn file(directory: &Path, text: &str, mode: u32) -> PathBuf {
        let path = directory.join("token");
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        path
    }

    fn with(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_others_may_read_or_anybody_may_guess_is_no_token() {
        let directory = tempfile::tempdir().expect("a directory");
        let refused = |path: PathBuf| TokenFile::new(path).expect_err("refused").to_string();
        let at = directory.path();
        for mode in [0o640, 0o604, 0o660, 0o644, 0o610] {
            let error = refused(file(at, TOKEN, mode));
            assert!(error.contains("chmod 600") && !error.contains(TOKEN), "{mode:o}: {error}");
        }
        let long = "x".repeat(LENGTH_MAX + 1);
        for text in
            ["", "\n", " \t\n", "short", "two words of a token", "t\u{f6}ken of 16 letters", &long]
        {
            let error = refused(file(at, text, 0o600));
            assert!(error.contains("openssl rand"), "{text:?}: {error}");
        }
        assert!(refused(at.join("none")).contains("--admin-token-file"));
        assert!(refused(at.to_owned()).contains("no file"));
        let pipe = at.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("a pipe");
        assert!(refused(pipe).contains("no file"), "nobody waits for who writes into it");
        for mode in [0o600, 0o400] {
            TokenFile::new(file(&at.join("."), &format!("{TOKEN}\n"), mode)).expect("fine");
            fs::remove_file(at.join("token")).expect("removes");
        }
    }

    #[tokio::test]
    async fn who_has_the_token_that_is_there_now_is_let_in() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = file(directory.path(), &format!("{TOKEN}\n"), 0o600);
        let tokens = TokenFile::new(path.clone()).expect("fine");
        for right in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef "] {
            assert!(tokens.admits(&with(&[right])).await.expect("reads"), "{right}");
        }
        for wrong in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["0123456789abcdef"],
            &["Basic 0123456789abcdef"],
            &["Bearer 0123456789abcdee"],
            &["Bearer 0123456789abcde"],
            &["Bearer 0123456789abcdef0"],
            &["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"],
        ] {
            assert!(!tokens.admits(&with(wrong)).await.expect("reads"), "{wrong:?}");
        }
        fs::write(&path, "another-token-of-length").expect("writes");
        assert!(!tokens.admits(&with(&["Bearer 0123456789abcdef"])).await.expect("reads"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        assert!(tokens.admits(&with(&["Bearer x"])).await.is_err(), "it was shown to others");
        fs::remove_file(&path).expect("removes");
        assert!(tokens.admits(&with(&["Bearer "])).await.is_err());
    }
}
