//! What goes wrong with a database.

mod common;

fencepost_testkit::sql_faults!(crate::common::Place);
