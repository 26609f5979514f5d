//! Looking on behalf of those who wait: when a holder's lease ends, and, where no letters arrive, now and then.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::store::Event;
use tokio::time::{Instant, timeout, timeout_at};

use crate::database::Database;
use crate::engine::Engine;

/// A look that takes longer is given up, and its connection with it.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Runs as long as the store.
pub(crate) async fn watch<D: Database>(engine: Arc<Engine<D>>) {
    let hub = &engine.hub;
    let mut looked_at = Instant::now();
    loop {
        let look_at = hub.look_pause(Instant::now()).map(|pause| looked_at + pause);
        let next = hub.next_due().into_iter().chain(look_at).min();
        match next {
            None => hub.changed.notified().await,
            // Somebody came, or has less time: look at the list again.
            Some(next) => drop(timeout_at(next, hub.changed.notified()).await),
        }
        let now = Instant::now();
        hub.tell_due(now);
        if look_at.is_some_and(|at| at <= now) {
            let _ = timeout(LOOK_WITHIN, look(&engine)).await;
            looked_at = Instant::now();
        }
    }
}

/// One statement for all who wait here. Trouble is theirs to find out: they ask again by themselves.
async fn look<D: Database>(engine: &Engine<D>) {
    let claims = engine.hub.claims();
    let Ok(mut lent) = engine.pool.take(&engine.database).await else { return };
    let Ok(grants) = engine.database.grants(&mut lent.link, &claims).await else { return };
    lent.keep();
    for grant in grants {
        engine.hub.push(&grant.owner, Event::HandedOver { token: grant.token, attempt: grant.attempt });
    }
}
