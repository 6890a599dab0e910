//! What every engine must do, as one suite of tests: `conformance!(engine)` runs it.
//!
//! An engine comes in as an [`Engine`]: a way to start over nothing, and a way to start over what
//! a kill would have left.

mod checks;
mod counters;
mod engine;
mod kept;
mod kept_random;
mod logged;
mod random;
mod reads;

pub(crate) use checks::{
    a_check_alone_writes_nothing, a_conflict_changes_nothing, absent_and_version_checks,
    checked_increments_lose_nothing, deletes_leave_nothing, nonsense_is_refused,
};
pub(crate) use counters::{
    a_changed_counter_has_another_version, adds_never_conflict, counters_add_up,
    raises_never_conflict, what_is_no_counter_is_refused, what_is_raised_never_falls,
};
pub(crate) use engine::{Engine, TestLog, dump, get, key, put, version};
pub(crate) use kept::kept_states_stay_as_they_were;
pub(crate) use kept_random::kept_states_stay_by_chance;
pub(crate) use logged::{
    a_cut_off_caller_leaves_log_and_map_equal, a_kill_loses_nothing_that_was_acknowledged,
    a_log_that_fails_stops_the_commit_only, replay_refuses_gaps_and_garbage,
};
pub(crate) use random::it_agrees_with_a_sorted_map;
pub(crate) use reads::{
    scans_are_ordered_and_limited, scans_end_where_the_prefix_ends, values_lead_to_other_keys,
    what_has_no_number_leads_nowhere,
};

/// Runs the suite on an [`Engine`].
macro_rules! conformance {
    ($engine:ty) => {
        $crate::kv::conformance::conformance!($engine, without_log);
        $crate::kv::conformance::conformance!($engine:
            a_log_that_fails_stops_the_commit_only, a_cut_off_caller_leaves_log_and_map_equal,
            a_kill_loses_nothing_that_was_acknowledged, replay_refuses_gaps_and_garbage,
        );
    };
    ($engine:ty, with_checkpoints) => {
        $crate::kv::conformance::conformance!($engine);
        $crate::kv::conformance::conformance!($engine, only_checkpoints);
    };
    ($engine:ty, only_checkpoints) => {
        $crate::kv::conformance::conformance!($engine:
            kept_states_stay_as_they_were, kept_states_stay_by_chance,
        );
    };
    ($engine:ty, without_log) => {
        $crate::kv::conformance::conformance!($engine:
            absent_and_version_checks, a_conflict_changes_nothing, counters_add_up,
            what_is_no_counter_is_refused, deletes_leave_nothing, scans_are_ordered_and_limited,
            scans_end_where_the_prefix_ends, nonsense_is_refused, a_check_alone_writes_nothing,
            checked_increments_lose_nothing, adds_never_conflict, it_agrees_with_a_sorted_map,
            a_changed_counter_has_another_version, values_lead_to_other_keys,
            what_has_no_number_leads_nowhere, what_is_raised_never_falls,
            raises_never_conflict,
        );
    };
    ($engine:ty: $($test:ident,)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $crate::kv::conformance::$test::<$engine>().await;
        })*
    };
}
pub(crate) use conformance;
