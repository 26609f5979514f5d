//! Without the feature nothing is traced, and nothing is paid for it.

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use fencepost_core::store::LockName;

use crate::problem::Problem;

#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {}

impl Traces {
    pub(crate) async fn request(
        &self,
        _route: Option<&str>,
        request: Request,
        answer: impl AsyncFnOnce(Request) -> Response,
    ) -> Response {
        answer(request).await
    }

    pub(crate) async fn step<T>(
        &self,
        _what: &'static str,
        _name: Option<&LockName>,
        step: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        step.await
    }

    #[expect(clippy::unused_async, reason = "as where there are spans to send")]
    pub(crate) async fn end(&self, _within: Duration) {}
}
