//! Any bytes at all into the decoders: a bounded run of what the fuzz target does.

mod entry;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoders_are_total(data in prop::collection::vec(any::<u8>(), 0..200)) {
        entry::nbd(&data);
    }

    #[test]
    fn decoders_understand_what_they_accept(
        number in 0u8..13,
        name in "[a-z\u{e4}@]{0,12}",
        wanted in prop::collection::vec(any::<u16>(), 0..5),
        queries in prop::collection::vec("[a-z:]{0,20}", 0..5),
        cut in 0usize..8,
    ) {
        let name_bytes = [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat();
        let mut info = [&[number], &name_bytes[..], &(wanted.len() as u16).to_be_bytes()].concat();
        info.extend(wanted.iter().flat_map(|number| number.to_be_bytes()));
        let mut meta = [&[number], &name_bytes[..], &(queries.len() as u32).to_be_bytes()].concat();
        for query in &queries {
            meta.extend((query.len() as u32).to_be_bytes());
            meta.extend(query.as_bytes());
        }
        for data in [info, meta] {
            entry::nbd(&data);
            entry::nbd(&data[..data.len().saturating_sub(cut)]);
        }
    }
}
