//! Writes to etcd that are checked: by their token, or by the hold itself.

mod common;

use common::Place;
use fencepost_core::fence::FenceError;
use fencepost_core::{Blocking, FencingToken};
use fencepost_etcd::fence::{self, Client, Condition, Is, Transaction};
use fencepost_testkit::contract::Subject;

fn client(place: &Place) -> Client {
    Client::connect(&format!("etcd://{}", place.servers())).block().expect("it is up")
}

fn token(number: u64) -> FencingToken {
    FencingToken::from_number(number).expect("a token")
}

#[test]
fn older_tokens_are_turned_away_and_equal_ones_are_accepted() {
    let place = Place::on_a_server();
    let client = client(&place);
    let key = format!("{}thing", place.prefix);
    let write = |number, value: &str| {
        let write = Transaction::new().put(&key, value).checked(&key, token(number));
        client.commit(&write).block()
    };
    for (number, value) in [(9, "first"), (10, "second"), (10, "again"), (100, "third")] {
        assert!(write(number, value).expect("not older"), "{number}");
    }
    for number in [99, 10, 9, 1] {
        match write(number, "stale") {
            Err(FenceError::Stale(stale)) => assert_eq!((stale.token, stale.seen), (token(number), token(100))),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.get(&key).block().expect("an answer").as_deref(), Some(b"third".as_slice()));
}

/// Also that of the token's mark: a write that did not happen has shown nothing.
#[test]
fn a_condition_that_does_not_hold_lets_nothing_through() {
    let place = Place::on_a_server();
    let client = client(&place);
    let key = format!("{}thing", place.prefix);
    let is = |value: &str| Condition { key: key.clone().into_bytes(), is: Is::Equal(value.as_bytes().to_vec()) };
    let write = |number, from: &str| {
        let write = Transaction::new().delete(&key).only_if(is(from)).checked(&key, token(number));
        client.commit(&write).block().expect("not older")
    };
    assert!(client.commit(&Transaction::new().put(&key, "a")).block().expect("an answer"));
    assert!(!write(50, "b"));
    assert!(write(7, "a"), "a write that did not happen was remembered");
    assert_eq!(client.get(&key).block().expect("an answer"), None);
}

#[test]
fn a_write_goes_through_only_while_the_lock_is_held() {
    let place = Place::on_a_server();
    let (client, locks) = (client(&place), place.locks("holding"));
    let key = format!("{}thing", place.prefix);
    let guard = locks.lock("x").acquire().block().expect("free");
    let held = fence::held(&place.prefix, &guard).expect("a lock of ours");
    let write = |value: &str| {
        client.commit(&Transaction::new().put(&key, value).only_if(held.clone())).block().expect("an answer")
    };
    assert!(write("while held"));
    locks.force_release("x", "thrown out").block().expect("an answer");
    assert!(!write("after it was lost"));
    let next = locks.lock("x").acquire().block().expect("free");
    assert!(!write("while another holds"));
    let next_held = fence::held(&place.prefix, &next).expect("a lock of ours");
    assert!(client.commit(&Transaction::new().put(&key, "next").only_if(next_held)).block().expect("an answer"));
    assert_eq!(client.get(&key).block().expect("an answer").as_deref(), Some(b"next".as_slice()));
    drop(guard);
}
