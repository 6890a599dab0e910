//! A passphrase that who sits at the terminal is asked for: `--key-file -`.

use std::io::{IsTerminal, Read, stderr, stdin};
use std::path::Path;

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use weir_types::{ErrorKind, FsError, Result};
use zeroize::Zeroizing;

use crate::render;

/// More than a passphrase takes.
const MOST_BYTES: u64 = 4096;

/// Whether a key file is none, but a question.
pub(crate) fn is_asked_for(key_file: &Path) -> bool {
    key_file == Path::new("-")
}

/// Asks, and shows nothing of the answer; twice where it is a `new` one, which nobody can ask again once it is forgotten.
/// Where standard input is no terminal, all of it is the answer.
///
/// # Errors
/// `Invalid` where the two are not the same, or there is nobody to ask; `Interrupted` by Ctrl-C.
pub(crate) fn ask(question: &str, new: bool) -> Result<Zeroizing<String>> {
    if !stdin().is_terminal() {
        let mut text = Zeroizing::new(String::with_capacity(MOST_BYTES as usize + 32));
        let read = stdin().take(MOST_BYTES).read_to_string(&mut text);
        read.map_err(|e| FsError::local_io("read the passphrase from standard input", e))?;
        if text.is_empty() {
            let text = "--key-file - asks for the passphrase, and there is no terminal to ask on, nor anything on standard input";
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        return Ok(text);
    }
    let first = typed(question)?;
    if new && *typed("The same again")? != *first {
        return Err(FsError::new(ErrorKind::Invalid, "the two passphrases are not the same"));
    }
    Ok(first)
}

/// The terminal echoes again, whatever comes between.
struct Silent;

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
        render::tell("\n");
    }
}

fn typed(question: &str) -> Result<Zeroizing<String>> {
    if !stderr().is_terminal() {
        let text = "--key-file - asks for the passphrase on standard error, which is no terminal";
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let of_terminal = |e| FsError::local_io("ask at the terminal", e);
    render::tell(&format!("{question}: "));
    enable_raw_mode().map_err(of_terminal)?;
    let _silent = Silent;
    // Room for all: no copy stays behind where the memory grows.
    let mut words = Zeroizing::new(String::with_capacity(MOST_BYTES as usize + 32));
    loop {
        let Event::Key(key) = crossterm::event::read().map_err(of_terminal)? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if control => {
                return Err(FsError::new(ErrorKind::Interrupted, "no passphrase was given"));
            }
            KeyCode::Char('u') if control => words.clear(),
            KeyCode::Enter => return Ok(words),
            KeyCode::Char('j' | 'm') if control => return Ok(words),
            KeyCode::Backspace => drop(words.pop()),
            KeyCode::Char(letter) if !control && words.len() < MOST_BYTES as usize => {
                words.push(letter);
            }
            _ => {}
        }
    }
}
