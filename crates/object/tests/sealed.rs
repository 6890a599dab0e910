//! Objects that earlier builds sealed stay readable.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use weir_keys::{Secret, VolumeKeys, unlock};
use weir_object::sealed;
use weir_types::Encryption;

const KEY: &str = "meta/wal/00000000000000000007.sst";

fn golden() -> PathBuf {
    PathBuf::from("tests/golden/sealed-object")
}

/// Two pieces and a part of one.
fn known() -> Vec<u8> {
    (0..40_000_u32).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// The keys of the golden segments.
fn keys() -> VolumeKeys {
    let place = PathBuf::from("../segment/tests/golden/sealed");
    let text =
        std::fs::read_to_string(place.join("encryption.json")).expect("the golden file is there");
    let encryption: Encryption = serde_json::from_str(&text).expect("reads");
    let secret = std::fs::read(place.join("key")).expect("the golden file is there");
    unlock(&encryption, &Secret::parse(&secret).expect("a key")).expect("opens")
}

#[tokio::test]
async fn a_sealed_golden_object_gives_its_known_content() {
    let below = Arc::new(InMemory::new());
    let stored = std::fs::read(golden()).expect("the golden file is there");
    below.put(&Path::from(KEY), stored.into()).await.expect("puts");
    let store = sealed(below, &keys());
    let all = store.get(&Path::from(KEY)).await.expect("there").bytes().await.expect("opens");
    assert!(all == known());
    let options = GetOptions { range: Some(GetRange::Suffix(20_000)), ..GetOptions::default() };
    let end = store.get_opts(&Path::from(KEY), options).await.expect("there").bytes().await;
    assert!(end.expect("opens") == known()[20_000..]);
}

#[tokio::test]
#[ignore = "run by hand for a new format version"]
async fn write_missing_file() {
    if !golden().exists() {
        let below = Arc::new(InMemory::new());
        sealed(below.clone(), &keys()).put(&Path::from(KEY), known().into()).await.expect("puts");
        let stored = below.get(&Path::from(KEY)).await.expect("there").bytes().await;
        std::fs::write(golden(), stored.expect("reads")).expect("writes");
    }
}
