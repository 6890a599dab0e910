//! What the bucket does not allow: told at once by who opens, waited for by who has opened.

use tokio::time::Instant;

use super::*;

fn is_told(error: &FsError, kind: &str) {
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("{kind} is denied to nobody")), "{text}");
    assert!(!text.contains("has not answered"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn who_opens_is_told_at_once() {
    let store = Arc::new(WatchedStore::default());
    let begun = Instant::now();
    for kind in ["put", "list", "get"] {
        store.deny(Some(kind));
        let opened = SlateKv::open(store.clone(), PATH, options(), None).await;
        is_told(&opened.err().unwrap_or_else(|| panic!("opened without {kind}")), kind);
    }
    store.deny(None);
    open(&store).await.close().await.unwrap();
    for kind in ["list", "get"] {
        store.deny(Some(kind));
        let opened = SlateReader::open(store.clone(), PATH, SlateReaderOptions::default()).await;
        is_told(&opened.err().unwrap_or_else(|| panic!("followed without {kind}")), kind);
    }
    // Keys that may only read suffice for that.
    store.deny(Some("put"));
    SlateReader::open(store.clone(), PATH, SlateReaderOptions::default()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_open_waits_until_it_is_allowed_again() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    store.deny(Some("put"));
    kv.commit(put("a", "1")).await.unwrap();
    let error = kv.sync().await.expect_err("denied");
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    store.deny(None);
    kv.sync().await.unwrap();
    assert_eq!(kv.durable(), 1);
}
