//! Elections to the millisecond, in virtual time.

use std::pin::pin;
use std::time::Duration;

use fencepost_core::{Blocking, Locks, VirtualClock};
use fencepost_testkit::faulty::Faults;
use fencepost_testkit::nodes::Nodes;
use fencepost_testkit::poll;

const TTL: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

fn both(test: impl Fn(&VirtualClock, &dyn Fn() -> Locks)) {
    for count in [1, 5] {
        let clock = VirtualClock::new();
        let nodes = Nodes::new(count, &clock.clock(), 1, Faults::default());
        test(&clock, &|| nodes.connect().clock(&clock).ttl(TTL).block().expect("memory is there"));
    }
}

#[test]
fn after_a_crash_another_leads_when_the_lease_is_over_and_within_a_second() {
    both(|clock, locks| {
        let crashed = locks().election("x").campaign().block().expect("nobody leads");
        let term = crashed.term();
        let _lease = crashed.leak();
        let election = locks().election("x");
        let mut campaign = pin!(election.campaign());
        assert!(poll::once(campaign.as_mut()).is_none());
        clock.turn(TTL - MS);
        assert!(poll::once(campaign.as_mut()).is_none(), "too early");
        clock.turn(Duration::from_secs(1));
        let next = poll::once(campaign.as_mut()).expect("in time").expect("its turn");
        assert!(next.term() > term);
    });
}

#[test]
fn a_leader_leads_for_longer_than_any_lock_may_be_held() {
    both(|clock, locks| {
        let mut leadership = locks().election("x").campaign().block().expect("nobody leads");
        for of in ["elected", "adopted"] {
            for _ in 0..25 * 360 {
                clock.turn(TTL);
            }
            assert!(leadership.is_held(), "{of}, and deposed after 25 hours");
            leadership = locks().adopt(&leadership.leak()).block().expect("still there");
        }
    });
}

#[test]
fn whoever_observes_hears_of_a_change_within_a_second() {
    both(|clock, locks| {
        let watching = locks().election("x");
        let mut leaders = watching.observe();
        assert_eq!(leaders.next().block().expect("no end").expect("an answer"), None);
        let leadership = locks().election("x").campaign().block().expect("nobody leads");
        let mut next = pin!(leaders.next());
        assert!(poll::once(next.as_mut()).is_none(), "it looks after a pause");
        clock.turn(Duration::from_secs(1));
        let seen = poll::once(next.as_mut()).expect("in time").expect("no end").expect("an answer").expect("a leader");
        assert_eq!(seen.token, Some(leadership.term()));
    });
}
