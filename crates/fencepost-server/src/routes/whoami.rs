//! Who asks: for programs that show only what their user may do.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::app::App;
use crate::problem::ProblemBody;

/// Who asks, and what they may do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Whoami {
    pub(crate) principal: String,
    /// Their rights, as in the file that gives them: `observe:orders/`, `admin:*`.
    pub(crate) allow: Vec<String>,
    /// The service asks everybody who they are.
    pub(crate) asks_who: bool,
}

/// Who asks, and what they may do.
#[utoipa::path(get, path = "/v1/whoami", tag = "store",
    responses((status = 200, body = Whoami), (status = "4XX", body = ProblemBody)))]
pub(crate) async fn whoami(State(app): State<Arc<App>>, caller: Caller) -> Json<Whoami> {
    let allow = caller.rights();
    Json(Whoami { principal: caller.name().to_string(), allow, asks_who: app.settings.asks_who() })
}
