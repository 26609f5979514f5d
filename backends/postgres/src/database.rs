//! The steps in PostgreSQL's own words.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost_core::store::table::{Held, Kept, Queued};
use fencepost_core::store::{Claim, FencingToken, LockName, Mode, Moment, Owner, StoreError, StoreErrorKind};
use fencepost_core::{Connect, Invalid};
use fencepost_sql::{
    Changes, Database, Failure, Free, Grant, Hub, LockRow, Page, RowKind, Settings, SqlStore, Take, Version, Want,
    check_version,
};
use futures_util::future::{join, join_all};
use tokio_postgres::{Config, Row};

use crate::ear;
use crate::error::failure;
use crate::link::{Link, Value};
use crate::statements::{BEGIN, CLOCK, MIGRATION, NOTIFY, Statements};
use crate::tls::{Connector, connector};

/// How long one connection may take to come up.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A silent network is noticed after so long.
const SILENCE: Duration = Duration::from_secs(10);

/// A PostgreSQL database.
pub(crate) struct Postgres {
    pub(crate) config: Config,
    connector: Connector,
    pub(crate) settings: Settings,
    pub(crate) statements: Statements,
    label: String,
    /// The server's sessions are ours, no pooler stands between: seen by a letter that arrived.
    pub(crate) is_direct: Arc<AtomicBool>,
    /// Letters do not arrive here.
    pub(crate) is_deaf: AtomicBool,
}

impl Postgres {
    pub(crate) fn new(scheme: &str, rest: &str) -> Result<Self, StoreError> {
        let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "connect", invalid.to_string());
        let settings = Settings::parse(scheme, rest, '"').map_err(wrong)?;
        let mut config: Config = settings.url.parse().map_err(|error: tokio_postgres::Error| {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let cure = "postgres://USER:PASSWORD@HOST:PORT/DATABASE";
            wrong(Invalid::new("store", "postgres://…", format!("{source}; it looks like {cure}")))
        })?;
        if let Some(password) = &settings.password {
            config.password(password);
        } else if config.get_password().is_none()
            && let Ok(password) = std::env::var("FENCEPOST_POSTGRES_PASSWORD")
        {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        config.keepalives_idle(SILENCE).tcp_user_timeout(SILENCE).application_name("fencepost");
        config.ssl_mode(match settings.tls {
            true => tokio_postgres::config::SslMode::Require,
            false => tokio_postgres::config::SslMode::Disable,
        });
        let connector = connector(&settings).map_err(wrong)?;
        let statements = Statements::new(&settings.tables);
        let label = label(&config);
        let (is_direct, is_deaf) = (Arc::default(), AtomicBool::new(!settings.listen));
        Ok(Self { config, connector, settings, statements, label, is_direct, is_deaf })
    }

    pub(crate) fn connect(scheme: &str, rest: &str) -> Connect {
        let (scheme, rest) = (scheme.to_owned(), rest.to_owned());
        SqlStore::connect(move || Self::new(&scheme, &rest))
    }

    pub(crate) fn connector(&self) -> Connector {
        self.connector.clone()
    }

    /// Creates the tables, or brings them up to our version.
    pub(crate) async fn ensure_schema(&self) -> Result<(), Failure> {
        let link = self.open().await?;
        link.batch("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        link.rows(MIGRATION, &[]).await?;
        if let Some(schema) = self.settings.tables.schema() {
            link.batch(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
        }
        let there = self.settings.tables.fill("SELECT to_regclass($1) IS NOT NULL");
        let meta = self.settings.tables.fill("{meta}");
        let is_there: bool = link.rows(&there, &[Value::text(meta)]).await?.first().is_some_and(|row| row.get(0));
        let found = match is_there {
            true => Version::of(link.rows(&self.statements.version, &[]).await?.first().map(|row| row.get(0)))?,
            false => Version::Missing,
        };
        match found {
            Version::Missing => link.batch(&self.statements.schema).await?,
            Version::One => link.batch(&self.statements.from_1).await?,
            Version::Ours => {}
        }
        link.batch("COMMIT").await
    }

    /// Reads the rows of a lock: sent together, one round trip. `locking` also locks its row; no answer: there is none.
    async fn page(&self, link: &Link, want: &Want, locking: bool) -> Result<Option<Page>, Failure> {
        let statements = &self.statements;
        let name = || Value::text(want.name.as_str());
        let last = if locking { &statements.lock } else { &statements.last };
        let places = || Value::Texts(want.places.iter().map(Owner::expose).collect());
        // In the order of [`RowKind`], where all are wanted. The one that locks comes first, so all others see what the last
        // one who had the row has written.
        let mut reads: Vec<(Option<RowKind>, &str, Vec<Value>)> = vec![
            (Some(RowKind::Lock), last, vec![name()]),
            (None, CLOCK, Vec::new()),
            (Some(RowKind::Holder), &statements.holders, vec![name()]),
        ];
        if want.line > 0 {
            reads.push((Some(RowKind::Waiter), &statements.line, vec![name(), Value::number(want.line)]));
        }
        if let Some(owner) = &want.revoked {
            let values = vec![name(), Value::text(owner.expose())];
            reads.push((Some(RowKind::Revoked), &statements.revoked, values));
        }
        if !want.places.is_empty() {
            reads.push((Some(RowKind::AskedAbout), &statements.places, vec![name(), places()]));
            reads.push((Some(RowKind::Count), &statements.count, vec![name()]));
        }
        let answers = join_all(reads.iter().map(|(_, text, values)| link.rows(text, values))).await;
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        let now_us: i64 = answers[1].first().map_or(0, |row| row.get(0));
        let is_there = !answers[0].is_empty();
        let mut rows = vec![fencepost_sql::Row { since_us: now_us, ..fencepost_sql::Row::empty(RowKind::Lock) }];
        for ((kind, ..), answer) in reads.iter().zip(&answers) {
            for found in answer {
                match kind {
                    None => {}
                    Some(RowKind::Lock) => {
                        (rows[0].number, rows[0].shared, rows[0].until_us) = (found.get(0), found.get(1), found.get(2));
                        if found.get::<_, Option<&str>>(SEAT).is_some() {
                            rows.push(row(RowKind::Seat, found, SEAT).map_err(|error| spoilt(error.to_string()))?);
                        }
                    }
                    Some(kind) => rows.push(row(*kind, found, 0).map_err(|error| spoilt(error.to_string()))?),
                }
            }
        }
        let page = Page::of(rows, want).map_err(spoilt)?;
        Ok((is_there || !locking).then_some(page))
    }

    /// One statement that is a step by itself. Where the session is not ours, a transaction around it says how long it may
    /// wait for a row; all is sent together.
    async fn alone(&self, link: &Link, text: &str, values: &[Value]) -> Result<Vec<Row>, Failure> {
        self.ready(link).await?;
        if link.is_settled() {
            return link.at_once(link.rows(text, values)).await;
        }
        let all = join(join(link.batch(BEGIN), link.rows(text, values)), link.batch("COMMIT"));
        let ((begun, rows), ended) = link.at_once(all).await;
        begun?;
        let rows = rows?;
        ended.map(|()| rows)
    }

    /// What is read with nearly every step is made ready at the server.
    async fn ready(&self, link: &Link) -> Result<(), Failure> {
        let Statements { take, free, lock, last, make, holders, line, revoked, .. } = &self.statements;
        link.settle().await?;
        for text in [take, free, lock, last, make, holders, line, revoked, CLOCK] {
            link.ready(text).await?;
        }
        Ok(())
    }
}

/// Where the grant begins in the row of a lock.
const SEAT: usize = 3;

fn spoilt(what: String) -> Failure {
    Failure::new(StoreErrorKind::Unexpected, what, "another program writes to these tables")
}

impl Database for Postgres {
    type Link = Link;
    const KIND: &'static str = "postgres";

    fn label(&self) -> String {
        match self.is_deaf.load(Ordering::Relaxed) {
            true => format!("{} (waiters poll: NOTIFY does not arrive)", self.label),
            false => self.label.clone(),
        }
    }

    fn links_max(&self) -> usize {
        self.settings.pool
    }

    async fn open(&self) -> Result<Link, Failure> {
        let (client, connection) = self.config.connect(self.connector()).await.map_err(|error| failure(&error))?;
        let carried = async move {
            // Whoever waits for an answer is told of the error.
            let _ = connection.await;
        };
        Ok(Link::new(client, carried, self.is_direct.clone()))
    }

    async fn check(&self, link: &mut Link) -> Result<i64, Failure> {
        let rows = link.rows(&self.statements.check, &[]).await?;
        check_version(rows.first().map(|row| row.get(0)))?;
        Ok(rows[0].get(1))
    }

    async fn take(&self, link: &mut Link, take: &Take<'_>) -> Result<Option<FencingToken>, Failure> {
        let claim = take.claim;
        let values = [
            Value::text(claim.name.as_str()),
            Value::text(claim.owner.expose()),
            Value::Yes(claim.mode == Mode::Shared),
            Value::text(&*claim.label),
            Value::number(take.kept_us()),
            Value::number(take.attempt.into()),
            Value::Text(claim.actor.map(|actor| actor.to_string())),
            Value::number(take.before_us),
        ];
        let taken = self.alone(link, &self.statements.take, &values).await?;
        let Some(row) = taken.first() else { return Ok(None) };
        let token = u64::try_from(row.get::<_, i64>(0)).ok().and_then(FencingToken::from_number);
        token.map(Some).ok_or_else(|| spoilt("a token is none".to_owned()))
    }

    async fn free(&self, link: &mut Link, free: &Free<'_>) -> Result<bool, Failure> {
        let (name, owner) = (free.claim.name.as_str(), free.claim.owner.expose());
        let values = [Value::text(name), Value::text(owner), Value::number(free.raised_to())];
        Ok(!self.alone(link, &self.statements.free, &values).await?.is_empty())
    }

    async fn begin(&self, link: &mut Link, want: &Want) -> Result<Page, Failure> {
        self.ready(link).await?;
        let (begun, page) = link.at_once(join(link.batch(BEGIN), self.page(link, want, true))).await;
        begun?;
        if let Some(page) = page? {
            return Ok(page);
        }
        let make = [Value::text(want.name.as_str()), Value::number(0)];
        let (made, page) = join(link.rows(&self.statements.make, &make), self.page(link, want, true)).await;
        made?;
        page?.ok_or_else(|| spoilt("the row of the lock is gone again".to_owned()))
    }

    async fn again(&self, link: &mut Link, want: &Want) -> Result<Page, Failure> {
        self.page(link, want, true).await?.ok_or_else(|| spoilt("the row of the lock is gone".to_owned()))
    }

    async fn commit(&self, link: &mut Link, name: &LockName, changes: &Changes) -> Result<(), Failure> {
        let writes = self.writes(name, changes);
        for (text, _) in &writes {
            link.ready(text).await?;
        }
        let link = &*link;
        type Sent<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;
        let mut sent: Vec<Sent<'_>> = Vec::with_capacity(writes.len() + 1);
        for (text, values) in &writes {
            sent.push(Box::pin(async move { link.rows(text, values).await.map(drop) }));
        }
        // After a statement that failed, the server takes this for a rollback; the failure is what we report.
        sent.push(Box::pin(link.batch("COMMIT")));
        link.at_once(join_all(sent)).await.into_iter().collect()
    }

    async fn record(&self, link: &mut Link, name: &LockName, locking: bool) -> Result<(Option<Kept>, i64), Failure> {
        let (statements, key) = (&self.statements, [Value::text(name.as_str())]);
        let (rows, now) = match locking {
            false => link.at_once(join(link.rows(&statements.record, &key), link.rows(CLOCK, &[]))).await,
            true => {
                let begun = join(link.batch(BEGIN), link.rows(&statements.make_record, &key));
                let read = join(link.rows(&statements.lock_record, &key), link.rows(CLOCK, &[]));
                let ((begun, made), read) = link.at_once(join(begun, read)).await;
                begun?;
                made?;
                read
            }
        };
        // After a statement that failed, all others fail: the first is the one to tell of.
        let (rows, now) = (rows?, now?);
        let now_us = now.first().map_or(0, |row| row.get(0));
        let kept = rows.first().and_then(|row| {
            let token = |column: usize| FencingToken::from_number(u64::try_from(row.get::<_, i64>(column)).ok()?);
            Some(Kept { token: token(0)?, until: token(1)?, value: row.get(2), value_until: token(3)? })
        });
        Ok((kept, now_us))
    }

    async fn put_record(&self, link: &mut Link, name: &LockName, kept: &Kept) -> Result<(), Failure> {
        let values = [
            Value::text(name.as_str()),
            Value::number(kept.token.as_i64()),
            Value::number(kept.until.as_i64()),
            Value::Bytes(kept.value.clone()),
            Value::number(kept.value_until.as_i64()),
        ];
        let (put, ended) =
            link.at_once(join(link.rows(&self.statements.put_record, &values), link.batch("COMMIT"))).await;
        put?;
        ended
    }

    async fn rollback(&self, link: &mut Link) -> Result<(), Failure> {
        link.batch("ROLLBACK").await
    }

    async fn look(&self, link: &mut Link, names: &[LockName]) -> Result<Vec<Page>, Failure> {
        self.ready(link).await?;
        let wants: Vec<Want> = names.iter().cloned().map(Want::all).collect();
        let pages = join_all(wants.iter().map(|want| self.page(link, want, false))).await;
        pages.into_iter().map(|page| Ok(page?.unwrap_or_default())).collect()
    }

    async fn names(
        &self,
        link: &mut Link,
        prefix: &str,
        after: &str,
        limit: u32,
        contended: bool,
    ) -> Result<Vec<LockName>, Failure> {
        let text = if contended { &self.statements.names_waited_for } else { &self.statements.names };
        let values = [Value::text(prefix), Value::text(after), Value::number(limit.into())];
        let rows = link.rows(text, &values).await?;
        let names = rows.iter().map_while(|row| LockName::new(row.get::<_, &str>(0)).ok());
        Ok(names.take_while(|name| name.as_str().starts_with(prefix)).collect())
    }

    async fn grants(&self, link: &mut Link, claims: &[Arc<Claim>]) -> Result<Vec<Grant>, Failure> {
        let names = claims.iter().map(|claim| claim.name.as_str().to_owned()).collect();
        let owners = claims.iter().map(|claim| claim.owner.expose()).collect();
        let rows = link.rows(&self.statements.grants, &[Value::Texts(names), Value::Texts(owners)]).await?;
        let grants = rows.iter().filter_map(|row| {
            let owner = Owner::from_exposed(row.get(0))?;
            let token = u64::try_from(row.get::<_, i64>(1)).ok().and_then(FencingToken::from_number)?;
            Some(Grant { owner, token, attempt: u32::try_from(row.get::<_, i64>(2)).ok()? })
        });
        Ok(grants.collect())
    }

    async fn prune(&self, link: &mut Link) -> Result<(), Failure> {
        link.batch(&self.statements.prune).await
    }

    async fn hear(&self, hub: &Hub) {
        ear::hear(self, hub).await;
    }
}

impl Postgres {
    fn writes(&self, name: &LockName, changes: &Changes) -> Vec<(&str, Vec<Value>)> {
        let (statements, key) = (&self.statements, || Value::text(name.as_str()));
        let exposed = |owners: &[Owner]| Value::Texts(owners.iter().map(Owner::expose).collect());
        let mut writes: Vec<(&str, Vec<Value>)> = Vec::new();
        let gone = changes.dropped_waiters();
        if !changes.drop_holders.is_empty() {
            writes.push((&statements.drop_holders, vec![key(), exposed(&changes.drop_holders)]));
        }
        if !gone.is_empty() {
            writes.push((&statements.drop_waiters, vec![key(), exposed(&gone)]));
        }
        for held in &changes.put_holders {
            writes.push((&statements.put_holder, holder_values(name, held)));
        }
        for (queued, inbox) in changes.waiters.values().flatten() {
            writes.push((&statements.put_waiter, waiter_values(name, queued, inbox.clone())));
        }
        if !changes.revoked.is_empty() {
            let values = vec![key(), exposed(&changes.revoked), Value::number(changes.now_us)];
            writes.push((&statements.revoke, values));
        }
        if let Some(row) = &changes.row {
            writes.push((&statements.put_lock, lock_values(name, row, changes)));
        }
        let letters = changes.letters.iter();
        writes.extend(letters.map(|(to, text)| (NOTIFY, vec![Value::text(to.as_str()), Value::text(text.as_str())])));
        writes
    }
}

fn holder_values(name: &LockName, held: &Held) -> Vec<Value> {
    let asked = held.asked.as_ref();
    vec![
        Value::text(name.as_str()),
        Value::text(held.owner.expose()),
        Value::number(held.token.as_i64()),
        Value::Yes(held.mode == Mode::Shared),
        Value::text(held.label.as_str()),
        Value::number(micros(held.since)),
        Value::number(micros(held.until)),
        Value::number(held.attempt.into()),
        Value::Text(held.actor.map(|actor| actor.to_string())),
        Value::Number(asked.map(|asked| asked.number().cast_signed())),
        Value::Text(asked.map(|asked| asked.by.clone())),
        Value::Text(asked.map(|asked| asked.note.clone())),
    ]
}

fn lock_values(name: &LockName, row: &LockRow, changes: &Changes) -> Vec<Value> {
    let mut values = match &row.seat {
        Some(held) => holder_values(name, held),
        None => vec![
            Value::text(name.as_str()),
            Value::Text(None),
            Value::Number(None),
            Value::Yes(false),
            Value::Text(None),
            Value::Number(None),
            Value::Number(None),
            Value::Number(None),
            Value::Text(None),
            Value::Number(None),
            Value::Text(None),
            Value::Text(None),
        ],
    };
    values.extend([
        Value::number(changes.now_us),
        Value::number(changes.last.map_or(0, FencingToken::as_i64)),
        Value::Yes(row.busy),
        Value::number(row.late_until_us),
    ]);
    values
}

fn waiter_values(name: &LockName, queued: &Queued, inbox: Option<String>) -> Vec<Value> {
    vec![
        Value::text(name.as_str()),
        Value::text(queued.owner.expose()),
        Value::number(queued.ticket.as_i64()),
        Value::Yes(queued.mode == Mode::Shared),
        Value::text(queued.label.as_str()),
        Value::number(micros(queued.since)),
        Value::number(micros(queued.until)),
        Value::number(i64::try_from(queued.kept_for.as_micros()).unwrap_or(i64::MAX)),
        Value::number(queued.attempt.into()),
        Value::Text(queued.actor.map(|actor| actor.to_string())),
        Value::Text(inbox),
    ]
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos() / 1000).unwrap_or(i64::MAX)
}

/// A row of ours whose first column of this kind is the one with this number.
fn row(kind: RowKind, row: &Row, first: usize) -> Result<fencepost_sql::Row, tokio_postgres::Error> {
    let empty = fencepost_sql::Row::empty(kind);
    match kind {
        RowKind::Lock => Ok(empty),
        RowKind::Count => Ok(fencepost_sql::Row { number: row.try_get(0)?, since_us: row.try_get(1)?, ..empty }),
        RowKind::Revoked => Ok(fencepost_sql::Row { owner: row.try_get(0)?, ..empty }),
        RowKind::Seat | RowKind::Holder | RowKind::Waiter | RowKind::AskedAbout => Ok(fencepost_sql::Row {
            kind,
            owner: row.try_get(first)?,
            number: row.try_get(first + 1)?,
            shared: row.try_get(first + 2)?,
            label: row.try_get(first + 3)?,
            since_us: row.try_get(first + 4)?,
            until_us: row.try_get(first + 5)?,
            kept_us: row.try_get(first + 6)?,
            attempt: row.try_get(first + 7)?,
            actor: row.try_get(first + 8)?,
            ask_number: row.try_get(first + 9)?,
            ask_by: row.try_get(first + 10)?,
            ask_note: row.try_get(first + 11)?,
            inbox: row.try_get(first + 12)?,
        }),
    }
}

/// Where it is, without who we are.
fn label(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        tokio_postgres::config::Host::Tcp(host) => host.clone(),
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    });
    let ports = config.get_ports().iter().copied().chain(std::iter::repeat(5432));
    let hosts: Vec<String> = hosts.zip(ports).map(|(host, port)| format!("{host}:{port}")).collect();
    format!("postgres://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}
