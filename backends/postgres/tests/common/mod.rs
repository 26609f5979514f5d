//! A place for locks: a server, and tables of its own on it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_core::{Blocking, Connect};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::postgres::{self, Postgres};
use fencepost_testkit::server::Server;
use fencepost_testkit::shared::Shared;
use fencepost_testkit::sql::{Session, SqlPlace};
use tokio_postgres::{Client, NoTls};

static SERVER: Shared<Postgres> = Shared::new();
static PLACES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Place {
    pub(crate) server: Arc<Server<Postgres>>,
    pub(crate) tables: String,
}

impl Place {
    pub(crate) fn on(server: Arc<Server<Postgres>>) -> Self {
        let tables = format!("fp{}", PLACES.fetch_add(1, Ordering::SeqCst));
        let place = Self { server, tables };
        place.init();
        place
    }

    fn init(&self) {
        let url = SqlPlace::url(self);
        let (scheme, rest) = url.split_once(':').expect("a URL");
        fencepost_postgres::ensure_schema(scheme, rest).block().expect("created");
    }

    pub(crate) fn url_at(&self, address: &str) -> String {
        let encoded: String = self.tables.bytes().map(|byte| format!("%{byte:02x}")).collect();
        format!("{}?tables={encoded}", postgres::url(address))
    }
}

impl Subject for Place {
    fn connect(&self) -> Connect {
        Self::connect_url(&SqlPlace::url(self))
    }
}

impl Reachable for Place {
    fn address(&self) -> String {
        SqlPlace::url(self)
    }

    fn reach(address: &str) -> Connect {
        Self::connect_url(address)
    }
}

impl SqlPlace for Place {
    const NO: &'static str = "false";

    fn new() -> Self {
        Self::on(SERVER.get(Postgres::new))
    }

    fn alone() -> Self {
        Self::on(Arc::new(Postgres::new().with("max_connections=500").start()))
    }

    fn named(&self, tables: &str) -> Self {
        let place = Self { server: self.server.clone(), tables: tables.to_owned() };
        place.init();
        place
    }

    fn renewed(&self) -> Self {
        self.named(&self.tables)
    }

    fn address(&self) -> String {
        self.server.address()
    }

    fn connect_with(&self, address: &str, settings: &str) -> Connect {
        Self::connect_url(&format!("{}{settings}", self.url_at(address)))
    }

    fn url(&self) -> String {
        self.url_at(&self.server.address())
    }

    fn connect_url(url: &str) -> Connect {
        let (scheme, rest) = url.split_once(':').expect("a URL");
        fencepost_postgres::connect(scheme, rest)
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(Sql::to(&self.server.url()))
    }

    fn table(&self, ending: &str) -> String {
        let quote = '"';
        format!("{quote}{}_{ending}{quote}", self.tables)
    }

    fn literal(name: &str) -> String {
        format!("'{}'", name.replace('\'', "''"))
    }

    fn end_sessions(&self, but: &dyn Session) {
        but.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL");
    }

    fn restart(&mut self) {
        Arc::get_mut(&mut self.server).expect("a server of its own").restart();
    }

    fn favour(&self, session: &dyn Session) {
        // Only the one that looks for a deadlock ends itself, and this one does not look for an hour.
        session.run("SET deadlock_timeout = '1h'; BEGIN");
    }
}

/// A connection of the test's own, used from plain threads.
pub(crate) struct Sql {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Sql {
    pub(crate) fn to(url: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).expect("the server is up");
        runtime.spawn(async move { drop(connection.await) });
        Self { runtime, client }
    }
}

impl Session for Sql {
    fn run(&self, text: &str) {
        self.runtime.block_on(self.client.batch_execute(text)).expect("a good statement");
    }

    fn number(&self, text: &str) -> i64 {
        let row = self.runtime.block_on(self.client.query_one(text, &[])).expect("one row");
        row.get(0)
    }
}
