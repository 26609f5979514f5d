//! Requests, and which replica they go to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fencepost_core::Invalid;
use fencepost_core::store::Trouble;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::connector::Connector;
use crate::tls::Tls;
use crate::trouble;
use crate::url::Settings;
use crate::wire::Problem;

/// The largest answer: a page of locks, or a record.
const ANSWER_MAX: usize = 16 * 1024 * 1024;
/// A service closes a connection that nobody used for 10 s. A request into one that is about to close is lost.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// What a replica says that cannot help, while another may: it ends, or does not reach the store.
pub(crate) const NOT_HERE: [&str; 3] = ["shutting_down", "unreachable", "too_slow"];

pub(crate) struct Client {
    http: legacy::Client<Connector, Full<Bytes>>,
    scheme: &'static str,
    replicas: Vec<String>,
    api_key: Option<HeaderValue>,
    /// Where the last request went well.
    current: AtomicUsize,
}

/// One request, as it may be sent to one replica after another.
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Option<Bytes>,
    /// The answer shall come piece by piece.
    streams: bool,
    /// It may be sent again though it may have run.
    repeats: bool,
}

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None, streams: false, repeats: true }
    }

    pub(crate) fn post(path: String, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("BUG: a body is plain data");
        Self { method: Method::POST, path, body: Some(body.into()), streams: false, repeats: true }
    }

    pub(crate) fn put(path: String, body: &impl Serialize) -> Self {
        Self { method: Method::PUT, ..Self::post(path, body) }
    }

    pub(crate) fn streaming(self) -> Self {
        Self { streams: true, ..self }
    }

    pub(crate) fn once(self) -> Self {
        Self { repeats: false, ..self }
    }
}

/// An answer, or the problem that the service named.
pub(crate) type Answered<T> = Result<T, (StatusCode, Problem)>;

impl Client {
    pub(crate) fn new(settings: Settings) -> Result<Self, Invalid> {
        let tls = Tls::of(&settings)?;
        let scheme = if settings.tls { "https" } else { "http" };
        let http = legacy::Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_MAX).build(Connector { tls });
        let api_key = settings.api_key.map(|key| {
            let refuse = |_| Invalid::new("api_key_file", "(hidden)", "it has a line of visible ASCII characters");
            let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(refuse)?;
            value.set_sensitive(true);
            Ok::<_, Invalid>(value)
        });
        let api_key = api_key.transpose()?;
        Ok(Self { http, scheme, replicas: settings.replicas, api_key, current: AtomicUsize::new(0) })
    }

    pub(crate) fn label(&self) -> String {
        format!("fencepost+{}://{}", self.scheme, self.replicas.join(","))
    }

    /// Asks, and reads the whole answer.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call, by: Instant) -> Result<Answered<T>, Trouble> {
        let (status, bytes) = self.whole(&call, by).await?;
        if !status.is_success() {
            return Ok(Err((status, serde_json::from_slice(&bytes).unwrap_or_default())));
        }
        match serde_json::from_slice(&bytes) {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) => Err(trouble::odd(format!("an answer that cannot be read: {error}"))),
        }
    }

    /// One replica after another, until one has answered. What may have run is sent again only if that does no harm: under
    /// the same owner it is the same claim.
    async fn whole(&self, call: &Call, by: Instant) -> Result<(StatusCode, Bytes), Trouble> {
        let mut left = self.replicas.len();
        loop {
            let read = async |response: Response<Incoming>| {
                let status = response.status();
                let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
                let body = body.map_err(|error| trouble::unreachable(format!("the answer broke off: {error}")))?;
                Ok((status, body.to_bytes()))
            };
            let tried = self.try_at_one(call, (by, left), read).await;
            left -= 1;
            match tried {
                Ok((replica, (status, bytes))) => {
                    let answered = status != StatusCode::SERVICE_UNAVAILABLE || left == 0 || {
                        let problem: Problem = serde_json::from_slice(&bytes).unwrap_or_default();
                        let is_over = problem.code == "shutting_down";
                        !NOT_HERE.contains(&problem.code.as_str()) || !(call.repeats || is_over)
                    };
                    if answered {
                        return Ok((status, bytes));
                    }
                    self.leave(replica);
                }
                Err((trouble, is_safe)) if left == 0 || !is_safe => return Err(trouble),
                Err(_) => {}
            }
        }
    }

    /// The same, until one begins to answer.
    pub(crate) async fn open(&self, call: &Call, by: Instant) -> Result<(usize, Response<Incoming>), Trouble> {
        for left in (1..=self.replicas.len()).rev() {
            match self.try_at_one(call, (by, left), async |response| Ok(response)).await {
                Ok(opened) => return Ok(opened),
                Err((trouble, is_safe)) if left == 1 || !is_safe => return Err(trouble),
                Err(_) => {}
            }
        }
        Err(trouble::unreachable("no replica is known"))
    }

    /// Asks one replica, which has its share of the time, so that one that hangs leaves some for the others; and leaves it if
    /// it does not answer. The trouble, and whether another may be asked.
    async fn try_at_one<T>(
        &self,
        call: &Call,
        (by, left): (Instant, usize),
        read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Trouble>,
    ) -> Result<(usize, T), (Trouble, bool)> {
        let replica = self.current.load(Ordering::SeqCst);
        let share = by.saturating_duration_since(Instant::now()) / u32::try_from(left).unwrap_or(u32::MAX);
        let asked = async {
            let request = self.request(call, &self.replicas[replica]).map_err(|trouble| (trouble, false))?;
            let response = self.http.request(request).await.map_err(|error| {
                let what = format!("{}: {}", self.replicas[replica], chain(&error));
                (trouble::unreachable(what), call.repeats || error.is_connect())
            })?;
            read(response).await.map_err(|trouble| (trouble, call.repeats))
        };
        let asked = timeout_at(Instant::now() + share, asked).await;
        let answer = asked.unwrap_or_else(|_| Err((trouble::too_slow(), call.repeats)));
        if answer.is_err() {
            self.leave(replica);
        }
        Ok((replica, answer?))
    }

    /// From now on another replica is asked first.
    pub(crate) fn leave(&self, replica: usize) {
        let next = (replica + 1) % self.replicas.len();
        let _ = self.current.compare_exchange(replica, next, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn request(&self, call: &Call, replica: &str) -> Result<Request<Full<Bytes>>, Trouble> {
        let uri = format!("{}://{replica}{}", self.scheme, call.path);
        let mut request = Request::builder().method(call.method.clone()).uri(uri);
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if call.streams {
            request = request.header(header::ACCEPT, "text/event-stream");
        }
        if let Some(key) = &self.api_key {
            request = request.header(header::AUTHORIZATION, key.clone());
        }
        let body = Full::new(call.body.clone().unwrap_or_default());
        request.body(body).map_err(|error| trouble::odd(format!("a request that cannot be: {error}")))
    }
}

/// An error and what is behind it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

/// A name as it stands in a path.
pub(crate) fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}
