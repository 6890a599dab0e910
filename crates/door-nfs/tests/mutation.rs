//! Any bytes at all into the decoders: a bounded run of what the fuzz target does.

mod entry;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoders_are_total(data in prop::collection::vec(any::<u8>(), 0..200)) {
        entry::nfs(&data);
    }

    #[test]
    fn decoders_understand_what_they_accept(
        flavor in 0u32..9,
        words in prop::collection::vec(0u32..20, 0..40),
        cut in 0usize..8,
    ) {
        let head = [7, 0, 2, 100_003, 4, 1, flavor];
        let call: Vec<u8> = head.iter().chain(&words).flat_map(|word| word.to_be_bytes()).collect();
        let rest: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        for data in [call, rest] {
            entry::nfs(&data);
            entry::nfs(&data[..data.len().saturating_sub(cut)]);
        }
    }
}
