//! The contract of every back end, through two replicas of the service: on one file, and on five servers that vote.

mod common;

mod on_sqlite {
    fencepost_testkit::contract!(crate::common::Place::on_sqlite());
}

mod on_redlock {
    fencepost_testkit::contract!(crate::common::Place::on_redlock());
}
