//! The contract of every back end: on one server, and on an ensemble of three.

mod common;

mod on_a_server {
    fencepost_testkit::contract!(crate::common::Place::on_a_server());
}

mod on_an_ensemble {
    fencepost_testkit::contract!(crate::common::Place::on_an_ensemble());
}
