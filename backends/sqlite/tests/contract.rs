//! The contract of every back end, on a file.

mod common;

use fencepost_core::Connect;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;

impl Subject for common::Place {
    fn connect(&self) -> Connect {
        fencepost_sqlite::connect(&self.file())
    }
}

impl Reachable for common::Place {
    fn address(&self) -> String {
        self.file()
    }

    fn reach(address: &str) -> Connect {
        fencepost_sqlite::connect(address)
    }
}

fencepost_testkit::contract!(crate::common::Place::new());
