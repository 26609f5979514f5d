//! The contract of every back end, on real servers whose answers come late, twice, and of a minority often not at all.

mod common;

use std::time::Duration;

use common::Place;
use fencepost_core::Connect;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::faulty::around;

struct Behind(Place);

impl Subject for Behind {
    fn connect(&self) -> Connect {
        let (scheme, rest) = (if self.0.quorum { "redlock" } else { "redis" }, self.0.rest());
        let open = move |clock| Box::pin(async move { fencepost_redis::nodes(scheme, &rest, clock).await }) as _;
        let connect = around(open);
        if self.0.quorum { connect.answer_within(Duration::from_secs(1)) } else { connect }
    }
}

mod one_server {
    fencepost_testkit::contract!(super::Behind(super::Place::one()), within one process);
}

mod redlock_of_three {
    fencepost_testkit::contract!(super::Behind(super::Place::quorum(3)), within one process);
}

mod redlock_of_five {
    fencepost_testkit::contract!(super::Behind(super::Place::quorum(5)), within one process);
}
