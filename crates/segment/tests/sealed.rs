//! Segments of encrypted volumes: what is in them shows to who has the key, and to nobody else.

mod common;

use std::path::PathBuf;

use bytes::Bytes;
use common::{CODECS, known_records, noise, pack, pack_sealed, read};
use weir_keys::{SEALED_MORE_BYTES, Secret, VolumeKeys, unlock};
use weir_segment::{
    IndexEntry, IndexRead, Owner, Scanned, decode_index, decode_record, scan_records,
};
use weir_types::{Codec, Encryption, Ino, Result, SegmentId};

const ID: SegmentId = SegmentId(0x0193_5f3c_2a00_1234_5678_9abc_def0_0042);

fn read_sealed(keys: &VolumeKeys, whole: &Bytes, entry: &IndexEntry) -> Result<Bytes> {
    let start = entry.record.position as usize;
    let stored = whole.slice(start..start + entry.record.stored_bytes as usize);
    decode_record(keys, &entry.record, Some(entry.owner), stored)
}

fn entries(whole: &Bytes) -> Vec<IndexEntry> {
    match decode_index(ID, whole, whole.len() as u64).expect("sound") {
        IndexRead::Entries(entries) => entries,
        IndexRead::NeedTail(n) => panic!("the whole object is not enough, it wants {n}"),
    }
}

fn scanned(whole: &Bytes) -> Vec<IndexEntry> {
    let steps = scan_records(ID, whole).expect("sound");
    steps
        .map(|step| match step {
            Scanned::Record(entry) => entry,
            Scanned::Skipped { error, .. } => panic!("{error}"),
        })
        .collect()
}

#[test]
fn what_was_sealed_is_read_by_the_key_and_checked_without_it() {
    let keys = VolumeKeys::by_chance().expect("random");
    let whole_record = (Owner { ino: Ino(9), offset: 0 }, noise(5, 1 << 20));
    let records = [known_records(), vec![whole_record]].concat();
    for (codec, name) in CODECS {
        let (sealed, plain) = (pack_sealed(&keys, ID, codec, &records), pack(ID, codec, &records));
        let more = records.len() * SEALED_MORE_BYTES;
        assert_eq!(sealed.bytes.len(), plain.bytes.len() + more, "{name}");
        assert_eq!(entries(&sealed.bytes), sealed.records, "{name}");
        assert_eq!(scanned(&sealed.bytes), sealed.records, "{name}: without the key");
        for (entry, (owner, raw)) in sealed.records.iter().zip(&records) {
            assert_eq!(entry.owner, *owner);
            assert!(read_sealed(&keys, &sealed.bytes, entry).expect("opens") == raw, "{name}");
        }
        for (_, raw) in records.iter().filter(|(_, raw)| raw[0] != 0) {
            let part = &raw[..raw.len().min(40)];
            let shows =
                part.len() > 20 && sealed.bytes.windows(part.len()).any(|window| window == part);
            assert!(!shows, "{name}: plain bytes are in the object");
        }
        let again = pack_sealed(&keys, ID, codec, &records);
        assert_ne!(
            again.records[0].record.checksum, sealed.records[0].record.checksum,
            "the same nonce twice"
        );
    }
}

#[test]
fn no_other_key_opens_a_record_and_no_plain_one_is_taken_for_the_volumes() {
    let (keys, others) =
        (VolumeKeys::by_chance().expect("random"), VolumeKeys::by_chance().expect("random"));
    let records = known_records();
    let sealed = pack_sealed(&keys, ID, Codec::Lz4, &records);
    let entry = &sealed.records[0];
    let told = |keys: &VolumeKeys, whole: &Bytes, entry: &IndexEntry| {
        read_sealed(keys, whole, entry).expect_err("refused").to_string()
    };
    assert!(told(&others, &sealed.bytes, entry).contains("does not open it"));
    assert!(told(&VolumeKeys::none(), &sealed.bytes, entry).contains("the volume is not"));
    let plain = pack(ID, Codec::Lz4, &records);
    assert!(told(&keys, &plain.bytes, &plain.records[0]).contains("it is not encrypted"));
    assert!(read(&plain.bytes, &plain.records[0]).is_ok());
}

/// Somebody who may write the bucket makes the checksums right.
#[test]
fn what_somebody_changed_is_told_whatever_its_checksum() {
    let keys = VolumeKeys::by_chance().expect("random");
    let sealed = pack_sealed(&keys, ID, Codec::Zstd, &known_records());
    for entry in &sealed.records {
        let start = entry.record.position as usize;
        let stored = sealed.bytes.slice(start..start + entry.record.stored_bytes as usize);
        for at in (12..stored.len()).filter(|at| !(16..24).contains(at)) {
            let mut changed = stored.to_vec();
            changed[at] ^= 0x40;
            let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&changed[12..], ID.0 as u64);
            changed[4..12].copy_from_slice(&checksum.to_le_bytes());
            let record = weir_types::RecordRef { checksum, ..entry.record };
            decode_record(&keys, &record, None, Bytes::from(changed)).expect_err("it was changed");
        }
    }
}

/// Encrypted volumes of earlier builds stay readable: their keys too.
#[test]
fn sealed_golden_files_give_their_known_content() {
    for (_, name) in CODECS {
        let whole = Bytes::from(
            std::fs::read(golden(&format!("{name}.seg"))).expect("the golden file is there"),
        );
        let entries = entries(&whole);
        let expected = known_records();
        assert_eq!(entries.len(), expected.len());
        for secret in ["key", "passphrase"] {
            let keys = golden_keys(secret);
            for (entry, (owner, raw)) in entries.iter().zip(&expected) {
                assert_eq!(entry.owner, *owner);
                assert_eq!(read_sealed(&keys, &whole, entry).expect("opens"), raw);
            }
        }
    }
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(format!("tests/golden/sealed/{name}"))
}

/// The keys of the golden files, as the file of a secret opens them.
fn golden_keys(secret: &str) -> VolumeKeys {
    let text =
        std::fs::read_to_string(golden("encryption.json")).expect("the golden file is there");
    let encryption: Encryption = serde_json::from_str(&text).expect("reads");
    let secret = Secret::parse(&std::fs::read(golden(secret)).expect("the golden file is there"));
    unlock(&encryption, &secret.expect("a secret")).expect("opens")
}

/// Writes the golden files; never replaces. The second key has sealed them.
#[test]
#[ignore = "run by hand for a new format version"]
fn write_missing_files() {
    let key = Secret::new_key_file().expect("random");
    let words = "a passphrase of no worth";
    let (file, passphrase) = (
        Secret::parse(key.as_bytes()).expect("a key"),
        Secret::parse(words.as_bytes()).expect("one"),
    );
    if !golden("encryption.json").exists() {
        let (encryption, keys) =
            weir_keys::create("machines", &file, 1_800_000_000).expect("makes");
        let encryption =
            weir_keys::add(&encryption, &keys, "people", &passphrase, 1_800_000_001).expect("adds");
        let encryption = weir_keys::rotate(&encryption, &[file, passphrase], false, 1_800_000_002)
            .expect("rotates");
        std::fs::write(
            golden("encryption.json"),
            serde_json::to_string_pretty(&encryption).expect("text"),
        )
        .expect("writes");
        std::fs::write(golden("key"), key.as_bytes()).expect("writes");
        std::fs::write(golden("passphrase"), words).expect("writes");
    }
    let keys = golden_keys("key");
    for (codec, name) in CODECS {
        let path = golden(&format!("{name}.seg"));
        if !path.exists() {
            std::fs::write(path, pack_sealed(&keys, ID, codec, &known_records()).bytes)
                .expect("writes");
        }
    }
}
