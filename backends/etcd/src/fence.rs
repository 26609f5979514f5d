//! The check at the resource, for what is kept in etcd: conditions for a transaction of yours.
//!
//! As data, for any client: [`check`] turns an older token away, [`held`] lets a write through only while a lock is held.
//! And ready-made: a [`Transaction`] that a [`Client`] commits, in one request.
//!
//! ```no_run
//! # use fencepost_core::{Blocking, Guard};
//! use fencepost_etcd::fence::{self, Client, Transaction};
//!
//! # fn write(guard: &Guard) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("etcd://a,b,c").block()?;
//! let write = Transaction::new().put("accounts/7", "paid").checked("account 7", guard.token());
//! client.commit(&write).block()?; // Err(FenceError::Stale { .. }): a newer holder was here
//!
//! let write = Transaction::new().put("accounts/7", "paid").only_if(fence::held(fence::PREFIX, guard)?);
//! assert!(client.commit(&write).block()?, "it is not ours any more");
//! # Ok(()) }
//! ```

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fencepost_core::fence::{FenceError, Stale};
use fencepost_core::store::{LockName, Mode, Owner, StoreError, StoreErrorKind};
use fencepost_core::{FencingToken, Guard, Invalid, foreign};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client;
use crate::error::Failure;
use crate::keys::Keys;
use crate::proto::{
    Against, Compare, Comparison, RangeRequest, Request, RequestOp, Response, Target, TxnRequest, TxnResponse,
};
use crate::url::Settings;

/// The prefix of locks whose URL says nothing of one.
pub const PREFIX: &str = crate::url::PREFIX;
/// Below this the newest token of each resource is remembered.
const MARKS: &str = "fencepost-fence/";
/// Tokens are written with so many digits, so that their text has their order.
const DIGITS: usize = 16;
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What must be so, for a transaction to do what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// Of this key.
    pub key: Vec<u8>,
    /// What is asked of it.
    pub is: Is,
}

/// What is asked of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Is {
    /// Its create revision is this one; 0: it is not there. `create("KEY") = "NUMBER"` in `etcdctl txn`.
    CreatedAt(i64),
    /// It is there, and its value is less, byte by byte. `value("KEY") < "TEXT"`.
    Below(Vec<u8>),
    /// It is there, and has this value.
    Equal(Vec<u8>),
}

/// The check of a token, in parts, for a transaction by any client.
///
/// If [`Check::not_newer`] or [`Check::unseen`] holds, write, and put [`Check::mark`] in the same transaction; else read
/// the mark's key, and [`Check::verdict`] says how it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    key: Vec<u8>,
    token: FencingToken,
}

/// Turns an older token away, and accepts an equal one. The newest is remembered at `fencepost-fence/RESOURCE`.
pub fn check(resource: &str, token: FencingToken) -> Check {
    Check { key: format!("{MARKS}{resource}").into_bytes(), token }
}

impl Check {
    /// A token was seen, and none that is newer.
    pub fn not_newer(&self) -> Condition {
        Condition { key: self.key.clone(), is: Is::Below(digits(self.token.next())) }
    }

    /// No token was seen yet.
    pub fn unseen(&self) -> Condition {
        Condition { key: self.key.clone(), is: Is::CreatedAt(0) }
    }

    /// What to put, so that older tokens are turned away from now on.
    pub fn mark(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key.clone(), digits(self.token))
    }

    /// What the mark says, if there is one, after neither condition held.
    ///
    /// # Errors
    /// A newer holder was here.
    pub fn verdict(&self, mark: Option<&[u8]>) -> Result<(), Stale> {
        let seen = mark.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        self.token.check(seen.unwrap_or(0))
    }
}

/// Holds as long as the lock is held: what is written on this condition is written by its holder, whatever the clocks
/// say. `prefix` is that of the URL which the lock was acquired through ([`PREFIX`] unless it says otherwise).
///
/// # Errors
/// A guard that is not of one lock.
pub fn held(prefix: &str, guard: &Guard) -> Result<Condition, Invalid> {
    let cure = "use the guard of one exclusive lock that was acquired on etcd";
    let owner = Owner::from_exposed(&guard.expose_owner()).ok_or_else(|| Invalid::new("guard", guard.name(), cure))?;
    let name = LockName::new(guard.name())?;
    let key = Keys::new(prefix.to_owned()).claim(&name, &owner, Mode::Exclusive);
    Ok(Condition { key, is: Is::CreatedAt(guard.token().as_i64()) })
}

fn digits(token: FencingToken) -> Vec<u8> {
    format!("{:0DIGITS$}", token.as_u64()).into_bytes()
}

impl Condition {
    fn compare(&self) -> Compare {
        let (target, result, against) = match &self.is {
            Is::CreatedAt(revision) => (Target::Create, Comparison::Equal, Against::Create(*revision)),
            Is::Below(value) => (Target::Value, Comparison::Less, Against::Value(value.clone())),
            Is::Equal(value) => (Target::Value, Comparison::Equal, Against::Value(value.clone())),
        };
        Compare::on(&self.key, &[], target, result, against)
    }
}

/// Writes that happen together or not at all.
#[derive(Clone, Default)]
#[must_use = "commit it"]
#[allow(missing_debug_implementations, reason = "it has the user's data")]
pub struct Transaction {
    conditions: Vec<Condition>,
    operations: Vec<RequestOp>,
    check: Option<Check>,
}

impl Transaction {
    /// One that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a value.
    pub fn put(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.operations.push(RequestOp::put(key.as_ref(), value.as_ref().to_vec(), 0));
        self
    }

    /// Removes a key.
    pub fn delete(mut self, key: impl AsRef<[u8]>) -> Self {
        self.operations.push(RequestOp::delete(key.as_ref()));
        self
    }

    /// Only if this is so. May be called several times.
    pub fn only_if(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Only if no newer token than this was seen for this resource.
    pub fn checked(mut self, resource: &str, token: FencingToken) -> Self {
        self.check = Some(check(resource, token));
        self
    }

    fn request(&self) -> TxnRequest {
        let branch = |condition: Option<Condition>, failure: Vec<RequestOp>| {
            let compare = self.conditions.iter().cloned().chain(condition).map(|one| one.compare()).collect();
            let mark = self.check.as_ref().map(Check::mark).map(|(key, value)| RequestOp::put(&key, value, 0));
            let success = self.operations.iter().cloned().chain(mark).collect();
            TxnRequest { compare, success, failure }
        };
        let Some(check) = &self.check else { return branch(None, Vec::new()) };
        // A value that is not there is less than nothing, so the first time is a case of its own.
        let first = branch(Some(check.unseen()), vec![RequestOp::get(&check.key)]);
        branch(Some(check.not_newer()), vec![RequestOp { request: Some(Request::Txn(first)) }])
    }

    fn outcome(&self, mut answer: TxnResponse) -> Result<bool, FenceError> {
        if answer.succeeded {
            return Ok(true);
        }
        let Some(check) = &self.check else { return Ok(false) };
        let Some(Response::Txn(mut first)) = answer.responses.pop().and_then(|op| op.response) else {
            return Ok(false);
        };
        if first.succeeded {
            return Ok(true);
        }
        let mark = first.found(0).pop();
        check.verdict(mark.as_ref().map(|kv| kv.value.as_slice()))?;
        Ok(false)
    }
}

/// A connection for transactions, on a thread of its own.
pub struct Client {
    inner: Arc<client::Client>,
    runtime: Handle,
    _open: oneshot::Sender<()>,
}

impl Client {
    /// Connects to a cluster, by the URL of a store.
    ///
    /// # Errors
    /// A bad URL, or a cluster that cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "connect", invalid.to_string());
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        if !crate::SCHEMES.contains(&scheme) {
            return Err(wrong(Invalid::new("store", scheme, "write etcd://HOST:PORT")));
        }
        let settings = Settings::parse(scheme, rest).map_err(wrong)?;
        let ((ready, opened), (open, closed)) = (oneshot::channel(), oneshot::channel::<()>());
        foreign::prepare_to_hush();
        let started = thread::Builder::new().name("fencepost-etcd".to_owned()).spawn(move || {
            foreign::hush();
            let runtime = Builder::new_current_thread().enable_all().on_thread_start(foreign::hush).build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async move {
                let client = client::Client::new(settings).map(|client| (Arc::new(client), Handle::current()));
                drop(ready.send(client));
                let _ = closed.await;
            });
        });
        let unexpected = |what: String| StoreError::new(StoreErrorKind::Unexpected, "connect", what);
        started.map_err(|error| unexpected(format!("no thread for etcd: {error}; let this user start more")))?;
        let opened = opened.await.map_err(|_| unexpected("the thread of the client ended".to_owned()))?;
        let (inner, runtime) = opened.map_err(wrong)?;
        let client = Self { inner, runtime, _open: open };
        client.run(|inner, _| async move { inner.greet().await }, "connect").await?;
        Ok(client)
    }

    /// Commits a transaction; it is sent once. `false`: a condition did not hold, and nothing was written.
    ///
    /// # Errors
    /// [`FenceError::Stale`]: a newer holder was here, nothing was written; stop working. Else what the cluster said;
    /// if there was no answer, it may have been committed.
    pub async fn commit(&self, transaction: &Transaction) -> Result<bool, FenceError> {
        let request = transaction.request();
        let answer = self.run(|inner, limit| async move { inner.txn_once(request, limit).await }, "check").await?;
        transaction.outcome(answer)
    }

    /// Reads a key.
    ///
    /// # Errors
    /// What the cluster said.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        let range = RangeRequest { key: key.as_ref().to_vec(), ..RangeRequest::default() };
        let mut found = self.run(|inner, limit| async move { inner.range(range, limit).await }, "get").await?;
        Ok(found.kvs.pop().map(|kv| kv.value))
    }

    async fn run<T, F>(
        &self,
        work: impl FnOnce(Arc<client::Client>, Instant) -> F,
        operation: &'static str,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let done = self.runtime.spawn(work(self.inner.clone(), Instant::now() + ANSWER_WITHIN)).await;
        let gone = |_| StoreError::new(StoreErrorKind::Unexpected, operation, "the thread of the client ended");
        done.map_err(gone)?.map_err(|failure| failure.into_store_error(operation))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.inner.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u64) -> FencingToken {
        FencingToken::from_number(number).expect("a token")
    }

    #[test]
    fn marks_have_the_order_of_their_tokens() {
        let numbers = [1, 9, 10, 99, 1 << 40, FencingToken::MAX.as_u64()];
        let marks: Vec<Vec<u8>> = numbers.map(|number| check("x", token(number)).mark().1).to_vec();
        assert!(marks.is_sorted());
        assert!(marks.iter().all(|mark| mark.len() == DIGITS));
    }

    #[test]
    fn a_verdict_names_what_was_seen() {
        let check = check("x", token(7));
        assert_eq!(check.verdict(Some(b"0000000000000008")), Err(Stale { token: token(7), seen: token(8) }));
        assert!(check.verdict(Some(b"0000000000000007")).is_ok() && check.verdict(None).is_ok());
    }
}
