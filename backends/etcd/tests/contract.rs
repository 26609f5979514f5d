//! The contract of every back end: on one server, and on a cluster of three.

mod common;

mod on_a_server {
    fencepost_testkit::contract!(crate::common::Place::on_a_server());
}

mod on_a_cluster {
    fencepost_testkit::contract!(crate::common::Place::on_a_cluster());
}
