//! The statements against the table.

mod common;

use common::Place;
use fencepost_core::Blocking;
use fencepost_core::store::Clock;
use fencepost_testkit::minted_table::{Range, answers_as_the_table_does};
use fencepost_testkit::sql::SqlPlace;

#[test]
fn the_statements_answer_as_the_table_does() {
    let place = Place::new();
    let url = place.url();
    let (scheme, rest) = url.split_once(':').expect("a URL");
    let clock = Clock::system().expect("a clock");
    let stores: Vec<_> = (0..3)
        .map(|_| fencepost_mysql::store(scheme, rest, clock.clone()).block().expect("the server is up"))
        .collect();
    answers_as_the_table_does(&stores, &clock, Range::Whole, (60, 40));
}
