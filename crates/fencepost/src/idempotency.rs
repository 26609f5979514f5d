//! Idempotency at an HTTP service: a `tower` layer for the header `Idempotency-Key`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Deserialize, Serialize};
use tower_layer::Layer;
use tower_service::Service;

use fencepost_core::{AcquireError, Locks, Once, OnceError, OncePerKey, RunError};

/// The header by which a client names a request that it may send again.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How large a request or a kept answer may be unless told.
const BODY_MAX: usize = 64 * 1024;
/// What belongs to one connection or one answer only.
const NOT_KEPT: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Answers a request that is sent again with the same `Idempotency-Key` as it was answered the first time.
///
/// Requests without that header, and those that change nothing (GET, HEAD, OPTIONS, TRACE), pass as they are. Else:
/// - the first one passes, with the [`FencingToken`](crate::FencingToken) of its lock among its extensions. Its answer is
///   kept, with its status, its headers (but `Set-Cookie`, `Date` and what belongs to the connection) and its body, unless
///   it is 408, 429 or 5xx, or its body is too large: then the next one passes again;
/// - while it is at work: **409**;
/// - when it was answered: the same answer, with `Idempotency-Replayed: true`;
/// - the same key with another method, path, `Authorization` or body: **422**;
/// - a key that is not 1 to 245 bytes of text: **400**; a body that is too large: **413**;
/// - an answer whose body breaks off: **502**, and it is not kept;
/// - a store that cannot be reached, or a lock that was lost meanwhile: **503**; nobody knows then how far it came.
///
/// The service works once per key while its process lives. One that dies in the middle is begun anew by the next request,
/// after the lease; so show the token to whatever the service writes to. Keys are those of all clients together, named
/// `once/http/KEY` in the store: clients make them as random as a UUID.
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    locks: Locks,
    keep: Option<Duration>,
    body_max: usize,
}

impl IdempotencyLayer {
    /// With keys and answers that are kept there.
    pub fn new(locks: Locks) -> Self {
        Self { locks, keep: None, body_max: BODY_MAX }
    }

    /// How long an answer is kept. Default 24 h.
    pub fn keep_for(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// The largest body of a request, and of an answer that is kept; at most 80 KiB, which always fit into a record.
    /// Default 64 KiB.
    pub fn body_at_most(mut self, bytes: usize) -> Self {
        self.body_max = bytes.min(80 * 1024);
        self
    }

    /// What this request is compared by.
    fn call(&self, key: &str, request: &http::request::Parts, body: &[u8]) -> OncePerKey {
        let path = request.uri.path_and_query().map_or("", |path| path.as_str());
        let who = request.headers.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
        let mut payload = Vec::with_capacity(body.len() + 256);
        for part in [request.method.as_str().as_bytes(), path.as_bytes(), who] {
            payload.extend_from_slice(&(part.len() as u64).to_be_bytes());
            payload.extend_from_slice(part);
        }
        payload.extend_from_slice(body);
        let call = self.locks.once_per_key(format!("http/{key}"), payload).wait_at_most(Duration::ZERO);
        match self.keep {
            Some(keep) => call.keep_for(keep),
            None => call,
        }
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotent<S>;

    fn layer(&self, inner: S) -> Idempotent<S> {
        Idempotent { inner, layer: self.clone() }
    }
}

/// A service behind an [`IdempotencyLayer`].
#[derive(Clone, Debug)]
pub struct Idempotent<S> {
    inner: S,
    layer: IdempotencyLayer,
}

/// An answer as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    status: u16,
    headers: Vec<(String, String)>,
    body: KeptBody,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptBody {
    Text(String),
    Hex(String),
}

/// What the service said that is not to be kept.
enum Unkept<E> {
    Answer,
    Error(E),
}

impl<E> fmt::Display for Unkept<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is not kept")
    }
}

type Answer<S, Q> = Result<<S as Service<Q>>::Response, <S as Service<Q>>::Error>;
type Trouble = Box<dyn std::error::Error + Send + Sync>;

impl<S, In, Out> Service<Request<In>> for Idempotent<S>
where
    S: Service<Request<In>, Response = Response<Out>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    In: Body + From<Bytes> + Send + 'static,
    In::Data: Send,
    In::Error: Into<Trouble>,
    Out: Body + From<Bytes> + Default + Send + 'static,
    Out::Data: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Answer<S, Request<In>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        // The one that was said to be ready is the one to call.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let layer = self.layer.clone();
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(request.method());
        if is_safe || !request.headers().contains_key(KEY) {
            return Box::pin(inner.call(request));
        }
        Box::pin(answered(layer, inner, request))
    }
}

async fn answered<S, In, Out>(
    layer: IdempotencyLayer,
    mut inner: S,
    request: Request<In>,
) -> Result<Response<Out>, S::Error>
where
    S: Service<Request<In>, Response = Response<Out>>,
    In: Body + From<Bytes>,
    In::Error: Into<Trouble>,
    Out: Body + From<Bytes> + Default,
{
    let (head, body) = request.into_parts();
    let key = head.headers.get(KEY).and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    if key.is_empty() {
        return Ok(refusal(StatusCode::BAD_REQUEST));
    }
    let body = match Limited::new(body, layer.body_max).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE)),
        Err(_) => return Ok(refusal(StatusCode::BAD_REQUEST)),
    };
    let call = layer.call(&key, &head, &body);
    let mut own = None;
    let outcome = call.run(async |guard| {
        let mut request = Request::from_parts(head, In::from(body));
        request.extensions_mut().insert(guard.token());
        let (head, body) = inner.call(request).await.map_err(Unkept::Error)?.into_parts();
        let Ok(body) = body.collect().await else {
            own = Some(refusal(StatusCode::BAD_GATEWAY));
            return Err(Unkept::Answer);
        };
        let body = body.to_bytes();
        let kept = kept(head.status, &head.headers, &body, layer.body_max);
        own = Some(Response::from_parts(head, Out::from(body)));
        kept.ok_or(Unkept::Answer)
    });
    let outcome = outcome.await;
    let refused = match outcome {
        Ok(Once::Replayed(kept)) => return Ok(replayed(kept)),
        Ok(Once::Ran(_)) | Err(OnceError::Run(RunError::Work(Unkept::Answer))) => None,
        Err(OnceError::Run(RunError::Work(Unkept::Error(error)))) => return Err(error),
        Err(OnceError::OtherPayload) => Some(StatusCode::UNPROCESSABLE_ENTITY),
        Err(OnceError::Run(RunError::Acquire(AcquireError::Busy { .. }))) => Some(StatusCode::CONFLICT),
        Err(OnceError::Run(RunError::Acquire(AcquireError::Invalid(_)))) => Some(StatusCode::BAD_REQUEST),
        Err(_) => Some(StatusCode::SERVICE_UNAVAILABLE),
    };
    let unavailable = || refusal(StatusCode::SERVICE_UNAVAILABLE);
    Ok(refused.map(refusal).unwrap_or_else(|| own.unwrap_or_else(unavailable)))
}

/// `None`: it is to be tried again, or too large.
fn kept(status: StatusCode, headers: &HeaderMap, body: &[u8], body_max: usize) -> Option<Kept> {
    let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status);
    if passes || status.is_server_error() || body.len() > body_max {
        return None;
    }
    let headers = headers.iter().filter(|(name, _)| !NOT_KEPT.contains(name));
    let headers = headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let body = match std::str::from_utf8(body) {
        Ok(text) => KeptBody::Text(text.to_owned()),
        Err(_) => KeptBody::Hex(body.iter().map(|byte| format!("{byte:02x}")).collect()),
    };
    Some(Kept { status: status.as_u16(), headers: headers.collect(), body })
}

fn replayed<Out: From<Bytes>>(kept: Kept) -> Response<Out> {
    let body = match kept.body {
        KeptBody::Text(text) => text.into_bytes(),
        KeptBody::Hex(digits) => {
            let byte = |at: usize| digits.get(at..at + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok());
            (0..digits.len()).step_by(2).filter_map(byte).collect()
        }
    };
    let mut response = Response::new(Out::from(body.into()));
    *response.status_mut() = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in kept.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

fn refusal<Out: Default>(status: StatusCode) -> Response<Out> {
    let mut response = Response::new(Out::default());
    *response.status_mut() = status;
    response
}
