//! The check at an HTTP service: a `tower` layer, and the header for its clients.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{HeaderValue, Method, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use fencepost_core::fence::HEADER;
use fencepost_core::{FencingToken, StoreError};

/// The value of the header [`HEADER`] for a request of a holder.
pub fn http_value(token: FencingToken) -> HeaderValue {
    HeaderValue::try_from(token.to_string()).expect("BUG: digits are a header's value")
}

/// Where the newest token of each resource is kept.
pub trait Marks: Clone + Send + Sync + 'static {
    /// Remembers the token unless a newer one was seen, in one atomic step, and answers the newest.
    fn newest(
        &self,
        resource: &str,
        token: FencingToken,
    ) -> impl Future<Output = Result<FencingToken, StoreError>> + Send;
}

/// Marks of one process: for a service of which only one runs, and which may forget them when it restarts.
#[derive(Clone, Debug, Default)]
pub struct MemoryMarks(Arc<Mutex<HashMap<String, FencingToken>>>);

impl MemoryMarks {
    /// Nothing was seen yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Marks for MemoryMarks {
    fn newest(
        &self,
        resource: &str,
        token: FencingToken,
    ) -> impl Future<Output = Result<FencingToken, StoreError>> + Send {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = marks.entry(resource.to_owned()).or_insert(token);
        *newest = token.max(*newest);
        std::future::ready(Ok(*newest))
    }
}

/// Turns away requests of holders that slept too long, before they reach the service.
///
/// The resource is the path of the request. What changes nothing (GET, HEAD, OPTIONS, TRACE) passes without a token. Else:
/// - a token that is as new as the newest seen, or newer: the request passes, with the [`FencingToken`] among its extensions;
/// - an older one: **412**, with the newest in the header [`HEADER`];
/// - none: **428**; one that is no writer's token, as a reader's: **400**;
/// - marks that cannot be reached: **503**.
///
/// A request that has passed may still be at work when a newer holder's arrives. A service that writes elsewhere checks
/// the token from the extensions there once more.
#[derive(Clone, Debug)]
pub struct HttpLayer<M> {
    marks: M,
}

impl<M: Marks> HttpLayer<M> {
    /// With marks that are kept there.
    pub fn new(marks: M) -> Self {
        Self { marks }
    }
}

impl<S, M: Marks> Layer<S> for HttpLayer<M> {
    type Service = HttpFence<S, M>;

    fn layer(&self, inner: S) -> HttpFence<S, M> {
        HttpFence { inner, marks: self.marks.clone() }
    }
}

/// A service behind an [`HttpLayer`].
#[derive(Clone, Debug)]
pub struct HttpFence<S, M> {
    inner: S,
    marks: M,
}

type Answer<S, Q> = Result<<S as Service<Q>>::Response, <S as Service<Q>>::Error>;

impl<S, M, In, Out> Service<Request<In>> for HttpFence<S, M>
where
    S: Service<Request<In>, Response = Response<Out>> + Clone + Send + 'static,
    S::Future: Send,
    M: Marks,
    In: Send + 'static,
    Out: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Answer<S, Request<In>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<In>) -> Self::Future {
        // The one that was said to be ready is the one to call.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let marks = self.marks.clone();
        Box::pin(async move {
            if [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(request.method()) {
                return inner.call(request).await;
            }
            let Some(shown) = request.headers().get(HEADER) else {
                return Ok(refusal(StatusCode::PRECONDITION_REQUIRED, None));
            };
            let token = shown.to_str().ok().and_then(|text| text.parse::<FencingToken>().ok());
            let Some(token) = token else { return Ok(refusal(StatusCode::BAD_REQUEST, None)) };
            let path = request.uri().path().to_owned();
            match marks.newest(&path, token).await {
                Ok(newest) if newest > token => Ok(refusal(StatusCode::PRECONDITION_FAILED, Some(newest))),
                Ok(_) => {
                    request.extensions_mut().insert(token);
                    inner.call(request).await
                }
                Err(_) => Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, None)),
            }
        })
    }
}

fn refusal<Out: Default>(status: StatusCode, newest: Option<FencingToken>) -> Response<Out> {
    let mut response = Response::new(Out::default());
    *response.status_mut() = status;
    if let Some(newest) = newest {
        response.headers_mut().insert(HEADER, http_value(newest));
    }
    response
}
