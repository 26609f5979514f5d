//! The rows of one lock while a step works on them: each method is one statement.

use std::time::Duration;

use fencepost_core::store::table::{Held, Kept, Notice, Queued, Shelf};
use fencepost_core::store::{ActorId, Event, FencingToken, LockName, Mode, Moment, Owner, YieldRequest};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use crate::wake::{self, Route, Wake};

/// Somebody in line who has to be told, once the step is committed.
#[derive(Debug)]
pub(crate) struct Told {
    owner: Owner,
    attempt: u32,
    notice: Notice,
    route: Route,
}

impl Told {
    /// Wakes it if it is in another process. What to push if it is in this one.
    pub(crate) fn send(self, name: &LockName) -> Option<(Owner, Event)> {
        let event = match self.notice {
            Notice::HandedOver { token } => Event::HandedOver { token, attempt: self.attempt },
            Notice::MayPay => Event::MayPay,
        };
        match self.route {
            Route::Here => Some((self.owner, event)),
            Route::There(socket) => {
                wake::hint(&socket, name);
                None
            }
            Route::Polls => None,
        }
    }
}

/// How far a shelf may go.
pub(crate) enum Access<'a> {
    /// Only look.
    Read,
    /// Change rows. Whoever is to be told is put into `told`.
    Write { wake: &'a mut Wake, told: &'a mut Vec<Told> },
}

/// The rows of one lock.
pub(crate) struct SqlShelf<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) name: &'a LockName,
    pub(crate) moment: Moment,
    pub(crate) now_ms: i64,
    pub(crate) access: Access<'a>,
}

impl SqlShelf<'_> {
    fn queued(&self, sql: &str, limit: u32) -> rusqlite::Result<Vec<Queued>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(named_params! { ":name": self.name.as_str(), ":limit": limit }, queued)?;
        rows.collect()
    }

    fn execute(&self, sql: &str, owner: &Owner) -> rusqlite::Result<usize> {
        let params = named_params! { ":name": self.name.as_str(), ":owner": owner.expose() };
        self.connection.prepare_cached(sql)?.execute(params)
    }

    /// Keeps the lock's row from being pruned.
    pub(crate) fn touch(&self) -> rusqlite::Result<()> {
        let params = named_params! { ":name": self.name.as_str(), ":now_ms": self.now_ms };
        self.connection.prepare_cached(include_str!("sql/touch.sql"))?.execute(params)?;
        Ok(())
    }
}

impl Shelf for SqlShelf<'_> {
    type Error = rusqlite::Error;

    fn holders(&mut self) -> rusqlite::Result<Vec<Held>> {
        let mut statement = self.connection.prepare_cached(include_str!("sql/holders.sql"))?;
        let rows = statement.query_map(named_params! { ":name": self.name.as_str() }, held)?;
        rows.collect()
    }

    fn put_holder(&mut self, held: &Held) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(include_str!("sql/put_holder.sql"))?;
        statement.execute(named_params! {
            ":name": self.name.as_str(),
            ":owner": held.owner.expose(),
            ":token": held.token.as_i64(),
            ":shared": held.mode == Mode::Shared,
            ":label": held.label,
            ":since_ns": nanos(held.since),
            ":until_ns": nanos(held.until),
            ":attempt": held.attempt,
            ":actor": held.actor.map(|actor| actor.to_string()),
            ":ask_number": held.asked.as_ref().map(|asked| asked.number().cast_signed()),
            ":ask_by": held.asked.as_ref().map(|asked| &asked.by),
            ":ask_note": held.asked.as_ref().map(|asked| &asked.note),
        })?;
        Ok(())
    }

    /// Whoever only looks leaves a grant whose time is over to the next writer.
    fn remove_holder(&mut self, owner: &Owner) -> rusqlite::Result<()> {
        match self.access {
            Access::Read => Ok(()),
            Access::Write { .. } => self.execute(include_str!("sql/remove_holder.sql"), owner).map(drop),
        }
    }

    fn last(&mut self) -> rusqlite::Result<Option<FencingToken>> {
        let mut statement = self.connection.prepare_cached(include_str!("sql/last.sql"))?;
        statement.query_row(named_params! { ":name": self.name.as_str() }, |row| token(row, 0)).optional()
    }

    fn set_last(&mut self, last: FencingToken) -> rusqlite::Result<()> {
        let params = named_params! { ":name": self.name.as_str(), ":last": last.as_i64(), ":now_ms": self.now_ms };
        self.connection.prepare_cached(include_str!("sql/set_last.sql"))?.execute(params)?;
        Ok(())
    }

    fn head(&mut self) -> rusqlite::Result<Option<Queued>> {
        Ok(self.waiters(1)?.pop())
    }

    fn tail(&mut self) -> rusqlite::Result<Option<FencingToken>> {
        let mut statement = self.connection.prepare_cached(include_str!("sql/tail.sql"))?;
        statement.query_row(named_params! { ":name": self.name.as_str() }, |row| token(row, 0)).optional()
    }

    fn waiter(&mut self, owner: &Owner) -> rusqlite::Result<Option<Queued>> {
        let params = named_params! { ":name": self.name.as_str(), ":owner": owner.expose() };
        self.connection.prepare_cached(include_str!("sql/waiter.sql"))?.query_row(params, queued).optional()
    }

    fn waiters(&mut self, limit: u32) -> rusqlite::Result<Vec<Queued>> {
        self.queued(include_str!("sql/waiters.sql"), limit)
    }

    fn waiter_count(&mut self) -> rusqlite::Result<u32> {
        let mut statement = self.connection.prepare_cached(include_str!("sql/waiter_count.sql"))?;
        statement.query_row(named_params! { ":name": self.name.as_str() }, |row| row.get(0))
    }

    fn put_waiter(&mut self, queued: &Queued) -> rusqlite::Result<()> {
        let inbox = match &self.access {
            Access::Read => None,
            Access::Write { wake, .. } => wake.inbox(),
        };
        let mut statement = self.connection.prepare_cached(include_str!("sql/put_waiter.sql"))?;
        statement.execute(named_params! {
            ":name": self.name.as_str(),
            ":owner": queued.owner.expose(),
            ":ticket": queued.ticket.as_i64(),
            ":shared": queued.mode == Mode::Shared,
            ":label": queued.label,
            ":since_ns": nanos(queued.since),
            ":until_ns": nanos(queued.until),
            ":lease_ns": i64::try_from(queued.kept_for.as_nanos()).unwrap_or(i64::MAX),
            ":attempt": queued.attempt,
            ":actor": queued.actor.map(|actor| actor.to_string()),
            ":inbox": inbox,
        })?;
        Ok(())
    }

    fn remove_waiter(&mut self, owner: &Owner) -> rusqlite::Result<bool> {
        Ok(self.execute(include_str!("sql/remove_waiter.sql"), owner)? > 0)
    }

    fn revoked(&mut self, owner: &Owner) -> rusqlite::Result<bool> {
        let params = named_params! { ":name": self.name.as_str(), ":owner": owner.expose() };
        self.connection.prepare_cached(include_str!("sql/revoked.sql"))?.exists(params)
    }

    fn set_revoked(&mut self, owner: &Owner) -> rusqlite::Result<()> {
        let (name, now_ns) = (self.name.as_str(), nanos(self.moment));
        let params = named_params! { ":name": name, ":owner": owner.expose(), ":now_ns": now_ns };
        self.connection.prepare_cached(include_str!("sql/set_revoked.sql"))?.execute(params)?;
        Ok(())
    }

    fn record(&mut self) -> rusqlite::Result<Option<Kept>> {
        let mut statement = self.connection.prepare_cached(include_str!("sql/record.sql"))?;
        statement.query_row(named_params! { ":name": self.name.as_str() }, kept).optional()
    }

    fn put_record(&mut self, kept: &Kept) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(include_str!("sql/put_record.sql"))?;
        statement.execute(named_params! {
            ":name": self.name.as_str(),
            ":token": kept.token.as_i64(),
            ":until": kept.until.as_i64(),
            ":value": kept.value,
            ":value_until": kept.value_until.as_i64(),
        })?;
        Ok(())
    }

    fn tell(&mut self, to: &Queued, notice: Notice) -> rusqlite::Result<bool> {
        let params = named_params! { ":name": self.name.as_str(), ":owner": to.owner.expose() };
        let mut statement = self.connection.prepare_cached(include_str!("sql/inbox.sql"))?;
        let inbox: Option<String> = statement.query_row(params, |row| row.get(0)).optional()?.flatten();
        let Access::Write { wake, told } = &mut self.access else { return Ok(true) };
        let Some(route) = wake.route(&to.owner, inbox.as_deref()) else { return Ok(false) };
        told.push(Told { owner: to.owner, attempt: to.attempt, notice, route });
        Ok(true)
    }
}

/// A moment as a column.
pub(crate) fn nanos(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos()).unwrap_or(i64::MAX)
}

fn held(row: &Row<'_>) -> rusqlite::Result<Held> {
    Ok(Held {
        owner: owner(row, 0)?,
        token: token(row, 1)?,
        mode: mode(row, 2)?,
        label: row.get(3)?,
        since: moment(row, 4)?,
        until: moment(row, 5)?,
        attempt: row.get(6)?,
        actor: actor(row, 7)?,
        asked: asked(row, 8)?,
    })
}

fn queued(row: &Row<'_>) -> rusqlite::Result<Queued> {
    Ok(Queued {
        owner: owner(row, 0)?,
        ticket: token(row, 1)?,
        mode: mode(row, 2)?,
        label: row.get(3)?,
        since: moment(row, 4)?,
        until: moment(row, 5)?,
        kept_for: Duration::from_nanos(row.get::<_, i64>(6)?.unsigned_abs()),
        attempt: row.get(7)?,
        actor: actor(row, 8)?,
    })
}

fn kept(row: &Row<'_>) -> rusqlite::Result<Kept> {
    Ok(Kept { token: token(row, 0)?, until: token(row, 1)?, value: row.get(2)?, value_until: token(row, 3)? })
}

fn owner(row: &Row<'_>, column: usize) -> rusqlite::Result<Owner> {
    let text: String = row.get(column)?;
    Owner::from_exposed(&text).ok_or_else(|| broken(column, Type::Text, "no owner"))
}

fn token(row: &Row<'_>, column: usize) -> rusqlite::Result<FencingToken> {
    let number: i64 = row.get(column)?;
    let token = u64::try_from(number).ok().and_then(FencingToken::from_number);
    token.ok_or_else(|| broken(column, Type::Integer, "no token"))
}

fn asked(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<YieldRequest>> {
    let number: Option<i64> = row.get(column)?;
    let Some(number) = number else { return Ok(None) };
    let (by, note): (String, String) = (row.get(column + 1)?, row.get(column + 2)?);
    Ok(Some(YieldRequest::new(number.cast_unsigned(), by, note)))
}

fn actor(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ActorId>> {
    let text: Option<String> = row.get(column)?;
    Ok(text.as_deref().and_then(ActorId::parse))
}

fn mode(row: &Row<'_>, column: usize) -> rusqlite::Result<Mode> {
    Ok(if row.get(column)? { Mode::Shared } else { Mode::Exclusive })
}

fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Moment> {
    let number: i64 = row.get(column)?;
    Ok(Moment::from_nanos(u64::try_from(number).unwrap_or_default()))
}

fn broken(column: usize, kind: Type, what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, what.into())
}
