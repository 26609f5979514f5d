//! The routes, one file for each kind of thing.

pub(crate) mod batches;
pub(crate) mod elections;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod locks;
pub(crate) mod records;
pub(crate) mod semaphores;
pub(crate) mod store;
pub(crate) mod whoami;
pub(crate) mod windows;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;
use crate::dashboard;

/// Below `/v1`. Each with its whole path: a router in a router writes the path of every request anew.
pub(crate) fn v1() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/locks", get(locks::list))
        .route("/v1/locks/{id}", get(locks::inspect))
        .route("/v1/locks/{id}/try", post(locks::try_acquire))
        .route("/v1/locks/{id}/acquire", post(locks::acquire))
        .route("/v1/locks/{id}/renew", post(locks::renew))
        .route("/v1/locks/{id}/release", post(locks::release))
        .route("/v1/locks/{id}/force-release", post(locks::force_release))
        .route("/v1/locks/{id}/ask", post(locks::ask))
        .route("/v1/locks/{id}/history", get(history::history))
        .route("/v1/locks/{id}/tokens/{token}", get(locks::check))
        .route("/v1/locks/{id}/record", get(records::read).put(records::put))
        .route("/v1/locks/{id}/record/seal", post(records::seal))
        .route("/v1/semaphores/{id}/try", post(semaphores::try_acquire))
        .route("/v1/semaphores/{id}/acquire", post(semaphores::acquire))
        .route("/v1/semaphores/{id}/renew", post(semaphores::renew))
        .route("/v1/semaphores/{id}/release", post(semaphores::release))
        .route("/v1/batches/try", post(batches::try_acquire))
        .route("/v1/batches/acquire", post(batches::acquire))
        .route("/v1/batches/renew", post(batches::renew))
        .route("/v1/batches/release", post(batches::release))
        .route("/v1/elections/{id}", get(elections::inspect))
        .route("/v1/elections/{id}/campaign", post(elections::campaign))
        .route("/v1/elections/{id}/renew", post(elections::renew))
        .route("/v1/elections/{id}/resign", post(elections::resign))
        .route("/v1/elections/{id}/observe", get(elections::observe))
        .route("/v1/windows/{id}", get(windows::inspect))
        .route("/v1/windows/{id}/start", post(windows::start))
        .route("/v1/windows/{id}/renew", post(windows::renew))
        .route("/v1/windows/{id}/finish", post(windows::finish))
        .route("/v1/records/{key}/start", post(keys::start))
        .route("/v1/records/{key}/renew", post(keys::renew))
        .route("/v1/records/{key}/finish", post(keys::finish))
        .route("/v1/deadlocks", get(store::deadlocks))
        .route("/v1/nodes", get(store::nodes))
        .route("/v1/events", get(events::events))
        .route("/v1/whoami", get(whoami::whoami))
}

/// Beside `/v1`.
pub(crate) fn outside() -> Router<Arc<App>> {
    Router::new()
        .route("/openapi.json", get(store::openapi))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/", get(dashboard::page))
        .route("/assets/{file}", get(dashboard::asset))
}
