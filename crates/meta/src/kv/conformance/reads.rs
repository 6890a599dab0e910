//! Reads of keys that others lead to, and of keys in order.

use bytes::Bytes;

use super::engine::{Engine, key, put};
use crate::kv::{Commit, Key, Kv};

/// A value with a number behind its first byte, and some more.
fn leading_to(number: u64) -> Bytes {
    let mut value = vec![1];
    let mut rest = number;
    while rest >= 0x80 {
        value.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    value.extend([rest as u8, 0xff, 0]);
    value.into()
}

fn tagged(tag: u8, number: u64) -> Key {
    std::iter::once(tag).chain(number.to_be_bytes()).collect()
}

pub(crate) async fn values_lead_to_other_keys<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let all_bits = (1 << 63) - 1;
    for number in [0, 1, 127, 128, 16_383, 16_384, 1 << 32, 1 << 56, 1 << 62, all_bits] {
        let puts = [(key("a"), leading_to(number)), (tagged(b'I', number), "inode".into())];
        let adds = vec![(tagged(b'C', number), 7)];
        kv.commit(Commit { puts: puts.into(), adds, ..Commit::default() }).await.unwrap();
        let followed = kv.follow(&key("a"), b"TICI").await.unwrap();
        let keys = [key("a"), tagged(b'I', number), tagged(b'C', number)];
        let [from, inode, count] = kv.get_many(&keys).await.unwrap().try_into().unwrap();
        assert!(inode.is_some() && count.is_some());
        assert_eq!(followed.from, from, "{number}");
        assert_eq!(followed.to, [None, inode.clone(), count, inode], "{number}");
        let followed = kv.follow(&key("a"), b"").await.unwrap();
        assert_eq!((followed.from, followed.to), (from, Vec::new()));
    }
}

pub(crate) async fn what_has_no_number_leads_nowhere<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let puts = [0, 1, 5, u64::MAX, 1 << 63].map(|number| (tagged(b'I', number), "x".into()));
    kv.commit(Commit { puts: puts.into(), ..Commit::default() }).await.unwrap();
    let nowhere = [None, None];
    assert_eq!(kv.follow(&key("a"), b"IT").await.unwrap().to, nowhere);
    let cut_off: [&[u8]; 4] =
        [b"", &[1], &[1, 0x85], &[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]];
    let cut_off = cut_off.map(Bytes::from_static);
    for value in cut_off.into_iter().chain([leading_to(1 << 63), leading_to(u64::MAX)]) {
        let commit = Commit { puts: vec![(key("a"), value.clone())], ..Commit::default() };
        kv.commit(commit).await.unwrap();
        let followed = kv.follow(&key("a"), b"IT").await.unwrap();
        assert_eq!(followed.from.unwrap().value, value);
        assert_eq!(followed.to, nowhere, "{value:?}");
    }
}

pub(crate) async fn scans_are_ordered_and_limited<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    for name in ["d/3", "d/1", "e", "d", "c/9", "d/2", "d/10"] {
        kv.commit(put(name, name)).await.unwrap();
    }
    let names = async |prefix: &str, after: Option<&str>, limit| {
        let found = kv.scan(prefix.as_bytes(), after.map(str::as_bytes), limit).await.unwrap();
        assert!(found.iter().all(|(key, have)| key[..] == have.value[..] && have.version > 0));
        let names = found.into_iter().map(|(key, _)| String::from_utf8(key).unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("d/", None, 99).await, "d/1 d/10 d/2 d/3");
    assert_eq!(names("d/", None, 2).await, "d/1 d/10");
    assert_eq!(names("d/", Some("d/10"), 99).await, "d/2 d/3");
    assert_eq!(names("d/", Some("d/11"), 1).await, "d/2");
    assert_eq!(names("d/", Some("d/3"), 99).await, "");
    assert_eq!(names("d/", Some("a"), 1).await, "d/1");
    assert_eq!(names("d/", Some("e"), 99).await, "");
    assert_eq!(names("d", Some("d"), 99).await, "d/1 d/10 d/2 d/3");
    assert_eq!(names("", Some("d/3"), 99).await, "e");
    assert_eq!(names("", None, 99).await, "c/9 d d/1 d/10 d/2 d/3 e");
    assert_eq!(names("x", None, 99).await, "");
    assert_eq!(names("d/", None, 0).await, "");
}

pub(crate) async fn scans_end_where_the_prefix_ends<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let keys: [&[u8]; 7] =
        [b"\x00", b"\xfe\xff", b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff", b"\xff\xff\x01"];
    for key in keys {
        let puts = vec![(key.to_vec(), Bytes::new())];
        kv.commit(Commit { puts, ..Commit::default() }).await.unwrap();
    }
    let found = async |prefix: &[u8], after: Option<&[u8]>| {
        let found = kv.scan(prefix, after, 99).await.unwrap();
        found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    let ff: [&[u8]; 3] = [b"\xff\xff", b"\xff\xff\x01", b"\xff\xff\xff"];
    assert_eq!(found(b"\xff\xff", None).await, ff);
    assert_eq!(found(b"\xff\xff", Some(b"\xff\xff\x01")).await, ff[2..]);
    assert_eq!(found(b"\xff\xff", Some(b"\xff\xff\xff")).await, [] as [&[u8]; 0]);
    assert_eq!(found(b"\xfe", None).await, [b"\xfe\xff"]);
    assert_eq!(found(b"\xff", None).await.len(), 5);
    assert_eq!(found(b"\x00", None).await, [b"\x00"]);
}
