//! As whom the suite asks, and keys that stores get wrong.

use crate::Component;

pub(super) const ASK: Component = Component::Check;

/// Keys with characters that something on the way might change.
pub(super) const ODD_KEYS: [&str; 15] = [
    "sp ace",
    "plus+sign",
    "per%25cent",
    "half%2",
    "ümläut/日本語",
    "amp&eq=un",
    "ques?tion",
    "hash#tag",
    "quote'\"s",
    "(paren)[bracket]{brace}",
    "comma,semi;colon:x",
    "at@dollar$bang!",
    "tilde~caret^tick`",
    "a.b..c",
    "star*pipe|lt<gt>",
];
