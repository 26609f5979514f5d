//! What a back end does in its own dialect.

use std::future::Future;
use std::sync::Arc;

use fencepost_core::store::table::Kept;
use fencepost_core::store::{Claim, FencingToken, LockName, Owner, StoreError, StoreErrorKind, Trouble};

use crate::changes::Changes;
use crate::hub::Hub;
use crate::page::Page;
use crate::shortcut::{Free, Take};

/// What a step needs to see of its lock.
#[derive(Clone, Debug)]
pub struct Want {
    /// The lock.
    pub name: LockName,
    /// How much of the line is read; 0: nothing of it, [`Want::WHOLE`]: all.
    pub line: i64,
    /// Whose evictions are asked about.
    pub revoked: Option<Owner>,
    /// Whose places are asked about, wherever in the line; then the line is counted, too.
    pub places: Vec<Owner>,
}

impl Want {
    /// The whole line.
    pub const WHOLE: i64 = i64::MAX;

    /// Everything that can be seen of a lock.
    pub fn all(name: LockName) -> Self {
        Self { name, line: Self::WHOLE, revoked: None, places: Vec::new() }
    }
}

/// A grant as a look finds it.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Whose.
    pub owner: Owner,
    /// Under which token.
    pub token: FencingToken,
    /// The attempt it answers.
    pub attempt: u32,
}

/// A database and how to speak to it. No method keeps a deadline: who waits too long drops the future, and the link.
pub trait Database: Send + Sync + Sized + 'static {
    /// One connection. Dropping it in the middle of a transaction ends both.
    type Link: Send + 'static;
    /// How threads and errors name the kind of store.
    const KIND: &'static str;

    /// How people know it: an address, without credentials.
    fn label(&self) -> String;
    /// At most so many connections for steps.
    fn links_max(&self) -> usize;
    /// One more connection.
    fn open(&self) -> impl Future<Output = Result<Self::Link, Failure>> + Send;
    /// Checks that the tables are there and ours. Answers the database's clock, in microseconds since 1970.
    fn check(&self, link: &mut Self::Link) -> impl Future<Output = Result<i64, Failure>> + Send;
    /// Takes a lock in one statement that commits by itself, if its row is missing, or is not busy, has no grant that
    /// lasts, and no late request is awaited. Otherwise nothing is changed.
    fn take(
        &self,
        link: &mut Self::Link,
        take: &Take<'_>,
    ) -> impl Future<Output = Result<Option<FencingToken>, Failure>> + Send;
    /// Frees a lock in one statement that commits by itself, if its row is not busy and has the owner's grant, which
    /// lasts. Otherwise nothing is changed.
    fn free(&self, link: &mut Self::Link, free: &Free<'_>) -> impl Future<Output = Result<bool, Failure>> + Send;
    /// Begins a transaction, locks the row of the lock (made if missing) and reads what is wanted.
    fn begin(&self, link: &mut Self::Link, want: &Want) -> impl Future<Output = Result<Page, Failure>> + Send;
    /// Reads more, in the same transaction.
    fn again(&self, link: &mut Self::Link, want: &Want) -> impl Future<Output = Result<Page, Failure>> + Send;
    /// Writes what changed, tells those elsewhere, and commits.
    fn commit(
        &self,
        link: &mut Self::Link,
        name: &LockName,
        changes: &Changes,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
    /// Reads the record beside a lock, and the database's clock in microseconds since 1970. `locking` begins a transaction
    /// that has its row, made if missing.
    fn record(
        &self,
        link: &mut Self::Link,
        name: &LockName,
        locking: bool,
    ) -> impl Future<Output = Result<(Option<Kept>, i64), Failure>> + Send;
    /// Writes the record, and commits.
    fn put_record(
        &self,
        link: &mut Self::Link,
        name: &LockName,
        kept: &Kept,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
    /// Ends a transaction that failed or changed nothing.
    fn rollback(&self, link: &mut Self::Link) -> impl Future<Output = Result<(), Failure>> + Send;
    /// Looks at locks, without a transaction.
    fn look(
        &self,
        link: &mut Self::Link,
        names: &[LockName],
    ) -> impl Future<Output = Result<Vec<Page>, Failure>> + Send;
    /// The next names in order of their bytes.
    fn names(
        &self,
        link: &mut Self::Link,
        prefix: &str,
        after: &str,
        limit: u32,
        contended: bool,
    ) -> impl Future<Output = Result<Vec<LockName>, Failure>> + Send;
    /// Which of these claims have been granted: one statement, however many they are.
    fn grants(
        &self,
        link: &mut Self::Link,
        claims: &[Arc<Claim>],
    ) -> impl Future<Output = Result<Vec<Grant>, Failure>> + Send;
    /// Forgets what is over and what nobody used for long.
    fn prune(&self, link: &mut Self::Link) -> impl Future<Output = Result<(), Failure>> + Send;
    /// Hears what is said to those who wait here, for ever. A database that says nothing answers at once.
    fn hear(&self, hub: &Hub) -> impl Future<Output = ()> + Send;
}

/// Why something did not work.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind.
    pub kind: StoreErrorKind,
    /// What happened, and the cure.
    pub message: String,
    /// The server undid the transaction for a reason that passes: a deadlock, a conflict.
    pub undone: bool,
}

impl Failure {
    /// Describes a failure.
    pub fn new(kind: StoreErrorKind, what: impl std::fmt::Display, cure: &str) -> Self {
        let what = what.to_string().replace('\n', " ");
        Self { kind, message: format!("{what}; {cure}"), undone: false }
    }

    /// The same, and the server undid the transaction.
    pub fn undone(mut self) -> Self {
        self.undone = true;
        self
    }

    /// Before the commit was sent, trying again is always right where it may help.
    pub(crate) fn may_pass(&self) -> bool {
        self.undone || self.kind == StoreErrorKind::Unreachable
    }

    pub(crate) fn trouble(self) -> Trouble {
        Trouble::new(self.kind, self.message)
    }

    /// As connecting reports it.
    pub fn into_store_error(self) -> StoreError {
        StoreError::new(self.kind, "connect", self.message)
    }
}
