//! Attributes of files: those that are set, and those that a server tells.

use std::collections::BTreeMap;

use super::codes::attr;
use super::xdr::{Reader, Writer};

/// Seconds and nanoseconds since 1970.
pub type Time = (i64, u32);

/// Attributes with their encoded values, for SETATTR, CREATE, OPEN and VERIFY.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set(BTreeMap<u32, Writer>);

impl Set {
    pub fn new() -> Self {
        Self::default()
    }

    /// One that is encoded already.
    pub fn raw(mut self, number: u32, value: Writer) -> Self {
        self.0.insert(number, value);
        self
    }

    pub fn size(self, bytes: u64) -> Self {
        self.raw(attr::SIZE, Writer::new().u64(bytes))
    }

    pub fn mode(self, mode: u32) -> Self {
        self.raw(attr::MODE, Writer::new().u32(mode))
    }

    pub fn owner(self, owner: &str) -> Self {
        self.raw(attr::OWNER, Writer::new().opaque(owner.as_bytes()))
    }

    pub fn group(self, group: &str) -> Self {
        self.raw(attr::OWNER_GROUP, Writer::new().opaque(group.as_bytes()))
    }

    /// `None` is the server's time.
    pub fn accessed(self, time: Option<Time>) -> Self {
        self.raw(attr::TIME_ACCESS_SET, time_to_set(time))
    }

    /// `None` is the server's time.
    pub fn modified(self, time: Option<Time>) -> Self {
        self.raw(attr::TIME_MODIFY_SET, time_to_set(time))
    }

    /// Which they are.
    pub fn numbers(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }

    pub fn write(&self, to: Writer) -> Writer {
        let values = self.0.values().fold(Writer::new(), |all, value| all.add(value));
        to.bitmap(&self.numbers()).opaque(&values.0)
    }
}

fn time_to_set(time: Option<Time>) -> Writer {
    match time {
        None => Writer::new().u32(0),
        Some((seconds, nanos)) => Writer::new().u32(1).u64(seconds as u64).u32(nanos),
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Bool(bool),
    Bytes(Vec<u8>),
    Pair(u64, u64),
    Time(Time),
    Bits(Vec<u32>),
    /// Entries of a list of access control: type, flag, mask, who.
    Acl(Vec<(u32, u32, u32, Vec<u8>)>),
}

/// What a server told of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attrs(pub BTreeMap<u32, Value>);

impl Attrs {
    pub fn read(from: &mut Reader<'_>) -> Self {
        let numbers = from.bitmap();
        let bytes = from.opaque();
        let mut values = Reader::new(&bytes);
        let all = numbers.into_iter().map(|number| (number, read_value(number, &mut values)));
        let attrs = Self(all.collect());
        values.assert_empty();
        attrs
    }

    pub fn numbers(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }

    fn value(&self, number: u32) -> &Value {
        self.0.get(&number).unwrap_or_else(|| panic!("attribute {number} was not told: {self:?}"))
    }

    pub fn number(&self, number: u32) -> u64 {
        match self.value(number) {
            Value::Number(value) => *value,
            other => panic!("{other:?} is no number"),
        }
    }

    pub fn bool(&self, number: u32) -> bool {
        match self.value(number) {
            Value::Bool(value) => *value,
            other => panic!("{other:?} is no bool"),
        }
    }

    pub fn bytes(&self, number: u32) -> &[u8] {
        match self.value(number) {
            Value::Bytes(value) => value,
            other => panic!("{other:?} is not bytes"),
        }
    }

    pub fn text(&self, number: u32) -> &str {
        std::str::from_utf8(self.bytes(number)).expect("UTF-8")
    }

    pub fn time(&self, number: u32) -> Time {
        match self.value(number) {
            Value::Time(value) => *value,
            other => panic!("{other:?} is no time"),
        }
    }

    pub fn pair(&self, number: u32) -> (u64, u64) {
        match self.value(number) {
            Value::Pair(one, two) => (*one, *two),
            other => panic!("{other:?} is no pair"),
        }
    }

    pub fn bits(&self, number: u32) -> &[u32] {
        match self.value(number) {
            Value::Bits(value) => value,
            other => panic!("{other:?} is no bitmap"),
        }
    }

    pub fn size(&self) -> u64 {
        self.number(attr::SIZE)
    }

    pub fn change(&self) -> u64 {
        self.number(attr::CHANGE)
    }

    pub fn mode(&self) -> u32 {
        self.number(attr::MODE) as u32
    }

    pub fn kind(&self) -> u32 {
        self.number(attr::TYPE) as u32
    }

    /// The numbers of its owner and group.
    pub fn owners(&self) -> (u32, u32) {
        let number = |which| self.text(which).parse().expect("a number");
        (number(attr::OWNER), number(attr::OWNER_GROUP))
    }
}

fn read_value(number: u32, from: &mut Reader<'_>) -> Value {
    use attr::*;
    match number {
        SUPPORTED_ATTRS | SUPPATTR_EXCLCREAT => Value::Bits(from.bitmap()),
        TYPE | FH_EXPIRE_TYPE | LEASE_TIME | RDATTR_ERROR | ACLSUPPORT | MAXLINK | MAXNAME
        | MODE | NUMLINKS | FS_CHARSET_CAP | CHANGE_ATTR_TYPE | CLONE_BLKSIZE => {
            Value::Number(from.u32().into())
        }
        CHANGE | SIZE | FILEID | FILES_AVAIL | FILES_FREE | FILES_TOTAL | MAXFILESIZE | MAXREAD
        | MAXWRITE | QUOTA_AVAIL_HARD | QUOTA_AVAIL_SOFT | QUOTA_USED | SPACE_AVAIL
        | SPACE_FREE | SPACE_TOTAL | SPACE_USED | MOUNTED_ON_FILEID | SPACE_FREED => {
            Value::Number(from.u64())
        }
        LINK_SUPPORT | SYMLINK_SUPPORT | NAMED_ATTR | UNIQUE_HANDLES | ARCHIVE | CANSETTIME
        | CASE_INSENSITIVE | CASE_PRESERVING | CHOWN_RESTRICTED | HIDDEN | HOMOGENEOUS
        | NO_TRUNC | SYSTEM | XATTR_SUPPORT => Value::Bool(from.bool()),
        FILEHANDLE | OWNER | OWNER_GROUP | MIMETYPE => Value::Bytes(from.opaque()),
        FSID => Value::Pair(from.u64(), from.u64()),
        RAWDEV => Value::Pair(from.u32().into(), from.u32().into()),
        TIME_ACCESS | TIME_BACKUP | TIME_CREATE | TIME_DELTA | TIME_METADATA | TIME_MODIFY => {
            Value::Time((from.u64() as i64, from.u32()))
        }
        ACL => Value::Acl(from.many(|from| (from.u32(), from.u32(), from.u32(), from.opaque()))),
        other => panic!("the server told attribute {other}, which this client cannot read"),
    }
}
