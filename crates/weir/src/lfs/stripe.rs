//! `lfs getstripe` and `lfs setstripe`. They need no daemon: a layout is an extended attribute.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;

use super::answer::{Answer, Failure};
use super::layout::{Component, Layout, OPTIONS};
use super::words::{self, Known, Words, flag};

/// Where the layout of a file or directory is kept, as the options of `setstripe`.
const ATTRIBUTE: &str = "user.weir.stripe";
/// Most bytes of it.
const ATTRIBUTE_MAX: usize = 8 << 10;

const GET: [Known; 13] = [
    flag('c', &["stripe-count", "count"]),
    flag('S', &["stripe-size", "size"]),
    flag('i', &["stripe-index", "index", "offset"]),
    flag('L', &["layout"]),
    flag('p', &["pool"]),
    flag('g', &["generation"]),
    flag('m', &["mdt", "mdt-index"]),
    flag('\x01', &["component-count", "comp-count"]),
    flag('d', &["directory"]),
    flag('q', &["quiet"]),
    flag('r', &["recursive"]),
    flag('v', &["verbose"]),
    flag('R', &["raw"]),
];

/// Those of [`GET`] that ask for one value, and its label where several are asked for.
const VALUES: [(char, &str); 8] = [
    ('\x01', "component_count:"),
    ('c', "lmm_stripe_count: "),
    ('S', "lmm_stripe_size:  "),
    ('L', "lmm_pattern:      "),
    ('g', "lmm_layout_gen:   "),
    ('i', "lmm_stripe_offset:"),
    ('p', "lmm_pool:         "),
    ('m', "lmm_mdt_index:    "),
];

pub(super) fn get(words: &[OsString], answer: &mut Answer) -> Result<(), Failure> {
    let words = words::read(words, &GET)?;
    if words.operands.is_empty() {
        return Err(Failure::new(Errno::INVAL, "a path is missing: see `lfs help`"));
    }
    for path in &words.operands {
        show(path, 0, &words, answer);
    }
    Ok(())
}

/// A file, or a directory and, unless `-d` is given, what is in it.
fn show(path: &OsStr, depth: usize, words: &Words, answer: &mut Answer) {
    if let Err(error) = try_show(path, depth, words, answer) {
        answer.fail(Some(Path::new(path)), &system(&error));
    }
}

fn try_show(path: &OsStr, depth: usize, words: &Words, answer: &mut Answer) -> io::Result<()> {
    let at = Path::new(path);
    let metadata = if depth == 0 { fs::metadata(at)? } else { fs::symlink_metadata(at)? };
    if metadata.is_file() {
        let text = of_file(&layout_of(at, metadata.dev()), metadata.size(), metadata.ino(), words);
        if !wants_values(words) {
            answer.line(path, "");
        }
        answer.text(&text);
    }
    if !metadata.is_dir() {
        return Ok(());
    }
    let text = of_directory(&layout_of(at, metadata.dev()), words);
    if !wants_values(words) && !words.has('d') {
        answer.line(path, "");
    }
    answer.text(&text);
    if words.has('d') || (depth > 0 && !words.has('r')) {
        return Ok(());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(at)? {
        let entry = entry?;
        // Without -r directories are named, but are not gone into.
        if !entry.file_type()?.is_symlink() {
            names.push(entry.file_name());
        }
    }
    names.sort();
    for name in names {
        let mut inner = path.to_owned();
        inner.push("/");
        inner.push(name);
        show(&inner, depth + 1, words, answer);
    }
    Ok(())
}

fn wants_values(words: &Words) -> bool {
    VALUES.iter().any(|(letter, _)| words.has(*letter))
}

/// The layout of what is at `path`, else that of the nearest directory above it in the same mount.
fn layout_of(path: &Path, device: u64) -> Layout {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let same = |at: &&Path| fs::symlink_metadata(at).is_ok_and(|m| m.dev() == device);
    let mut kept = real.ancestors().take_while(same).filter_map(kept);
    kept.next().unwrap_or_default()
}

fn kept(path: &Path) -> Option<Layout> {
    let mut bytes = vec![0; ATTRIBUTE_MAX];
    let length = getxattr(path, ATTRIBUTE, &mut bytes[..]).ok()?;
    bytes.truncate(length);
    Layout::parse(&String::from_utf8(bytes).ok()?).ok()
}

/// What is told of a file, after its path.
fn of_file(layout: &Layout, size: u64, ino: u64, words: &Words) -> String {
    let reached = layout.reached(size);
    let Some(last) = layout.components.get(reached) else {
        return String::new();
    };
    if wants_values(words) {
        return values(layout, last, false, words);
    }
    if !layout.composite {
        let quiet = words.has('q');
        let head = if quiet { String::new() } else { fields(last, "", true) };
        return format!("{head}{}\n", objects(last, ino));
    }
    let mut text = entries(layout, reached + 1);
    let mut start = 0;
    for (at, component) in layout.components.iter().enumerate() {
        let (id, initial) = ((at + 1).to_string(), at <= reached);
        text.push_str(&entry(&id, "0", if initial { "init" } else { "0" }, start, component));
        text.push_str(&fields(component, "      ", initial));
        if initial && component.pattern != "mdt" {
            text.push_str("      lmm_objects:\n");
            for n in 0..targets(component) {
                let target = first(component) + n;
                text.push_str(&format!(
                    "      - {n}: {{ l_ost_idx: {target}, l_fid: [0x100000000:{ino:#x}:0x0] }}\n"
                ));
            }
        }
        text.push('\n');
        start = component.end.unwrap_or(0);
    }
    text
}

/// What is told of a directory, after its path: what new files in it would have.
fn of_directory(layout: &Layout, words: &Words) -> String {
    let Some(last) = layout.components.last() else {
        return String::new();
    };
    if wants_values(words) {
        return values(layout, last, true, words);
    }
    if !layout.composite {
        return format!("{}\n", short(last, " "));
    }
    let mut text = entries(layout, 0);
    let mut start = 0;
    for component in &layout.components {
        text.push_str(&entry("N/A", "N/A", "0", start, component));
        text.push_str(&format!("      {}\n\n", short(component, "       ")));
        start = component.end.unwrap_or(0);
    }
    text
}

fn entries(layout: &Layout, generation: usize) -> String {
    let count = layout.components.len();
    format!(
        "  lcm_layout_gen:    {generation}\n  lcm_mirror_count:  1\n  lcm_entry_count:   {count}\n"
    )
}

fn entry(id: &str, mirror: &str, flags: &str, start: u64, component: &Component) -> String {
    let end = component.end.map_or_else(|| "EOF".to_owned(), |end| end.to_string());
    format!(
        "    lcme_id:             {id}\n    lcme_mirror_id:      {mirror}\n    lcme_flags:          \
         {flags}\n    lcme_extent.e_start: {start}\n    lcme_extent.e_end:   {end}\n"
    )
}

fn short(component: &Component, gap: &str) -> String {
    let Component { count, size, index, pattern, pool, .. } = component;
    let mut text = format!(
        "stripe_count:  {count}{gap}stripe_size:   {size}{gap}pattern:       \
         {pattern}{gap}stripe_offset: {index}"
    );
    if let Some(pool) = pool {
        text.push_str(&format!("{gap}pool:          {pool}"));
    }
    text
}

fn fields(component: &Component, indent: &str, initial: bool) -> String {
    let Component { count, size, pattern, pool, .. } = component;
    let offset = if initial { first(component) } else { component.index };
    let count = if initial { targets(component) } else { *count };
    let mut text = format!(
        "{indent}lmm_stripe_count:  {count}\n{indent}lmm_stripe_size:   \
         {size}\n{indent}lmm_pattern:       {pattern}\n{indent}lmm_layout_gen:    \
         0\n{indent}lmm_stripe_offset: {offset}\n"
    );
    if let Some(pool) = pool {
        text.push_str(&format!("{indent}lmm_pool:          {pool}\n"));
    }
    text
}

/// The objects of a plain file. There is one target here, so they are what the layout would give.
fn objects(component: &Component, ino: u64) -> String {
    let mut text = "\tobdidx\t\t objid\t\t objid\t\t group\n".to_owned();
    for n in 0..targets(component) {
        let target = first(component) + n;
        text.push_str(&format!("\t{target:>6}\t{ino:>14}\t{ino:>#13x}\t{:>14}\n", 0));
    }
    text
}

/// Targets that a file has once it is there: "all" are one.
fn targets(component: &Component) -> i64 {
    component.count.max(1)
}

fn first(component: &Component) -> i64 {
    component.index.max(0)
}

/// One value alone, or several with their labels.
fn values(layout: &Layout, component: &Component, directory: bool, words: &Words) -> String {
    let asked: Vec<_> = VALUES.iter().filter(|(letter, _)| words.has(*letter)).collect();
    let mut text = String::new();
    for (letter, label) in &asked {
        let value = match letter {
            'c' if directory => component.count.to_string(),
            'c' => targets(component).to_string(),
            'S' => component.size.to_string(),
            'L' => component.pattern.to_owned(),
            'i' if directory => component.index.to_string(),
            'i' => first(component).to_string(),
            'p' => component.pool.clone().unwrap_or_default(),
            '\x01' if layout.composite => layout.components.len().to_string(),
            _ => "0".to_owned(),
        };
        match asked.len() {
            1 => text.push_str(&format!("{value}\n")),
            _ => text.push_str(&format!("{label} {value}\n")),
        }
    }
    text
}

pub(super) fn set(words: &[OsString], answer: &mut Answer) -> Result<(), Failure> {
    let refused = words.iter().filter_map(|word| word.to_str()).find(|word| {
        let name = word.split('=').next().unwrap_or_default();
        matches!(
            name,
            "--component-add"
                | "--comp-add"
                | "--component-del"
                | "--comp-del"
                | "--component-set"
                | "--comp-set"
                | "--yaml"
                | "--copy"
                | "--mirror-count"
        ) || word.starts_with("-N")
    });
    if let Some(word) = refused {
        let text = format!("{word}: layouts are only kept here, and have no mirrors");
        return Err(Failure::new(Errno::OPNOTSUPP, text));
    }
    let words = words::read(words, &OPTIONS)?;
    let layout = Layout::asked(&words)?;
    if words.operands.is_empty() {
        return Err(Failure::new(Errno::INVAL, "a path is missing: see `lfs help`"));
    }
    for path in words.operands.iter().map(PathBuf::from) {
        let done = match words.has('d') {
            true => forget(&path),
            false => keep(&path, &layout),
        };
        if let Err(failure) = done {
            answer.fail(Some(&path), &failure);
        }
    }
    Ok(())
}

/// Keeps the layout of a directory, or makes a file with it. A file that is there has its layout
/// already, as on Lustre.
fn keep(path: &Path, layout: &Layout) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(Failure::new(Errno::EXIST, "stripe already set")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::File::create_new(path).map_err(|error| system(&error))?;
        }
        Err(error) => return Err(system(&error)),
    }
    setxattr(path, ATTRIBUTE, layout.text().as_bytes(), XattrFlags::empty())
        .map_err(|errno| system(&errno.into()))
}

fn forget(path: &Path) -> Result<(), Failure> {
    match removexattr(path, ATTRIBUTE) {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(errno) => Err(system(&errno.into())),
    }
}

/// An error as the system words it, without Rust's number at its end.
fn system(error: &io::Error) -> Failure {
    let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    Failure::new(errno, text)
}

#[cfg(test)]
mod tests;
