//! One connection, and how a statement goes over it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_sql::Failure;
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::error::failure;
use crate::statements::SESSION;
use crate::wire::Wire;

/// A value to bind.
#[derive(Debug)]
pub(crate) enum Value {
    Text(Option<String>),
    Number(Option<i64>),
    Yes(bool),
    Texts(Vec<String>),
    Bytes(Option<Vec<u8>>),
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    pub(crate) fn number(number: i64) -> Self {
        Self::Number(Some(number))
    }

    fn bind(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number,
            Self::Yes(yes) => yes,
            Self::Texts(texts) => texts,
            Self::Bytes(bytes) => bytes,
        }
    }

    fn kind(&self) -> Type {
        match self {
            Self::Text(_) => Type::TEXT,
            Self::Number(_) => Type::INT8,
            Self::Yes(_) => Type::BOOL,
            Self::Texts(_) => Type::TEXT_ARRAY,
            Self::Bytes(_) => Type::BYTEA,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    /// The session is known to be ours alone: no pooler stands between.
    is_direct: Arc<AtomicBool>,
    /// Statements that the server keeps for us, then.
    prepared: Mutex<HashMap<String, Statement>>,
    is_settled: AtomicBool,
    wire: Arc<Wire>,
    driver: JoinHandle<()>,
}

impl Link {
    /// A connection that a task of its own reads from. Has to be called in a runtime.
    pub(crate) fn new(
        client: Client,
        connection: impl Future<Output = ()> + Send + 'static,
        is_direct: Arc<AtomicBool>,
    ) -> Self {
        let wire = Wire::new(connection);
        let driver = tokio::spawn(wire.clone().carry());
        Self { client, is_direct, prepared: Mutex::default(), is_settled: AtomicBool::new(false), wire, driver }
    }

    /// Sends what these first put in together, without waiting for the task of the connection.
    pub(crate) async fn at_once<T>(&self, statements: impl Future<Output = T>) -> T {
        let mut statements = pin!(statements);
        let mut is_sent = false;
        poll_fn(|cx| {
            let answer = statements.as_mut().poll(cx);
            if answer.is_pending() && !std::mem::replace(&mut is_sent, true) {
                self.wire.flush();
            }
            answer
        })
        .await
    }

    /// Has the server plan a statement once, and not for every lock anew. Not inside a transaction: old servers refuse.
    pub(crate) async fn settle(&self) -> Result<(), Failure> {
        if self.is_settled() || !self.is_direct.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.batch(SESSION).await?;
        let _ = self.client.batch_execute("SET plan_cache_mode = force_generic_plan").await;
        self.is_settled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The session is ours, and was told what every statement of ours goes by.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// Makes sure that a statement can be sent without a question of its own. Statements that are sent together are
    /// made ready before the first of them.
    pub(crate) async fn ready(&self, text: &str) -> Result<(), Failure> {
        if !self.is_direct.load(Ordering::Relaxed) || self.prepared().contains_key(text) {
            return Ok(());
        }
        let statement = self.client.prepare(text).await.map_err(|error| failure(&error))?;
        self.prepared().insert(text.to_owned(), statement);
        Ok(())
    }

    /// Sends a statement when first polled, and answers its rows.
    pub(crate) async fn rows(&self, text: &str, values: &[Value]) -> Result<Vec<Row>, Failure> {
        let prepared = self.prepared().get(text).cloned();
        let answer = match prepared {
            Some(statement) => {
                let binds: Vec<&(dyn ToSql + Sync)> = values.iter().map(Value::bind).collect();
                self.client.query(&statement, &binds).await
            }
            None => {
                let binds: Vec<_> = values.iter().map(|value| (value.bind(), value.kind())).collect();
                self.client.query_typed(text, &binds).await
            }
        };
        answer.map_err(|error| failure(&error))
    }

    fn prepared(&self) -> std::sync::MutexGuard<'_, HashMap<String, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Several statements without binds.
    pub(crate) async fn batch(&self, text: &str) -> Result<(), Failure> {
        self.client.batch_execute(text).await.map_err(|error| failure(&error))
    }
}

impl Drop for Link {
    /// Closes the connection at once, also in the middle of something.
    fn drop(&mut self) {
        self.driver.abort();
        self.wire.cut();
    }
}
