//! A place for locks: a server, and tables of its own on it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_core::{Blocking, Connect};
use fencepost_testkit::contract::Subject;
use fencepost_testkit::contract::edges::Reachable;
use fencepost_testkit::mariadb::{self, MariaDb};
use fencepost_testkit::server::Server;
use fencepost_testkit::shared::Shared;
use fencepost_testkit::sql::{Session, SqlPlace};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};

static SERVER: Shared<MariaDb> = Shared::new();
static PLACES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Place {
    pub(crate) server: Arc<Server<MariaDb>>,
    pub(crate) tables: String,
}

impl Place {
    pub(crate) fn on(server: Arc<Server<MariaDb>>) -> Self {
        let tables = format!("fp{}", PLACES.fetch_add(1, Ordering::SeqCst));
        let place = Self { server, tables };
        place.init();
        place
    }

    fn init(&self) {
        let url = SqlPlace::url(self);
        let (scheme, rest) = url.split_once(':').expect("a URL");
        fencepost_mysql::ensure_schema(scheme, rest).block().expect("created");
    }

    fn url_at(&self, address: &str) -> String {
        let encoded: String = self.tables.bytes().map(|byte| format!("%{byte:02x}")).collect();
        format!("{}?tables={encoded}", mariadb::url(address))
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
    const NO: &'static str = "0";

    fn new() -> Self {
        Self::on(SERVER.get(MariaDb::new))
    }

    fn alone() -> Self {
        Self::on(Arc::new(MariaDb::new().start()))
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
        fencepost_mysql::connect(scheme, rest)
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(Sql::to(&self.server.url()))
    }

    fn table(&self, ending: &str) -> String {
        let quote = '`';
        format!("{quote}{}_{ending}{quote}", self.tables)
    }

    fn literal(name: &str) -> String {
        format!("'{}'", name.replace('\'', "''"))
    }

    fn end_sessions(&self, but: &dyn Session) {
        but.run(
            "BEGIN NOT ATOMIC DECLARE done INT DEFAULT 0; DECLARE victim BIGINT; DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; \
             FOR session IN (SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root') \
             DO KILL session.id; END FOR; END",
        );
    }

    fn restart(&mut self) {
        Arc::get_mut(&mut self.server).expect("a server of its own").restart();
    }

    fn favour(&self, session: &dyn Session) {
        // The server ends the transaction that has written less.
        session.run("CREATE TABLE victims (x INT)");
        session.run("BEGIN");
        session.run("INSERT INTO victims SELECT seq FROM seq_1_to_1000");
    }
}

/// A connection of the test's own, used from plain threads.
pub(crate) struct Sql {
    runtime: tokio::runtime::Runtime,
    conn: Mutex<Option<Conn>>,
}

impl Sql {
    fn to(url: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let opts = OptsBuilder::from_opts(Opts::from_url(url).expect("a URL")).prefer_socket(false);
        let conn = runtime.block_on(Conn::new(opts)).expect("the server is up");
        Self { runtime, conn: Mutex::new(Some(conn)) }
    }
}

impl Session for Sql {
    fn run(&self, text: &str) {
        let mut conn = self.conn.lock().expect("no panic");
        let conn = conn.as_mut().expect("BUG: taken when dropped");
        self.runtime.block_on(conn.query_drop(text)).expect("a good statement");
    }

    fn number(&self, text: &str) -> i64 {
        let mut conn = self.conn.lock().expect("no panic");
        let conn = conn.as_mut().expect("BUG: taken when dropped");
        self.runtime.block_on(conn.query_first(text)).expect("a good statement").expect("one row")
    }
}

impl Drop for Sql {
    fn drop(&mut self) {
        // Also after a statement that failed.
        if let Some(conn) = self.conn.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = self.runtime.block_on(conn.disconnect());
        }
    }
}
