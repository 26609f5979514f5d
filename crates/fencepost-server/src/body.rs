//! Bodies and queries that are read with a limit, and refused with a problem that names the field.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use fencepost_core::Invalid;
use http::header;
use http::request::Parts;
use http_body::Body as _;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::hidden::without_quotes;
use crate::problem::Problem;

/// A JSON body. No body at all is an empty one.
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body that carries a record.
pub(crate) struct LargeBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        read(request, app, app.settings.limits.body).await.map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for LargeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        read(request, app, app.settings.limits.record_body).await.map(Self)
    }
}

async fn read<T: DeserializeOwned>(request: Request, app: &App, limit: usize) -> Result<T, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    let body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(Problem::too_large(limit));
    }
    let (time, too_large) = (app.settings.limits.body_time, |_| Problem::too_large(limit));
    let bytes = tokio::time::timeout(time, to_bytes(body, limit)).await.map_err(|_| Problem::slow_body(time))?;
    let bytes = bytes.map_err(too_large)?;
    // A web page cannot send this type to another site without asking first; `text/plain` it can.
    let is_json = kind.as_deref().is_some_and(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    });
    match bytes.len() {
        0 => parsed(b"{}"),
        _ if is_json => parsed(&bytes),
        _ => Err(Problem::media_type()),
    }
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde takes an array for an object, with its fields in the order in which we wrote them down.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Invalid::new("body", "(hidden)", "send a JSON object").into());
    }
    // What was sent may have a secret in it: only the place is told.
    serde_json::from_slice(bytes).map_err(|error| {
        let cure = format!("the body does not fit: {}", without_quotes(&error.to_string()));
        Invalid::new("body", "(hidden)", cure).into()
    })
}

/// The query of a URL.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, app).await;
        let axum::extract::Query(query) = query.map_err(|error| {
            Problem::from(Invalid::new("query", parts.uri.query().unwrap_or_default(), error.body_text()))
        })?;
        Ok(Self(query))
    }
}
