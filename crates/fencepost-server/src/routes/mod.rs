//! The routes, one file for each kind of thing.

pub(crate) mod batches;
pub(crate) mod elections;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod locks;
pub(crate) mod records;
pub(crate) mod semaphores;
pub(crate) mod store;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

/// Below `/v1`.
pub(crate) fn v1() -> Router<Arc<App>> {
    Router::new()
        .route("/locks", get(locks::list))
        .route("/locks/{id}", get(locks::inspect))
        .route("/locks/{id}/try", post(locks::try_acquire))
        .route("/locks/{id}/acquire", post(locks::acquire))
        .route("/locks/{id}/renew", post(locks::renew))
        .route("/locks/{id}/release", post(locks::release))
        .route("/locks/{id}/force-release", post(locks::force_release))
        .route("/locks/{id}/ask", post(locks::ask))
        .route("/locks/{id}/tokens/{token}", get(locks::check))
        .route("/locks/{id}/record", get(records::read).put(records::put))
        .route("/locks/{id}/record/seal", post(records::seal))
        .route("/semaphores/{id}/try", post(semaphores::try_acquire))
        .route("/semaphores/{id}/acquire", post(semaphores::acquire))
        .route("/semaphores/{id}/renew", post(semaphores::renew))
        .route("/semaphores/{id}/release", post(semaphores::release))
        .route("/batches/try", post(batches::try_acquire))
        .route("/batches/acquire", post(batches::acquire))
        .route("/batches/renew", post(batches::renew))
        .route("/batches/release", post(batches::release))
        .route("/elections/{id}", get(elections::inspect))
        .route("/elections/{id}/campaign", post(elections::campaign))
        .route("/elections/{id}/renew", post(elections::renew))
        .route("/elections/{id}/resign", post(elections::resign))
        .route("/elections/{id}/observe", get(elections::observe))
        .route("/deadlocks", get(store::deadlocks))
        .route("/nodes", get(store::nodes))
        .route("/events", get(events::events))
}

/// Beside `/v1`.
pub(crate) fn outside() -> Router<Arc<App>> {
    Router::new()
        .route("/openapi.json", get(store::openapi))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
}
