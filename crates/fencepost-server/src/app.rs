//! The routes, and what their handlers share.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use fencepost_core::Locks;
use tokio::sync::watch;

use crate::auth::gate;
use crate::events::Ring;
use crate::in_flight::InFlight;
use crate::problem::Problem;
use crate::routes;
use crate::routes::health::Readiness;
use crate::routes::store::Circles;
use crate::settings::Settings;
use crate::witness::Witness;

/// What all handlers share. Nothing in it is needed to renew or release what was granted.
pub(crate) struct App {
    pub(crate) locks: Locks,
    pub(crate) settings: Settings,
    pub(crate) in_flight: InFlight,
    pub(crate) witness: Witness,
    pub(crate) readiness: Readiness,
    pub(crate) deadlocks: Circles,
    pub(crate) events: Arc<Ring>,
    pub(crate) draining: watch::Receiver<bool>,
}

impl App {
    pub(crate) fn new(locks: Locks, settings: Settings, draining: watch::Receiver<bool>) -> Arc<Self> {
        let events = Ring::of(&locks, draining.clone());
        let (witness, in_flight) = (Witness::new(&settings), InFlight::default());
        let (readiness, deadlocks) = (Readiness::default(), Circles::default());
        Arc::new(Self { locks, settings, in_flight, witness, readiness, deadlocks, events, draining })
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Resolves when the service is about to end: who waits is told to ask elsewhere.
    pub(crate) async fn drained(&self) {
        let mut draining = self.draining.clone();
        // An error means that nobody can say so any more: then it has ended.
        let _ = draining.wait_for(|draining| *draining).await;
    }
}

/// All routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .merge(routes::v1())
        .merge(routes::outside())
        .fallback(async || Problem::no_route())
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .layer(from_fn_with_state(app.clone(), gate))
        .with_state(app)
}
