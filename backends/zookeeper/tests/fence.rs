//! Writes to ZooKeeper that are checked: by their token, or by the hold itself.

mod common;

use common::Place;
use fencepost_core::fence::FenceError;
use fencepost_core::{Blocking, FencingToken};
use fencepost_testkit::contract::Subject;
use fencepost_zookeeper::fence::{Client, Transaction};

fn client(place: &Place) -> Client {
    Client::connect(&format!("zk://{}/{}", place.servers(), place.root)).block().expect("it is up")
}

fn token(number: u64) -> FencingToken {
    FencingToken::from_number(number).expect("a token")
}

#[test]
fn older_tokens_are_turned_away_and_equal_ones_are_accepted() {
    let place = Place::on_a_server();
    let client = client(&place);
    let node = format!("/{}/thing", place.root);
    assert!(client.commit(&Transaction::new().create(&node, "")).block().expect("an answer"));
    let write = |number, value: &str| {
        client.commit(&Transaction::new().set(&node, value).checked(&node, token(number))).block()
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
    assert_eq!(client.get(&node).block().expect("an answer").as_deref(), Some(b"third".as_slice()));
}

/// Also that of the token's mark: a write that did not happen has shown nothing.
#[test]
fn what_cannot_be_written_together_is_not_written_at_all() {
    let place = Place::on_a_server();
    let client = client(&place);
    let node = format!("/{}/thing", place.root);
    let write =
        |number| Transaction::new().create(&node, "a").delete(format!("{node}/none")).checked(&node, token(number));
    assert!(!client.commit(&write(50)).block().expect("not older"));
    assert_eq!(client.get(&node).block().expect("an answer"), None);
    let alone = Transaction::new().create(&node, "a").checked(&node, token(7));
    assert!(client.commit(&alone).block().expect("a write that did not happen was remembered"));
}

#[test]
fn a_write_goes_through_only_while_the_lock_is_held() {
    let place = Place::on_a_server();
    let (client, locks) = (client(&place), place.locks("holding"));
    let node = format!("/{}/thing", place.root);
    assert!(client.commit(&Transaction::new().create(&node, "")).block().expect("an answer"));
    let guard = locks.lock("x").acquire().block().expect("free");
    let held = client.held(&guard).block().expect("an answer").expect("held");
    let write = |value: &str| {
        client.commit(&Transaction::new().set(&node, value).only_if(held.clone())).block().expect("an answer")
    };
    assert!(write("while held"));
    locks.force_release("x", "thrown out").block().expect("an answer");
    assert!(!write("after it was lost"));
    assert_eq!(client.held(&guard).block().expect("an answer"), None);
    let next = locks.lock("x").acquire().block().expect("free");
    assert!(!write("while another holds"));
    let next_held = client.held(&next).block().expect("an answer").expect("held");
    assert!(client.commit(&Transaction::new().set(&node, "next").only_if(next_held)).block().expect("an answer"));
    assert_eq!(client.get(&node).block().expect("an answer").as_deref(), Some(b"next".as_slice()));
    drop(guard);
}
