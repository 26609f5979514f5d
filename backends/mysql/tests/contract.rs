//! The contract of every back end, on MariaDB.

mod common;

fencepost_testkit::contract!(<crate::common::Place as fencepost_testkit::sql::SqlPlace>::new());
