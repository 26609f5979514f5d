//! The contract of every back end, on a file that answers late and twice.

mod common;

use std::sync::Arc;

use fencepost_core::Connect;
use fencepost_core::store::Store;
use fencepost_sqlite::Sqlite;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::faulty::around;

impl Subject for common::Place {
    fn connect(&self) -> Connect {
        let file = self.file();
        let open = move |clock| Sqlite::open(&file, clock).map(|store| vec![Arc::new(store) as Arc<dyn Store>]);
        around(move |clock| Box::pin(std::future::ready(open(clock))))
    }
}

fencepost_testkit::contract!(crate::common::Place::new(), within one process);
