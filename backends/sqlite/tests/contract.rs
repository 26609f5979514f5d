//! The contract of every back end, on a file.

mod common;

use fencepost_core::Connect;
use fencepost_testkit::contract::Subject;

impl Subject for common::Place {
    fn connect(&self) -> Connect {
        fencepost_sqlite::connect(&self.file())
    }
}

fencepost_testkit::contract!(crate::common::Place::new());
