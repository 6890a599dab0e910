//! Text in manual pages.

/// Text that roff shows as it is.
pub(super) fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace("\n\n", "\n.PP\n");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}
