//! `Idempotency-Key` at a service: the same request again has the same answer.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fencepost::store::{self, Memory};
use fencepost::{Blocking, FencingToken, IdempotencyLayer, Locks};
use fencepost_testkit::poll;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tower_layer::Layer;
use tower_service::Service;

type Body = Full<Bytes>;

/// Counts its calls, and answers with the number when it is let.
#[derive(Clone, Default)]
struct Shop {
    calls: Arc<AtomicU32>,
    is_closed: Arc<AtomicBool>,
    status: u16,
    size: usize,
}

impl Service<Request<Body>> for Shop {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shop = self.clone();
        Box::pin(async move {
            let call = shop.calls.fetch_add(1, Ordering::SeqCst) + 1;
            poll_fn(|_| if shop.is_closed.load(Ordering::SeqCst) { Poll::Pending } else { Poll::Ready(()) }).await;
            let token = request.extensions().get::<FencingToken>().is_some();
            let body = request.into_body().collect().await?.to_bytes();
            let text = format!("call {call}, token {token}, {} bytes{}", body.len(), "!".repeat(shop.size));
            let answer = Response::builder().status(shop.status).header("location", "/orders/1");
            let answer = answer.header("set-cookie", "a=b").header("content-type", "text/plain");
            Ok(answer.body(text.into_bytes().into()).expect("a response"))
        })
    }
}

fn locks() -> Locks {
    store::connect(|at| Ok(vec![Memory::new(at.clock)])).block().expect("memory is there")
}

fn request(method: Method, path: &str, key: Option<&str>, body: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = key.into_iter().fold(request, |request, key| request.header("Idempotency-Key", key));
    request.body(body.to_owned().into()).expect("a request")
}

fn post(key: &str, body: &str) -> Request<Body> {
    request(Method::POST, "/orders", Some(key), body)
}

fn shop(status: u16) -> Shop {
    Shop { status, ..Shop::default() }
}

fn read(answer: Response<Body>) -> (u16, String, bool) {
    let (head, body) = answer.into_parts();
    let body = body.collect().block().expect("no errors").to_bytes();
    let is_replayed = head.headers.get("idempotency-replayed").is_some_and(|value| value == "true");
    (head.status.as_u16(), String::from_utf8_lossy(&body).into_owned(), is_replayed)
}

#[test]
fn the_same_request_again_has_the_same_answer() {
    let mut service = IdempotencyLayer::new(locks()).keep_for(Duration::from_secs(60)).layer(shop(201));
    let first = service.call(post("k", "hat")).block().expect("infallible");
    assert_eq!(first.headers()["set-cookie"], "a=b");
    assert_eq!(read(first), (201, "call 1, token true, 3 bytes".to_owned(), false));
    let again = service.call(post("k", "hat")).block().expect("infallible");
    assert_eq!(again.headers()["location"], "/orders/1");
    assert_eq!(again.headers()["content-type"], "text/plain");
    assert!(!again.headers().contains_key("set-cookie"), "of one client only");
    assert_eq!(read(again), (201, "call 1, token true, 3 bytes".to_owned(), true));
    let other = service.call(post("another", "hat")).block().expect("infallible");
    assert_eq!(read(other).1, "call 2, token true, 3 bytes");
}

#[test]
fn another_request_with_the_same_key_is_refused() {
    let mut service = IdempotencyLayer::new(locks()).layer(shop(200));
    assert_eq!(service.call(post("k", "hat")).block().expect("infallible").status(), 200);
    let mut stranger = post("k", "hat");
    stranger.headers_mut().insert("authorization", "Bearer other".parse().expect("a value"));
    for other in [
        post("k", "coat"),
        request(Method::PUT, "/orders", Some("k"), "hat"),
        request(Method::POST, "/orders?gift", Some("k"), "hat"),
        stranger,
    ] {
        assert_eq!(service.call(other).block().expect("infallible").status(), 422);
    }
}

#[test]
fn a_request_that_is_at_work_is_in_conflict_and_its_answer_is_kept() {
    let inner = shop(200);
    inner.is_closed.store(true, Ordering::SeqCst);
    let mut service = IdempotencyLayer::new(locks()).layer(inner.clone());
    let mut first = pin!(service.call(post("k", "hat")));
    while inner.calls.load(Ordering::SeqCst) == 0 {
        assert!(poll::once(first.as_mut()).is_none());
    }
    assert_eq!(service.call(post("k", "hat")).block().expect("infallible").status(), 409);
    inner.is_closed.store(false, Ordering::SeqCst);
    assert_eq!(first.block().expect("infallible").status(), 200);
    assert!(read(service.call(post("k", "hat")).block().expect("infallible")).2);
}

#[test]
fn what_has_no_key_or_changes_nothing_passes() {
    let mut service = IdempotencyLayer::new(locks()).layer(shop(200));
    for nth in 1..=2 {
        let without = service.call(request(Method::POST, "/orders", None, "hat")).block().expect("infallible");
        assert_eq!(read(without), (200, format!("call {}, token false, 3 bytes", 2 * nth - 1), false));
        let reading = service.call(request(Method::GET, "/orders", Some("k"), "")).block().expect("infallible");
        assert_eq!(read(reading).1, format!("call {}, token false, 0 bytes", 2 * nth));
    }
}

#[test]
fn an_answer_that_may_pass_or_is_too_large_is_not_kept() {
    let large = Shop { size: 100, ..shop(200) };
    for inner in [shop(503), shop(429), large] {
        let (status, calls) = (inner.status, inner.calls.clone());
        let mut service = IdempotencyLayer::new(locks()).body_at_most(100).layer(inner);
        for _ in 0..2 {
            assert_eq!(service.call(post("k", "hat")).block().expect("infallible").status(), status);
        }
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
    let refused = shop(404);
    let mut service = IdempotencyLayer::new(locks()).layer(refused.clone());
    for _ in 0..2 {
        assert_eq!(service.call(post("k", "hat")).block().expect("infallible").status(), 404);
    }
    assert_eq!(refused.calls.load(Ordering::SeqCst), 1, "the service has decided");
}

#[test]
fn bad_keys_and_large_bodies_are_refused_before_the_service() {
    let inner = shop(200);
    let mut service = IdempotencyLayer::new(locks()).body_at_most(100).layer(inner.clone());
    for (request, status) in [
        (post("", "hat"), 400),
        (post(&"k".repeat(246), "hat"), 400),
        (post("k", &"x".repeat(101)), 413),
        (post(&"k".repeat(245), &"x".repeat(100)), 200),
    ] {
        assert_eq!(service.call(request).block().expect("infallible").status(), status);
    }
    assert_eq!(inner.calls.load(Ordering::SeqCst), 1);
}
