//! How long a lock may last here: as long as the servers keep a session, less what they hear late.

mod common;

use std::time::Duration;

use common::Place;
use fencepost_core::{AcquireError, Blocking};
use fencepost_testkit::contract::Subject;

#[test]
fn the_longest_ttl_is_known_before_it_is_asked_for() {
    let place = Place::on_a_server();
    let locks = place.locks("ours");
    let longest = locks.guarantees().largest_ttl.expect("the servers limit sessions");
    assert!(longest > Duration::from_secs(30), "{longest:?} of 40 s by default");
    locks.lock("x").ttl(longest).acquire().block().expect("so long is promised").release().block().expect("released");
    match locks.lock("x").ttl(longest + Duration::from_secs(1)).acquire().block() {
        Err(AcquireError::Invalid(invalid)) => assert!(invalid.to_string().contains("ttl"), "{invalid}"),
        other => panic!("refused before the servers are asked: {other:?}"),
    }
}
