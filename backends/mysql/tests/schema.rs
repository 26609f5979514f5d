//! Tables are made one by one here, and a program may end in between.

mod common;

use common::Place;
use fencepost_core::Blocking;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::sql::SqlPlace;

#[test]
fn tables_that_were_half_made_are_completed() {
    let place = Place::new();
    let session = place.session();
    for ending in ["meta", "revoked"] {
        session.run(&format!("DROP TABLE {}", place.table(ending)));
    }
    assert!(place.connect().block().is_err(), "some are missing");
    drop(place.named(&place.tables));
    assert!(place.locks("one").lock("x").acquire().block().expect("free").is_held());
    session.run(&format!("DELETE FROM {}", place.table("meta")));
    drop(place.named(&place.tables));
    assert!(place.connect().block().is_ok());
}
