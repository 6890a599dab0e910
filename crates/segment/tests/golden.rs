//! Segments written by earlier builds stay readable, and today's build writes the same bytes.

mod common;

use std::path::PathBuf;

use bytes::Bytes;
use common::{CODECS, known_records, pack, read};
use weir_segment::{IndexEntry, IndexRead, Scanned, decode_index, scan_records};
use weir_types::{Codec, SegmentId};

const ID: SegmentId = SegmentId(0x0193_5f3c_2a00_1234_5678_9abc_def0_0042);

fn path(name: &str) -> PathBuf {
    // Cargo runs tests in their package; what it built may have moved since.
    PathBuf::from(format!("tests/golden/v1/{name}.seg"))
}

fn entries(whole: &Bytes) -> Vec<IndexEntry> {
    match decode_index(ID, whole, whole.len() as u64).expect("sound") {
        IndexRead::Entries(entries) => entries,
        IndexRead::NeedTail(n) => panic!("the whole object is not enough, it wants {n}"),
    }
}

#[test]
fn every_version_1_file_gives_its_known_content() {
    for (_, name) in CODECS {
        let whole = Bytes::from(std::fs::read(path(name)).expect("the golden file is there"));
        let entries = entries(&whole);
        let expected = known_records();
        assert_eq!(entries.len(), expected.len());
        for (entry, (owner, raw)) in entries.iter().zip(&expected) {
            assert_eq!(entry.owner, *owner);
            assert_eq!(read(&whole, entry).expect("sound"), raw);
        }
        let scanned = scan_records(ID, &whole).expect("sound").map(|step| match step {
            Scanned::Record(entry) => entry,
            Scanned::Skipped { error, .. } => panic!("{name}: {error}"),
        });
        assert_eq!(scanned.collect::<Vec<_>>(), entries, "{name}: scan and index agree");
    }
}

/// Zstandard promises that old data stays readable, not that a new release compresses to the same
/// bytes, so its file is only read. LZ4's is compared: if an update of `lz4_flex` changes its
/// output, that is worth a look, and then this test may treat LZ4 as it treats Zstandard.
#[test]
fn packing_writes_the_same_bytes_as_ever() {
    for (codec, name) in [(Codec::None, "none"), (Codec::Lz4, "lz4")] {
        let golden = std::fs::read(path(name)).expect("the golden file is there");
        assert!(pack(ID, codec, &known_records()).bytes == golden, "{name} differs");
    }
}

/// Writes files that are missing, when a new format version gets its own folder; never replaces.
#[test]
#[ignore = "run by hand for a new format version"]
fn write_missing_files() {
    for (codec, name) in CODECS.into_iter().filter(|(_, name)| !path(name).exists()) {
        std::fs::write(path(name), pack(ID, codec, &known_records()).bytes).expect("writes");
    }
}
