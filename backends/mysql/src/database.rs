//! The steps in MySQL's own words.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::table::Kept;
use fencepost_core::store::{Claim, FencingToken, LockName, Mode, Owner, StoreError, StoreErrorKind};
use fencepost_core::{Connect, Invalid};
use fencepost_sql::{
    Changes, Database, Failure, Free, Grant, Hub, Page, RowKind, Settings, SqlStore, Take, Version, Want, check_version,
};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, Value};

use crate::error::failure;
use crate::statements::{PATIENCE, PATIENCE_WHILE_PRUNING, SESSION, Statements};

/// How long one connection may take to come up.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// At most so many waiters are looked after by one statement.
const LOOK_MAX: usize = 256;
/// The statements that the server keeps for a session: takings and releases.
const KEPT_MAX: usize = 4;
/// The server's default, which it is then not asked about.
const PACKET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A MySQL or MariaDB database.
pub(crate) struct MySql {
    opts: Opts,
    pool: usize,
    schema: Option<String>,
    pub(crate) statements: Statements,
    label: String,
}

impl MySql {
    pub(crate) fn new(scheme: &str, rest: &str) -> Result<Self, StoreError> {
        let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "connect", invalid.to_string());
        let settings = Settings::parse(scheme, rest, '`').map_err(wrong)?;
        let url = settings.url.replacen("mariadb:", "mysql:", 1);
        let opts = Opts::from_url(&url).map_err(|error| {
            let cure = format!("{error}; it looks like mysql://USER:PASSWORD@HOST:PORT/DATABASE");
            wrong(Invalid::new("store", format!("{scheme}://…"), cure))
        })?;
        let label = format!("mysql://{}:{}/{}", opts.ip_or_hostname(), opts.tcp_port(), opts.db_name().unwrap_or(""));
        let from_environment = || std::env::var("FENCEPOST_MYSQL_PASSWORD").ok();
        let password = settings.password.clone().or_else(|| opts.pass().map(str::to_owned)).or_else(from_environment);
        let builder = OptsBuilder::from_opts(opts).prefer_socket(false).pass(password).stmt_cache_size(KEPT_MAX);
        // How many rows a statement has changed tells whether it took a lock.
        let builder = builder.setup(SESSION.to_vec()).client_found_rows(false);
        let builder = builder.max_allowed_packet(Some(PACKET_BYTES_MAX)).wait_timeout(Some(30));
        let builder = builder.tcp_keepalive(Some(Duration::from_secs(10)));
        let builder = secured(builder, &settings).map_err(wrong)?;
        let (pool, schema) = (settings.pool, settings.tables.schema());
        Ok(Self { opts: builder.into(), pool, schema, statements: Statements::new(settings.tables), label })
    }

    pub(crate) fn connect(scheme: &str, rest: &str) -> Connect {
        let (scheme, rest) = (scheme.to_owned(), rest.to_owned());
        SqlStore::connect(move || Self::new(&scheme, &rest))
    }

    /// Creates the tables, or brings them up to our version.
    pub(crate) async fn ensure_schema(&self) -> Result<(), Failure> {
        let mut link = self.open().await?;
        if let Some(schema) = &self.schema {
            sets(&mut link, &format!("CREATE DATABASE IF NOT EXISTS {schema}")).await?;
        }
        // Tables are made one by one here, outside any transaction: only one program at a time does.
        let locked = sets(&mut link, "SELECT GET_LOCK('fencepost schema', 30)").await?;
        if locked.first().and_then(|rows| rows.first()).and_then(|row| row.get::<Option<i64>, _>(0)).flatten()
            != Some(1)
        {
            let what = "another program has been making the tables for 30 s";
            return Err(Failure::new(StoreErrorKind::TooSlow, what, "wait for it, and try again"));
        }
        let version = match sets(&mut link, &self.statements.version()).await {
            Ok(found) => found.first().and_then(|rows| rows.first()).and_then(|row| row.get(0)),
            Err(missing) if missing.kind == StoreErrorKind::Misconfigured => None,
            Err(other) => return Err(other),
        };
        match Version::of(version)? {
            Version::Ours => Ok(()),
            Version::One => self.migrate(&mut link).await,
            Version::Missing => sets(&mut link, &self.statements.schema).await.map(drop),
        }
    }
}

impl MySql {
    /// From version 1 on. A program may have ended between the two.
    async fn migrate(&self, link: &mut Conn) -> Result<(), Failure> {
        match sets(link, &self.statements.newest()).await {
            Err(missing) if missing.kind == StoreErrorKind::Misconfigured => {
                sets(link, &self.statements.from_1).await?;
            }
            there => drop(there?),
        }
        sets(link, &self.statements.set_version()).await.map(drop)
    }
}

#[cfg(feature = "tls")]
#[allow(clippy::unnecessary_wraps, reason = "the build without TLS refuses")]
fn secured(builder: OptsBuilder, settings: &Settings) -> Result<OptsBuilder, Invalid> {
    if !settings.tls {
        return Ok(builder);
    }
    let mut options = mysql_async::SslOpts::default();
    if let Some(path) = &settings.ca_file {
        let path = std::path::PathBuf::from(path);
        options = options.with_root_certs(vec![path.into()]).with_disable_built_in_roots(true);
    }
    Ok(builder.ssl_opts(options))
}

#[cfg(not(feature = "tls"))]
fn secured(builder: OptsBuilder, settings: &Settings) -> Result<OptsBuilder, Invalid> {
    match settings.tls {
        true => Err(Invalid::new("sslmode", "require", "this build has no TLS: switch on the feature `mysql-tls`")),
        false => Ok(builder),
    }
}

impl Database for MySql {
    type Link = Conn;
    const KIND: &'static str = "mysql";

    fn label(&self) -> String {
        self.label.clone()
    }

    fn links_max(&self) -> usize {
        self.pool
    }

    async fn open(&self) -> Result<Conn, Failure> {
        let opening = fencepost_sql::within(CONNECT_WITHIN, Conn::new(self.opts.clone())).await;
        match opening {
            Some(opened) => opened.map_err(|error| failure(&error)),
            None => {
                let what = format!("{} did not answer within {CONNECT_WITHIN:?}", self.label);
                Err(Failure::new(StoreErrorKind::Unreachable, what, "check the address, and that the server is up"))
            }
        }
    }

    async fn check(&self, link: &mut Conn) -> Result<i64, Failure> {
        let found = sets(link, &self.statements.check()).await?;
        let row = found.first().and_then(|rows| rows.first());
        check_version(row.and_then(|row| row.get(0)))?;
        Ok(row.and_then(|row| row.get(1)).unwrap_or_default())
    }

    async fn take(&self, link: &mut Conn, take: &Take<'_>) -> Result<Option<FencingToken>, Failure> {
        let claim = take.claim;
        let values: Vec<Value> = vec![
            claim.owner.expose().into(),
            (claim.mode == Mode::Shared).into(),
            (&*claim.label).into(),
            take.attempt.into(),
            claim.actor.map(|actor| actor.to_string()).into(),
            take.kept_us().into(),
            claim.name.as_str().into(),
            take.before_us.into(),
        ];
        let is_taken = alone(link, &self.statements.take, values).await?;
        Ok(link.last_insert_id().filter(|_| is_taken).and_then(FencingToken::from_number))
    }

    async fn free(&self, link: &mut Conn, free: &Free<'_>) -> Result<bool, Failure> {
        let values: Vec<Value> =
            vec![free.claim.name.as_str().into(), free.claim.owner.expose().into(), free.raised_to().into()];
        alone(link, &self.statements.free, values).await
    }

    async fn begin(&self, link: &mut Conn, want: &Want) -> Result<Page, Failure> {
        page(sets(link, &self.statements.begin(want)).await?.into_iter().flatten(), want)
    }

    async fn again(&self, link: &mut Conn, want: &Want) -> Result<Page, Failure> {
        page(sets(link, &self.statements.page(want)).await?.into_iter().flatten(), want)
    }

    async fn commit(&self, link: &mut Conn, name: &LockName, changes: &Changes) -> Result<(), Failure> {
        sets(link, &self.statements.commit(name, changes)).await.map(drop)
    }

    async fn record(&self, link: &mut Conn, name: &LockName, locking: bool) -> Result<(Option<Kept>, i64), Failure> {
        let text = if locking { self.statements.lock_record(name) } else { self.statements.record(name) };
        let mut found = sets(link, &text).await?;
        let now_us = found.pop().and_then(|rows| rows.first()?.get(0)).unwrap_or_default();
        let kept = found.pop().and_then(|rows| {
            let row = rows.first()?;
            let token = |column: usize| FencingToken::from_number(u64::try_from(row.get::<i64, _>(column)?).ok()?);
            let value = row.get::<Option<Vec<u8>>, _>(2)?;
            Some(Kept { token: token(0)?, until: token(1)?, value, value_until: token(3)? })
        });
        Ok((kept, now_us))
    }

    async fn put_record(&self, link: &mut Conn, name: &LockName, kept: &Kept) -> Result<(), Failure> {
        sets(link, &self.statements.put_record(name, kept)).await.map(drop)
    }

    async fn rollback(&self, link: &mut Conn) -> Result<(), Failure> {
        sets(link, "ROLLBACK").await.map(drop)
    }

    async fn look(&self, link: &mut Conn, names: &[LockName]) -> Result<Vec<Page>, Failure> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let wants: Vec<Want> = names.iter().cloned().map(Want::all).collect();
        let statements: Vec<String> = wants.iter().map(|want| self.statements.look(want)).collect();
        let found = sets(link, &statements.join("; ")).await?;
        let each = found.len() / names.len();
        found.chunks(each).zip(&wants).map(|(sets, want)| page(sets.iter().flatten().cloned(), want)).collect()
    }

    async fn names(
        &self,
        link: &mut Conn,
        prefix: &str,
        after: &str,
        limit: u32,
        contended: bool,
    ) -> Result<Vec<LockName>, Failure> {
        let rows = sets(link, &self.statements.names(prefix, after, limit, contended)).await?.pop().unwrap_or_default();
        let texts = rows.iter().map_while(|row| row.get::<String, _>(0));
        let names = texts.map_while(|text| LockName::new(text).ok());
        Ok(names.take_while(|name| name.as_str().starts_with(prefix)).collect())
    }

    async fn grants(&self, link: &mut Conn, claims: &[Arc<Claim>]) -> Result<Vec<Grant>, Failure> {
        let mut grants = Vec::new();
        for some in claims.chunks(LOOK_MAX) {
            let statement = self.statements.grants(some.iter().map(|claim| &**claim));
            let rows = sets(link, &statement).await?.pop().unwrap_or_default();
            grants.extend(rows.iter().filter_map(|row| {
                let owner = Owner::from_exposed(&row.get::<String, _>(0)?)?;
                let token = u64::try_from(row.get::<i64, _>(1)?).ok().and_then(FencingToken::from_number)?;
                Some(Grant { owner, token, attempt: row.get(2)? })
            }));
        }
        Ok(grants)
    }

    async fn prune(&self, link: &mut Conn) -> Result<(), Failure> {
        let turn = sets(link, &self.statements.prune_turn()).await?.pop().unwrap_or_default();
        let turn = turn.first().map(|row| (row.get::<i64, _>(0), row.get::<i64, _>(1)));
        if let Some((Some(1), Some(now_us))) = turn {
            // A DELETE waits for every row that it looks at. Whoever fails to clean up drops the session, and its setting.
            sets(link, PATIENCE_WHILE_PRUNING).await?;
            for statement in self.statements.prune(now_us) {
                sets(link, &statement).await?;
            }
            sets(link, PATIENCE).await?;
        }
        Ok(())
    }

    /// MySQL carries no letters: waiters look.
    async fn hear(&self, _hub: &Hub) {}
}

/// Sends statements in one packet and answers the rows of each.
pub(crate) async fn sets(link: &mut Conn, text: &str) -> Result<Vec<Vec<Row>>, Failure> {
    let said = |error: mysql_async::Error| failure(&error);
    let mut result = link.query_iter(text).await.map_err(said)?;
    let mut sets = Vec::new();
    while !result.is_empty() {
        sets.push(result.collect().await.map_err(said)?);
    }
    Ok(sets)
}

/// Runs a statement that the server keeps for this session: whether it changed a row.
async fn alone(link: &mut Conn, text: &str, values: Vec<Value>) -> Result<bool, Failure> {
    link.exec_drop(text, values).await.map_err(|error| failure(&error))?;
    Ok(link.affected_rows() > 0)
}

fn page(rows: impl Iterator<Item = Row>, want: &Want) -> Result<Page, Failure> {
    let rows = rows.map(|found| parts(&found).ok_or("a row has an unexpected value"));
    let rows = rows.collect::<Result<Vec<_>, _>>().map(|rows| rows.concat()).map_err(str::to_owned);
    let page = rows.and_then(|rows| Page::of(rows, want));
    page.map_err(|what| Failure::new(StoreErrorKind::Unexpected, what, "another program writes to these tables"))
}

/// The row of a lock is about itself and about its grant.
fn parts(found: &Row) -> Option<Vec<fencepost_sql::Row>> {
    let number = |column: usize| found.get_opt::<Option<i64>, _>(column)?.ok().flatten();
    if RowKind::from_number(number(0)?)? != RowKind::Lock {
        return Some(vec![row(found)?]);
    }
    let lock = fencepost_sql::Row {
        number: number(14)?,
        shared: number(15)? != 0,
        until_us: number(16)?,
        since_us: number(17)?,
        ..fencepost_sql::Row::empty(RowKind::Lock)
    };
    let is_held = found.get::<Option<String>, _>(1).flatten().is_some();
    match is_held {
        true => Some(vec![lock, fencepost_sql::Row { kind: RowKind::Seat, ..row(found)? }]),
        false => Some(vec![lock]),
    }
}

fn row(row: &Row) -> Option<fencepost_sql::Row> {
    let text = |column: usize| row.get::<Option<String>, _>(column).flatten();
    let number = |column: usize| row.get_opt::<Option<i64>, _>(column)?.ok().flatten();
    Some(fencepost_sql::Row {
        kind: RowKind::from_number(number(0)?)?,
        owner: text(1),
        number: number(2)?,
        shared: number(3)? != 0,
        label: text(4)?,
        since_us: number(5)?,
        until_us: number(6)?,
        kept_us: number(7)?,
        attempt: number(8)?,
        actor: text(9),
        ask_number: number(10),
        ask_by: text(11),
        ask_note: text(12),
        inbox: text(13),
    })
}
