//! The contract suite: what every back end promises, one named test per promise.
//!
//! A back end runs all of it with one line: `fencepost_testkit::contract!(Subject::new());`. The tests run in real time
//! and scale with the store's smallest ttl. They bound time from below only ("never before"); how fast something is
//! belongs into a benchmark, and how late at most into a test with virtual time.

pub mod deadlocks;
pub mod delay;
pub mod downgrade;
pub mod edges;
pub mod election;
pub mod exclusion;
pub mod fencing;
pub mod input;
pub mod inspection;
pub mod leases;
pub mod recipes;
pub mod records;
pub mod reentrant;
pub mod release;
pub mod renewal;
pub mod semaphore;
pub mod several;
pub mod sharing;
pub mod strangers;
pub mod unfair;
pub mod unfenced;
pub mod waiting;
pub mod yielding;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_core::{AcquireError, Blocking, Connect, Event, EventKind, Feed, Grant, Lock, Locks, LossReason, Lost};

use crate::wait::PATIENCE;

/// A back end under test: one place where locks live, fresh for each test.
pub trait Subject: Send + Sync + 'static {
    /// A new connection to that place, as another process would make it.
    fn connect(&self) -> Connect;

    /// An open connection.
    fn locks(&self, label: &str) -> Locks {
        self.connect().label(label).block().expect("the store can be reached")
    }
}

/// In milliseconds; a busy machine answers within half of it. See [`lengthen_leases`].
static SHORTEST_LEASE: AtomicU64 = AtomicU64::new(500);

/// From here on no lease of this process is meant to expire sooner: for a store that is away now and then.
pub fn lengthen_leases(shortest: Duration) {
    SHORTEST_LEASE.store(u64::try_from(shortest.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
}

/// A short ttl on this store, for leases that shall expire.
pub fn short_ttl(locks: &Locks) -> Duration {
    (locks.guarantees().smallest_ttl * 2).max(Duration::from_millis(SHORTEST_LEASE.load(Ordering::SeqCst)))
}

/// A ttl that a busy machine does not overrun, for leases that shall be kept.
pub fn long_ttl(locks: &Locks) -> Duration {
    locks.guarantees().smallest_ttl.max(Duration::from_secs(1)) * 10
}

/// Waits for something to happen to a lock.
pub fn wait_for(feed: &mut Feed<Event>, name: &str, wanted: impl Fn(&EventKind) -> bool) -> EventKind {
    loop {
        let event = feed.next().block().expect("the connection is open").expect("a feed of events has no errors");
        if event.name == name && wanted(&event.kind) {
            return event.kind;
        }
        // What was waited for will never come.
        let is_cut_off = event.name == name && event.kind == EventKind::Lost(LossReason::Unreachable);
        assert!(!is_cut_off, "{name:?} was lost, reason: Unreachable");
    }
}

/// That a hold ended for one of these reasons. What it was else is said whole, for whoever looks for it.
///
/// # Panics
/// If it ended for another.
pub fn is_lost_by(lost: &Lost, reasons: &[LossReason]) {
    assert!(reasons.contains(&lost.reason), "{lost:?}, and not by any of {reasons:?}");
}

/// Waits for a lock that somebody else has: not for longer than told, not for shorter, and it says who.
///
/// # Panics
/// If it ends any other way. A machine so busy that the store does not even answer in that time gets more of it.
pub fn ends_as_busy<G: Grant>(lock: &Lock<G>, holder: &str) {
    let mut wait = Duration::from_millis(100);
    loop {
        match lock.clone().wait_at_most(wait).acquire().block() {
            Err(AcquireError::Busy { waited, holder: Some(found), .. }) => {
                assert!(waited >= wait, "{waited:?}");
                assert_eq!(found.label, holder);
                return;
            }
            Err(AcquireError::Store(error)) if error.is_retryable() && wait < PATIENCE => wait *= 2,
            other => panic!("{other:?}"),
        }
    }
}

/// A promise by its file and name, and how it is put to the test.
pub type Promise<S> = (&'static str, fn(&S));

/// Runs the contract on a back end: `contract!(expression that makes a fresh Subject)`. What happens at the edges of a
/// process is put to the test with real ones, so the subject has to be [`edges::Reachable`]; one whose locks live in the
/// test's own process says so: `contract!(Subject::new(), within one process)`.
///
/// A store says so if it has no `line` that waiters stand in, or no `readers` that hold together:
/// `contract!(Subject::new(), without line and readers)`. What that leaves out is listed below, under these names; each
/// such store has tests of its own for what happens there instead.
///
/// As [`Promise`]s, for whoever runs them another way: `contract!(@names core)`, `line` and `readers`.
#[macro_export]
macro_rules! contract {
    (@names $group:ident) => {
        $crate::contract! { @$group names () }
    };
    // What every store promises.
    (@core $way:ident $subject:tt) => {
        $crate::contract! { @$way $subject,
            delay: a_lock_that_nobody_released_rests_for_its_delay;
            delay: a_clean_release_frees_at_once_whatever_the_delay;
            delay: an_adopted_lease_keeps_its_delay;
            election: the_next_candidate_leads_after_a_resignation_in_a_higher_term;
            election: standing_follows_the_leadership;
            election: what_cannot_be_published_is_refused;
            exclusion: second_owner_is_refused_while_first_holds;
            exclusion: names_do_not_exclude_each_other;
            exclusion: one_of_many_holds_at_a_time;
            exclusion: an_abandoned_lease_excludes_for_its_whole_ttl_and_no_longer;
            fencing: tokens_rise_with_every_grant_whoever_holds;
            fencing: a_write_after_the_lease_is_over_is_rejected_by_the_fence;
            fencing: the_newest_token_is_current_and_an_older_one_is_not;
            input: bad_names_are_refused_and_nothing_is_locked;
            input: bad_limits_are_refused_and_nothing_is_locked;
            input: every_valid_name_is_a_lock_of_its_own;
            inspection: a_free_lock_is_a_state_and_not_an_error;
            inspection: locks_are_listed_by_prefix_in_order_over_pages;
            leases: a_leaked_lease_is_adopted_with_its_token;
            leases: a_leaked_lease_is_not_renewed;
            leases: an_adopted_lease_is_held_since_its_grant;
            leases: a_late_release_ends_no_newer_grant_of_its_owner;
            leases: a_lease_that_is_over_cannot_be_adopted;
            leases: a_lease_that_is_over_is_not_brought_back;
            leases: another_token_or_owner_renews_nothing;
            records: only_the_newest_token_writes;
            records: a_record_is_forgotten_after_its_time_and_its_token_is_not;
            records: a_record_takes_any_bytes_and_has_a_limit;
            recipes: a_store_without_records_refuses_every_recipe;
            recipes: callers_with_one_key_get_one_result;
            recipes: a_late_result_is_refused;
            recipes: work_of_the_dead_is_taken_over_after_their_lease;
            recipes: a_window_is_run_by_one;
            recipes: one_rebuilds_for_all_readers;
            recipes: a_stock_is_never_oversold_and_what_expired_returns;
            reentrant: an_actor_enters_its_lock_again_and_frees_it_with_the_last_release;
            reentrant: dropping_a_hold_of_an_actor_counts_as_a_release;
            reentrant: only_the_same_actor_enters_again;
            reentrant: the_lease_of_an_actor_is_renewed_until_its_last_hold_ends;
            reentrant: a_lost_lease_is_lost_for_every_hold_of_the_actor;
            reentrant: two_tasks_of_one_actor_ask_once_and_both_hold;
            release: a_released_lock_is_free_at_once;
            release: dropping_a_guard_frees_the_lock;
            release: a_panicking_thread_frees_its_lock;
            release: a_late_release_never_frees_the_next_owner;
            release: a_forced_release_is_told_to_the_holder;
            release: shutdown_sends_outstanding_releases_and_ends_waiting;
            renewal: the_watchdog_keeps_a_lock_for_longer_than_its_ttl;
            renewal: a_manual_renewal_prolongs_the_lease;
            renewal: without_renewal_loss_is_told_before_the_next_owner_has_it;
            renewal: a_lost_guard_stays_lost;
            renewal: the_hold_limit_ends_a_hold;
            semaphore: no_more_permits_are_held_than_there_are;
            semaphore: several_permits_are_taken_at_once_or_not_at_all;
            semaphore: bad_numbers_of_permits_are_refused;
            semaphore: a_semaphore_is_not_the_lock_of_its_name;
            semaphore: a_waiter_has_a_permit_when_one_is_released;
            semaphore: those_who_want_several_permits_do_not_wait_for_each_other;
            semaphore: one_lost_permit_of_several_is_a_loss;
            semaphore: callers_that_disagree_about_the_permits_share_the_lower_slots;
            several: all_names_are_held_each_under_its_own_token;
            several: one_held_name_of_several_leaves_nothing_behind;
            several: a_bad_list_of_names_is_refused;
            several: several_names_are_waited_for_in_one_budget;
            several: opposite_orders_of_names_never_deadlock;
            several: names_that_the_actor_holds_are_entered_again;
            several: one_lost_name_of_several_is_a_loss;
            unfair: an_unfair_claim_gets_the_lock_in_the_end;
            unfair: unfair_claims_exclude_and_all_are_served;
            unfair: an_unfair_wait_ends_in_time_and_says_who_holds;
            unfenced: a_lock_without_a_token_excludes_one_with_a_token_and_the_other_way_round;
            unfenced: a_lock_without_a_token_is_renewed_and_waited_for;
            waiting: a_waiter_has_the_lock_when_it_is_released;
            waiting: a_wait_ends_in_time_and_says_who_holds;
            waiting: a_waiter_that_gave_up_is_out_of_the_line;
            yielding: a_holder_hears_who_asks_for_its_lock_and_why;
            yielding: a_request_ends_with_the_hold_that_it_was_meant_for;
        }
    };
    // Order of arrival, the line as others see it, and the circles of those who stand in lines.
    (@line $way:ident $subject:tt) => {
        $crate::contract! { @$way $subject,
            deadlocks: two_locks_in_opposite_order_are_seen_as_a_deadlock;
            deadlocks: a_wait_that_closes_a_cycle_fails_if_its_actor_asked_for_it;
            deadlocks: a_deadlock_of_one_behind_another_of_its_process_is_seen_there;
            election: a_leader_stops_before_the_next_one_starts_and_campaigns_again;
            election: a_leader_is_seen_with_its_term_and_payload_and_the_candidates_behind_it;
            election: whoever_observes_sees_each_leader_and_when_there_is_none;
            inspection: how_long_a_lock_is_held_counts_from_the_grant;
            inspection: the_holder_and_the_line_can_be_seen;
            semaphore: permits_go_out_in_order_of_arrival;
            unfair: an_unfair_claim_has_no_place_in_line;
            waiting: waiters_are_served_in_order_of_arrival;
            waiting: trying_does_not_overtake_those_in_line;
            waiting: many_threads_of_one_process_share_one_place_in_line;
        }
    };
    // Shared locks.
    (@readers $way:ident $subject:tt) => {
        $crate::contract! { @$way $subject,
            downgrade: a_downgraded_writer_reads_on_and_keeps_writers_out;
            downgrade: readers_in_line_come_in_when_the_writer_is_downgraded;
            downgrade: a_writer_in_line_waits_until_the_downgraded_hold_ends;
            downgrade: a_downgraded_hold_is_renewed_as_a_readers;
            downgrade: readers_of_the_same_process_come_in_when_its_writer_is_downgraded;
            downgrade: a_lease_stays_a_writers_while_another_hold_of_its_actor_writes;
            downgrade: a_lost_hold_cannot_be_downgraded;
            downgrade: a_downgraded_lease_is_adopted_as_a_readers;
            reentrant: a_reading_actor_that_wants_to_write_is_refused;
            reentrant: a_writing_actor_that_wants_to_read_shares_its_own_lease;
            sharing: readers_hold_together_and_keep_writers_out;
            sharing: a_writer_keeps_readers_out;
            sharing: a_waiting_writer_is_not_starved_by_readers;
            yielding: readers_are_asked_and_so_is_one_without_a_token;
        }
    };
    // What needs other processes.
    (@edges tests { $subject:expr }) => {
        /// Not a test of its own: what the other processes run.
        #[test]
        fn in_another_process() {
            $crate::contract::edges::in_another_process(|| $subject);
        }
        $crate::contract! { @programs { $subject },
            edges: a_blocked_runtime_keeps_its_lock_and_frees_it_at_the_end;
            edges: a_guard_dropped_at_the_end_of_main_leaves_nothing_behind;
            edges: a_main_that_panics_leaves_nothing_behind;
            edges: a_process_that_stood_still_beyond_its_lease_writes_nothing_more;
            edges: a_program_that_ends_while_it_waits_leaves_the_queue;
            edges: a_try_in_vain_leaves_nothing_behind;
            edges: a_waiter_that_is_told_to_end_by_sigterm_leaves_the_queue;
            strangers: a_log_that_nobody_reads_loses_no_lock;
            strangers: a_subscriber_or_logger_that_blocks_loses_no_lock;
            strangers: a_subscriber_or_logger_that_panics_loses_no_lock;
            strangers: an_observer_that_never_returns_loses_no_lock;
        }
    };
    (@programs $subject:tt, $($file:ident: $promise:ident;)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::contract::$file::$promise(&$subject, module_path!());
            }
        )*
    };
    (@names (), $($file:ident: $promise:ident;)*) => {
        [$((concat!(stringify!($file), "::", stringify!($promise)), $crate::contract::$file::$promise)),*]
    };
    (@tests $subject:tt, $($file:ident: $promise:ident;)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::contract::$file::$promise(&$subject);
            }
        )*
    };
    ($subject:expr, without line and readers) => {
        $crate::contract! { @core tests { $subject } }
        $crate::contract! { @edges tests { $subject } }
    };
    ($subject:expr, within one process) => {
        $crate::contract! { @core tests { $subject } }
        $crate::contract! { @line tests { $subject } }
        $crate::contract! { @readers tests { $subject } }
    };
    ($subject:expr) => {
        $crate::contract! { $subject, within one process }
        $crate::contract! { @edges tests { $subject } }
    };
}
