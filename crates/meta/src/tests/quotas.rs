//! What counts for quotas, and what of it may move where.

use weir_types::{Account, ErrorKind, FileKind, Ino, TreeId};

use super::{assert_sound, dir, file, kind_of, meta, new, record, write};
use crate::{FoundAt, Meta, QuotaOf, QuotaRow, QuotaUsed, RenameMode, SeenQuota, SetAttr};

/// A quota of the tree below `top`, which alone counts for it yet; all of it counts for its owners.
pub(super) async fn count_from(meta: &Meta, top: Ino) -> TreeId {
    let tree = meta.new_tree_quota(top, &QuotaRow::default()).await.unwrap().unwrap();
    let account = Account { tree: Some(tree), owners: true };
    let quotas = meta.quotas().await.unwrap();
    let quota = quotas.iter().find(|quota| quota.of == QuotaOf::Tree(tree)).unwrap();
    assert!(set(meta, &[quota], top, account).await);
    tree
}

async fn set(meta: &Meta, quotas: &[&SeenQuota], ino: Ino, account: Account) -> bool {
    let found = [FoundAt::anywhere(ino)];
    meta.set_accounts(quotas, &found, |_| account).await.unwrap().is_some()
}

async fn used(meta: &Meta, of: QuotaOf) -> (u64, u64) {
    let QuotaUsed { bytes, files } = meta.quotas_used(&[of]).await.unwrap()[0];
    (files, bytes)
}

#[tokio::test]
async fn what_is_made_below_counts_and_what_goes_does_not() {
    let meta = meta().await;
    let top = dir(&meta, Ino::ROOT, "top").await;
    let tree = QuotaOf::Tree(count_from(&meta, top).await);
    let inner = dir(&meta, top, "inner").await;
    let one = file(&meta, inner, "one").await;
    file(&meta, Ino::ROOT, "outside").await;
    write(&meta, one, 0, record(1, 80, 100)).await;
    write(&meta, one, 50, record(2, 80, 100)).await;
    assert_eq!(used(&meta, tree).await, (3, 150));
    // The directory that was there is root's.
    assert_eq!(used(&meta, QuotaOf::User(7)).await, (3, 150));
    assert_eq!(used(&meta, QuotaOf::Group(8)).await, (3, 150));
    let give = SetAttr { uid: Some(9), ..SetAttr::default() };
    meta.setattr(one, give).await.unwrap();
    assert_eq!(used(&meta, QuotaOf::User(7)).await, (2, 0));
    assert_eq!(used(&meta, QuotaOf::User(9)).await, (1, 150));
    assert_sound(&meta).await;
    meta.truncate(one, 20, meta.now()).await.unwrap();
    assert_eq!(used(&meta, tree).await, (3, 20));
    meta.unlink(inner, b"one").await.unwrap();
    assert_eq!(used(&meta, tree).await, (3, 20), "it may be open");
    meta.purge_all(&[one]).await.unwrap();
    assert_eq!(used(&meta, tree).await, (2, 0));
    assert_eq!(used(&meta, QuotaOf::User(9)).await, (0, 0));
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_file_takes_along_what_it_counts_and_a_directory_stays_in_its_tree() {
    let meta = meta().await;
    let (a, b) = (dir(&meta, Ino::ROOT, "a").await, dir(&meta, Ino::ROOT, "b").await);
    let of_a = QuotaOf::Tree(count_from(&meta, a).await);
    let of_b = QuotaOf::Tree(count_from(&meta, b).await);
    let one = file(&meta, a, "one").await;
    write(&meta, one, 0, record(1, 80, 100)).await;
    let mode = RenameMode::Replace;
    meta.rename(a, b"one", b, b"one", mode).await.unwrap();
    assert_eq!((used(&meta, of_a).await, used(&meta, of_b).await), ((1, 0), (2, 100)));
    meta.rename(b, b"one", Ino::ROOT, b"one", mode).await.unwrap();
    assert_eq!(used(&meta, of_b).await, (1, 0));
    meta.rename(Ino::ROOT, b"one", a, b"one", mode).await.unwrap();
    assert_eq!(used(&meta, of_a).await, (2, 100));
    assert_sound(&meta).await;
    // A file with two names counts in one tree.
    assert_eq!(kind_of(meta.link(one, b, b"two").await), ErrorKind::CrossDevice);
    assert_eq!(kind_of(meta.link(one, Ino::ROOT, b"two").await), ErrorKind::CrossDevice);
    meta.link(one, a, b"two").await.unwrap();
    assert_eq!(kind_of(meta.rename(a, b"two", b, b"x", mode).await), ErrorKind::CrossDevice);
    // Of a directory nobody looks how much is in it.
    let inner = dir(&meta, a, "inner").await;
    assert_eq!(kind_of(meta.rename(a, b"inner", b, b"x", mode).await), ErrorKind::CrossDevice);
    dir(&meta, a, "other").await;
    meta.rename(a, b"inner", a, b"moved", mode).await.unwrap();
    let other = meta.lookup(a, b"other").await.unwrap().ino;
    meta.rename(a, b"moved", other, b"inner", mode).await.unwrap();
    assert_eq!(meta.parent(inner).await.unwrap(), other);
    // The one at the top is the tree, wherever it is.
    let shelf = dir(&meta, Ino::ROOT, "shelf").await;
    let account = Account { tree: None, owners: true };
    assert!(set(&meta, &[&meta.quotas().await.unwrap()[0]], shelf, account).await);
    meta.rename(Ino::ROOT, b"a", shelf, b"a", mode).await.unwrap();
    assert_eq!(used(&meta, of_a).await, (4, 100));
    let exchange = RenameMode::Exchange;
    let outside = file(&meta, Ino::ROOT, "outside").await;
    file(&meta, b, "inside").await;
    meta.rename(Ino::ROOT, b"outside", b, b"inside", exchange).await.unwrap();
    assert_eq!(meta.lookup(b, b"inside").await.unwrap().ino, outside);
    assert_eq!(used(&meta, of_b).await, (2, 0));
    assert_sound(&meta).await;
}

/// A directory that counts, with a file and a directory in it that do not yet.
async fn half_counted(meta: &Meta) -> (Ino, Ino, Ino) {
    let top = dir(meta, Ino::ROOT, "top").await;
    let (one, inner) = (file(meta, top, "one").await, dir(meta, top, "inner").await);
    count_from(meta, top).await;
    (top, one, inner)
}

#[tokio::test]
async fn what_moves_before_it_is_counted_counts_where_it_comes_to() {
    let meta = meta().await;
    let (top, one, inner) = half_counted(&meta).await;
    let counted = meta.inode(top).await.unwrap().account;
    // A walk may have passed the place where it comes to.
    let mode = RenameMode::Replace;
    assert_eq!(kind_of(meta.rename(top, b"inner", top, b"x", mode).await), ErrorKind::CrossDevice);
    meta.rename(top, b"one", top, b"two", mode).await.unwrap();
    assert_eq!(meta.inode(one).await.unwrap().account, counted);
    let quotas = meta.quotas().await.unwrap();
    assert!(set(&meta, &[&quotas[0]], inner, counted).await);
    meta.rename(top, b"inner", top, b"x", mode).await.unwrap();
    assert_sound(&meta).await;
}

#[tokio::test]
async fn what_moved_away_since_it_was_listed_does_not_count() {
    let meta = meta().await;
    let (top, one, inner) = half_counted(&meta).await;
    let counted = meta.inode(top).await.unwrap().account;
    let quotas = meta.quotas().await.unwrap();
    let found = async |listed: &[(Ino, &'static str)]| {
        let name = |name: &'static str| Some((top, name.as_bytes()));
        let listed: Vec<_> =
            listed.iter().map(|(ino, at)| FoundAt { ino: *ino, name: name(at) }).collect();
        meta.set_accounts(&[&quotas[0]], &listed, |_| counted).await.unwrap().unwrap()
    };
    let mode = RenameMode::Replace;
    meta.rename(top, b"one", Ino::ROOT, b"one", mode).await.unwrap();
    meta.rename(top, b"inner", Ino::ROOT, b"inner", mode).await.unwrap();
    assert_eq!(found(&[(one, "one"), (inner, "inner")]).await, []);
    for ino in [one, inner] {
        assert_eq!(meta.inode(ino).await.unwrap().account, Account::default());
    }
    // Of a file of several names any of them is a place, also where it was made elsewhere.
    meta.link(one, Ino::ROOT, b"two").await.unwrap();
    let outside = file(&meta, Ino::ROOT, "outside").await;
    assert_eq!(kind_of(meta.link(outside, top, b"here").await), ErrorKind::CrossDevice);
    let account = Account::default();
    assert!(set(&meta, &[&quotas[0]], top, account).await);
    meta.link(outside, top, b"here").await.unwrap();
    meta.unlink(Ino::ROOT, b"outside").await.unwrap();
    assert!(set(&meta, &[&quotas[0]], top, counted).await);
    assert_eq!(found(&[(outside, "there")]).await, []);
    assert_eq!(found(&[(outside, "here")]).await, [outside]);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn what_gets_a_name_before_it_is_counted_counts_as_its_directory() {
    let meta = meta().await;
    let (top, one, inner) = half_counted(&meta).await;
    meta.link(one, top, b"two").await.unwrap();
    assert_eq!(meta.inode(one).await.unwrap().account, meta.inode(top).await.unwrap().account);
    assert_eq!(kind_of(meta.link(one, inner, b"three").await), ErrorKind::CrossDevice);
    meta.rmdir(top, b"inner").await.unwrap();
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_check_tells_of_what_counts_for_another_quota_than_it_lies_in() {
    let meta = meta().await;
    half_counted(&meta).await;
    let told = async || {
        let problems = crate::check(&**meta.kv()).await.unwrap();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let lies = "counts for no quota of a tree and lies in the quota of tree 1";
    let all = told().await;
    assert_eq!(all.iter().filter(|text| text.contains(lies)).count(), 1, "{all:?}");
    // Of its owners' quotas there is none, and the file may have had another place.
    assert_eq!(all.len(), 1);
    assert!(meta.set_quota(QuotaOf::User(7), None, Some(&QuotaRow::default())).await.unwrap());
    let all = told().await;
    assert!(all.iter().any(|text| text.contains("does not count for its user")), "{all:?}");
    // What is still to be counted is not wrong.
    let quotas = meta.quotas().await.unwrap();
    for quota in &quotas {
        let counting = QuotaRow { counting: true, ..quota.row.clone() };
        assert!(meta.set_quota(quota.of, Some(quota), Some(&counting)).await.unwrap());
    }
    assert_eq!(told().await, [""; 0]);
}

#[tokio::test]
async fn a_check_tells_of_a_counter_that_is_wrong() {
    let meta = meta().await;
    let tree = count_from(&meta, Ino::ROOT).await;
    meta.create(Ino::ROOT, b"d", new(FileKind::Directory)).await.unwrap();
    assert_sound(&meta).await;
    let key = crate::keys::quota_count(QuotaOf::Tree(tree), false);
    let commit = crate::kv::Commit { adds: vec![(key, 1)], ..Default::default() };
    meta.kv().commit(commit).await.unwrap();
    let problems = crate::check(&**meta.kv()).await.unwrap();
    assert!(matches!(&problems[..], [one] if one.0.contains("of a quota says 3")), "{problems:?}");
}

#[tokio::test]
async fn a_volume_with_quotas_says_that_older_builds_must_not_have_it() {
    let meta = meta().await;
    let layout = || async {
        let found = meta.kv().get_many(&[crate::keys::FORMAT.to_vec()]).await.unwrap();
        found[0].as_ref().unwrap().value.to_vec()
    };
    assert_eq!(layout().await, [1, 1]);
    assert!(meta.set_quota(QuotaOf::User(7), None, Some(&QuotaRow::default())).await.unwrap());
    assert_eq!(layout().await, [1, 3]);
    Meta::open(meta.kv().clone(), super::clock()).await.unwrap();
}

#[tokio::test]
async fn what_somebody_else_has_set_meanwhile_is_not_undone() {
    let one = meta().await;
    let dir = dir(&one, Ino::ROOT, "d").await;
    let other = Meta::open(one.kv().clone(), super::clock()).await.unwrap();
    let limited = |bytes_max| QuotaRow { bytes_max: Some(bytes_max), ..QuotaRow::default() };
    // A directory has one quota, whoever comes first.
    let tree = one.new_tree_quota(dir, &limited(1)).await.unwrap().map(QuotaOf::Tree).unwrap();
    one.set_quota(QuotaOf::User(7), None, Some(&limited(1))).await.unwrap();
    let opened = Meta::open(other.kv().clone(), super::clock()).await.unwrap();
    assert_eq!(opened.new_tree_quota(dir, &limited(2)).await.unwrap(), None);
    let rows = opened.quotas().await.unwrap();
    assert_eq!(rows.len(), 2);
    // Both have seen the same row, and one of them is late.
    let was = rows.iter().find(|quota| quota.of == tree).unwrap();
    assert!(one.set_quota(tree, Some(was), Some(&limited(3))).await.unwrap());
    assert!(!opened.set_quota(tree, Some(was), Some(&limited(4))).await.unwrap());
    assert!(!opened.set_quota(tree, Some(was), None).await.unwrap());
    assert!(!opened.set_quota(QuotaOf::User(7), None, Some(&limited(4))).await.unwrap());
    let account = Account { tree: Some(TreeId(1)), owners: false };
    assert!(!set(&opened, &[was], dir, account).await, "it is another one by now");
    assert_eq!(opened.inode(dir).await.unwrap().account, Account::default());
    let rows = opened.quotas().await.unwrap();
    assert_eq!(rows.iter().map(|quota| quota.row.bytes_max).max(), Some(Some(3)), "{rows:?}");
    let now = rows.iter().find(|quota| quota.of == tree).unwrap();
    assert!(set(&opened, &[now], dir, account).await);
    // Nor is any where another row was set that it goes by.
    let removed = QuotaRow { removed: true, ..now.row.clone() };
    assert!(one.set_quota(tree, Some(now), Some(&removed)).await.unwrap());
    let user = rows.iter().find(|quota| quota.of == QuotaOf::User(7)).unwrap();
    assert!(set(&opened, &[user], dir, account).await);
    assert!(!set(&opened, &[user, now], dir, account).await);
    // One that is removed does not keep another one from coming to its place.
    assert_ne!(opened.new_tree_quota(dir, &limited(5)).await.unwrap(), None);
    let rows = opened.quotas().await.unwrap();
    let now = rows.iter().find(|quota| quota.of == tree).unwrap();
    assert!(opened.set_quota(tree, Some(now), None).await.unwrap());
}
