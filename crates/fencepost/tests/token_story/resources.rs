//! Places that people write to, each with one value that the lock protects.

use std::any::Any;
use std::io::{Read, Write};
use std::net::TcpStream;

use fencepost::fence::{self, Column, FenceError, RedisScript, Sql, Stale};
use fencepost::{Blocking, FencingToken};
use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::mariadb::MariaDb;
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::zookeeper::ZooKeeper;
use mysql_async::prelude::Queryable;

#[path = "service.rs"]
mod service;

/// One value somewhere.
pub(crate) struct Resource {
    kind: String,
    address: String,
    store: String,
    /// What has to live as long.
    _kept: Vec<Box<dyn Any>>,
}

const TABLE: &str = "CREATE TABLE thing (id INT PRIMARY KEY, value VARCHAR(99), last_token BIGINT NOT NULL DEFAULT 0)";
const ROW: &str = "INSERT INTO thing (id, value) VALUES (1, 'empty')";

impl Resource {
    fn new(kind: &str, address: String, store: String, kept: Vec<Box<dyn Any>>) -> Self {
        Self { kind: kind.to_owned(), address, store, _kept: kept }
    }

    /// For another process: the same one.
    pub(crate) fn at(kind: &str, address: &str) -> Self {
        Self::new(kind, address.to_owned(), String::new(), Vec::new())
    }

    pub(crate) fn etcd() -> Self {
        let server = Etcd::new().start();
        let store = format!("etcd://{}", server.address());
        Self::new("etcd", store.clone(), store, vec![Box::new(server)])
    }

    pub(crate) fn zookeeper() -> Self {
        let server = ZooKeeper::new().start();
        let store = format!("zk://{}", server.address());
        let made = zookeeper(&store).commit(&fence::zookeeper::Transaction::new().create("/thing", "empty")).block();
        assert!(made.expect("the server is up"));
        Self::new("zookeeper", store.clone(), store, vec![Box::new(server)])
    }

    pub(crate) fn postgres() -> Self {
        let server = Postgres::new().start();
        let url = server.url();
        in_postgres(&url, async |client| {
            let text = format!("{TABLE}; {ROW}; {}", fence::schema(Sql::Postgres));
            client.batch_execute(&text).await.expect("tables");
        });
        init(&url);
        Self::new("postgres", url.clone(), url, vec![Box::new(server)])
    }

    pub(crate) fn postgres_column() -> Self {
        Self { kind: "postgres_column".into(), ..Self::postgres() }
    }

    pub(crate) fn mysql() -> Self {
        let server = MariaDb::new().start();
        let url = server.url();
        in_mysql(&url, async |conn| {
            for text in [TABLE, ROW, fence::schema(Sql::MySql)] {
                conn.query_drop(text).await.expect("tables");
            }
        });
        init(&url);
        Self::new("mysql", url.clone(), url, vec![Box::new(server)])
    }

    pub(crate) fn mysql_column() -> Self {
        Self { kind: "mysql_column".into(), ..Self::mysql() }
    }

    pub(crate) fn sqlite() -> Self {
        let (folder, store) = embedded();
        let address = folder.path().join("thing.db").display().to_string();
        let file = rusqlite::Connection::open(&address).expect("a file");
        file.execute_batch(&format!("{TABLE}; {ROW}; {}", fence::schema(Sql::Sqlite))).expect("tables");
        Self::new("sqlite", address, store, vec![Box::new(folder)])
    }

    pub(crate) fn redis() -> Self {
        let server = Redis::new().start();
        let store = format!("redis://{}", server.address());
        Self::new("redis", server.address(), store, vec![Box::new(server)])
    }

    pub(crate) fn redis_hash() -> Self {
        Self { kind: "redis_hash".into(), ..Self::redis() }
    }

    pub(crate) fn file() -> Self {
        let (folder, store) = embedded();
        let address = folder.path().join("thing").display().to_string();
        std::fs::write(&address, "empty").expect("a file");
        Self::new("file", address, store, vec![Box::new(folder)])
    }

    pub(crate) fn http() -> Self {
        let (folder, store) = embedded();
        let service = service::Running::start();
        Self::new("http", service.address(), store, vec![Box::new(folder), Box::new(service)])
    }

    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Where the lock lives.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    pub(crate) fn write(&self, token: FencingToken, value: &str, checked: bool) -> Result<(), Stale> {
        match self.kind.as_str() {
            "etcd" => {
                let write = fence::etcd::Transaction::new().put("thing", value);
                let write = if checked { write.checked("thing", token) } else { write };
                stale(etcd(&self.address).commit(&write).block().map(|written| assert!(written)))
            }
            "zookeeper" => {
                let write = fence::zookeeper::Transaction::new().set("/thing", value);
                let write = if checked { write.checked("thing", token) } else { write };
                stale(zookeeper(&self.address).commit(&write).block().map(|written| assert!(written)))
            }
            "postgres" | "postgres_column" => in_postgres(&self.address, async |client| {
                let transaction = client.transaction().await.expect("begun");
                if checked && self.kind == "postgres" {
                    stale(fence::postgres::check(&transaction, "thing 1", token).await)?;
                } else if checked {
                    stale(fence::postgres::check_column(&transaction, &column(), 1, token).await)?;
                }
                transaction.execute("UPDATE thing SET value = $1 WHERE id = 1", &[&value]).await.expect("written");
                transaction.commit().await.expect("committed");
                Ok(())
            }),
            "mysql" | "mysql_column" => in_mysql(&self.address, async |conn| {
                let mut transaction = conn.start_transaction(mysql_async::TxOpts::default()).await.expect("begun");
                if checked && self.kind == "mysql" {
                    stale(fence::mysql::check(&mut transaction, "thing 1", token).await)?;
                } else if checked {
                    stale(fence::mysql::check_column(&mut transaction, &column(), 1, token).await)?;
                }
                transaction.exec_drop("UPDATE thing SET value = ? WHERE id = 1", (value,)).await.expect("written");
                transaction.commit().await.expect("committed");
                Ok(())
            }),
            "sqlite" => {
                let mut file = rusqlite::Connection::open(&self.address).expect("a file");
                let transaction = file.transaction().expect("begun");
                if checked {
                    stale(fence::sqlite::check(&transaction, "thing 1", token))?;
                }
                transaction.execute("UPDATE thing SET value = ?1 WHERE id = 1", [value]).expect("written");
                transaction.commit().expect("committed");
                Ok(())
            }
            "redis" if checked => self.eval(&fence::redis_set("thing", value.as_bytes(), token), token),
            "redis" => {
                self.ask_redis(&["SET", "thing", value]);
                Ok(())
            }
            "redis_hash" if checked => self.eval(&fence::redis_hset("thing", "value", value.as_bytes(), token), token),
            "redis_hash" => {
                self.ask_redis(&["HSET", "thing", "value", value]);
                Ok(())
            }
            "file" if checked => stale(fence::replace_file(&self.address, value.as_bytes(), token)),
            "file" => {
                std::fs::write(&self.address, value).expect("written");
                Ok(())
            }
            "http" => self.put(token, value, checked),
            kind => unreachable!("BUG: no kind {kind}"),
        }
    }

    pub(crate) fn read(&self) -> String {
        let select = "SELECT value FROM thing WHERE id = 1";
        match self.kind.as_str() {
            "postgres" | "postgres_column" => {
                in_postgres(&self.address, async |client| client.query_one(select, &[]).await.expect("a row").get(0))
            }
            "mysql" | "mysql_column" => {
                in_mysql(&self.address, async |conn| conn.query_first(select).await.expect("read").expect("a row"))
            }
            "sqlite" => {
                let file = rusqlite::Connection::open(&self.address).expect("a file");
                file.query_row(select, [], |row| row.get(0)).expect("a row")
            }
            "etcd" => {
                let value = etcd(&self.address).get("thing").block().expect("read");
                String::from_utf8(value.unwrap_or_default()).expect("text")
            }
            "zookeeper" => {
                let value = zookeeper(&self.address).get("/thing").block().expect("read");
                String::from_utf8(value.unwrap_or_default()).expect("text")
            }
            "redis" => self.ask_redis(&["GET", "thing"]),
            "redis_hash" => self.ask_redis(&["HGET", "thing", "value"]),
            "file" => std::fs::read_to_string(&self.address).expect("read"),
            "http" => service::ask(&self.address, "GET /checked HTTP/1.1", &[], "").1,
            kind => unreachable!("BUG: no kind {kind}"),
        }
    }

    fn eval(&self, script: &RedisScript, token: FencingToken) -> Result<(), Stale> {
        let count = script.keys.len().to_string();
        let mut words = vec!["EVAL", script.text, &count];
        words.extend(script.keys.iter().map(String::as_str));
        words.extend(script.arguments.iter().map(|argument| std::str::from_utf8(argument).expect("text")));
        token.check(self.ask_redis(&words).parse().expect("a number"))
    }

    /// The last line of the reply, which is its only word.
    fn ask_redis(&self, words: &[&str]) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the server is up");
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
        stream.write_all(command.as_bytes()).and_then(|()| stream.shutdown(std::net::Shutdown::Write)).expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("an answer");
        reply.trim_end().rsplit("\r\n").next().unwrap_or_default().to_owned()
    }

    fn put(&self, token: FencingToken, value: &str, checked: bool) -> Result<(), Stale> {
        let path = if checked { "PUT /checked HTTP/1.1" } else { "PUT /unchecked HTTP/1.1" };
        let shown = fence::http_value(token);
        let header = (fence::HEADER, shown.to_str().expect("digits"));
        match service::ask(&self.address, path, &[header], value) {
            (200, _, _) => Ok(()),
            (412, _, seen) => token.check(seen.expect("the newest is named").parse().expect("digits")),
            other => panic!("{other:?}"),
        }
    }
}

fn column() -> Column {
    Column::new("thing", "id", "last_token")
}

fn stale(checked: Result<(), FenceError>) -> Result<(), Stale> {
    match checked {
        Ok(()) => Ok(()),
        Err(FenceError::Stale(stale)) => Err(stale),
        Err(other) => panic!("{other}"),
    }
}

fn embedded() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("locks.db").display());
    (folder, store)
}

fn zookeeper(url: &str) -> fence::zookeeper::Client {
    fence::zookeeper::Client::connect(url).block().expect("the server is up")
}

fn etcd(url: &str) -> fence::etcd::Client {
    fence::etcd::Client::connect(url).block().expect("the server is up")
}

fn init(url: &str) {
    fencepost::init(url).block().expect("tables for locks");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn in_postgres<T>(url: &str, work: impl AsyncFnOnce(&mut tokio_postgres::Client) -> T) -> T {
    runtime().block_on(async {
        let (mut client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server is up");
        tokio::spawn(async move { drop(connection.await) });
        work(&mut client).await
    })
}

fn in_mysql<T>(url: &str, work: impl AsyncFnOnce(&mut mysql_async::Conn) -> T) -> T {
    runtime().block_on(async {
        let opts = mysql_async::OptsBuilder::from_opts(mysql_async::Opts::from_url(url).expect("a URL"));
        let mut conn = mysql_async::Conn::new(opts.prefer_socket(false)).await.expect("the server is up");
        let done = work(&mut conn).await;
        let _ = conn.disconnect().await;
        done
    })
}
