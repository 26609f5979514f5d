//! Hearing: a connection of its own that listens to what is said to those who wait in this process.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;

use fencepost_core::notice;
use fencepost_sql::{Database, Failure, Hub};
use futures_util::future::{Either, select};
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use crate::database::Postgres;
use crate::error::failure;
use crate::link::Value;
use crate::statements::NOTIFY;

/// A store that ends sooner has no use for what a letter proves.
const PROVE_AFTER: Duration = Duration::from_secs(1);
/// A letter to ourselves that takes longer will not arrive: a pooler has it.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// The pauses between two tries to listen.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Listens while somebody waits. Where letters do not arrive, this ends, and waiters look by themselves.
pub(crate) async fn hear(database: &Postgres, hub: &Hub) {
    if database.is_deaf.load(Ordering::Relaxed) {
        return;
    }
    // Somebody who waits cannot wait for the proof.
    let _ = timeout(PROVE_AFTER, hub.wanted()).await;
    let mut pause = PAUSE.0;
    loop {
        let ended = listen(database, hub).await;
        hub.set_hears(false);
        match ended {
            Ended::Deaf => {
                notice!(
                    WARN,
                    store = database.label(),
                    "NOTIFY does not arrive, a transaction pooler may stand between: waiters poll instead"
                );
                database.is_deaf.store(true, Ordering::Relaxed);
                return;
            }
            Ended::Unwanted => {
                hub.wanted().await;
                pause = PAUSE.0;
            }
            Ended::Cut(reason) => {
                notice!(DEBUG, store = database.label(), reason = reason, "not listening for a moment");
                hub.nudge_all();
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }
}

enum Ended {
    /// Letters do not arrive.
    Deaf,
    /// It was proved that they would, and nobody waits for any.
    Unwanted,
    /// The connection is gone.
    Cut(String),
}

async fn listen(database: &Postgres, hub: &Hub) -> Ended {
    let (client, mut connection) = match database.config.connect(database.connector()).await {
        Ok(both) => both,
        Err(error) => return Ended::Cut(failure(&error).message),
    };
    let carry = poll_fn(|cx| {
        loop {
            match ready!(connection.poll_message(cx)) {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    hub.receive(note.channel(), note.payload());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(error.to_string()),
                None => return Poll::Ready("closed".to_owned()),
            }
        }
    });
    let talk = async {
        let words = format!("LISTEN {}", hub.channel());
        client.batch_execute(&words).await.map_err(|error| failure(&error))?;
        greet(database, hub).await?;
        if timeout(HELLO_WITHIN, hub.heard()).await.is_err() {
            return Ok::<_, Failure>(Ended::Deaf);
        }
        // The letter was sent after the answer to LISTEN, and came to that very connection: no pooler had taken its session
        // away in between.
        database.is_direct.store(true, Ordering::Relaxed);
        // What was said before we listened.
        hub.nudge_all();
        if hub.is_unwanted() {
            return Ok(Ended::Unwanted);
        }
        std::future::pending().await
    };
    match select(pin!(carry), pin!(talk)).await {
        Either::Left((reason, _)) => Ended::Cut(reason),
        Either::Right((Ok(ended), _)) => ended,
        Either::Right((Err(failure), _)) => Ended::Cut(failure.message),
    }
}

/// Writes to ourselves over another connection: over the same one it would arrive through a pooler, too.
async fn greet(database: &Postgres, hub: &Hub) -> Result<(), Failure> {
    let link = database.open().await?;
    link.rows(NOTIFY, &[Value::text(hub.channel()), Value::text(hub.hello())]).await.map(drop)
}
