//! The description of the interface, from the handlers themselves.

use utoipa::OpenApi;

use crate::routes::{batches, elections, events, health, locks, records, semaphores, store};

#[derive(OpenApi)]
#[openapi(
    info(title = "Fencepost", description = "Distributed locks with a fencing token on every lock."),
    paths(
        locks::list,
        locks::inspect,
        locks::try_acquire,
        locks::acquire,
        locks::renew,
        locks::release,
        locks::force_release,
        locks::ask,
        locks::check,
        records::read,
        records::seal,
        records::put,
        semaphores::try_acquire,
        semaphores::acquire,
        semaphores::renew,
        semaphores::release,
        batches::try_acquire,
        batches::acquire,
        batches::renew,
        batches::release,
        elections::inspect,
        elections::campaign,
        elections::renew,
        elections::resign,
        elections::observe,
        store::deadlocks,
        store::nodes,
        events::events,
        health::healthz,
        health::readyz,
        health::metrics,
    )
)]
struct Interface;

/// The interface as OpenAPI 3.1, in JSON.
///
/// # Panics
/// Never: what describes it is part of the program.
pub fn openapi() -> String {
    let mut text = Interface::openapi().to_pretty_json().expect("BUG: the description is plain data");
    text.push('\n');
    text
}
