//! A small HTTP service with one value, behind our layer at `/checked` and without it at `/unchecked`.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use fencepost::fence::{HEADER, HttpLayer, MemoryMarks};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tower_layer::Layer;
use tower_service::Service;

/// A service that runs; it ends with its runtime.
pub(crate) struct Running {
    address: String,
    _runtime: tokio::runtime::Runtime,
}

type Answered = Result<Response<Full<Bytes>>, Infallible>;

/// What is there: a value.
#[derive(Clone)]
struct Thing(Arc<Mutex<Bytes>>);

impl Service<Request<Incoming>> for Thing {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let thing = self.0.clone();
        Box::pin(async move {
            if request.method() == Method::PUT {
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                *thing.lock().expect("no panic") = body;
            }
            let value = thing.lock().expect("no panic").clone();
            Ok(Response::new(Full::new(value)))
        })
    }
}

/// Sends each path to its own.
#[derive(Clone)]
struct Paths<C> {
    checked: C,
    unchecked: Thing,
}

impl<C> Service<Request<Incoming>> for Paths<C>
where
    C: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
    C::Future: Send + 'static,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        self.checked.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        match request.uri().path() {
            "/checked" => Box::pin(self.checked.call(request)),
            _ => self.unchecked.call(request),
        }
    }
}

impl Running {
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let thing = Thing(Arc::new(Mutex::new(Bytes::from("empty"))));
        let paths = Paths { checked: HttpLayer::new(MemoryMarks::new()).layer(thing.clone()), unchecked: thing };
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(paths.clone());
                let serving =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(serving.await) });
            }
        });
        Self { address, _runtime: runtime }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }
}

/// One request: its status, body, and the token that came back.
pub(crate) fn ask(address: &str, line: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, Option<String>) {
    let mut stream = TcpStream::connect(address).expect("the service is up");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!("{line}\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let seen = head.lines().filter_map(|line| line.split_once(": ")).find(|(name, _)| *name == HEADER);
    (status, body.to_owned(), seen.map(|(_, value)| value.to_owned()))
}

#[test]
fn requests_are_let_through_or_turned_away_as_the_layer_says() {
    let service = Running::start();
    let put = |token: Option<&str>| {
        let headers: Vec<(&str, &str)> = token.map(|token| (HEADER, token)).into_iter().collect();
        ask(&service.address(), "PUT /checked HTTP/1.1", &headers, "x")
    };
    assert_eq!(put(Some("34")).0, 200);
    assert_eq!(put(Some("34")).0, 200, "an equal one");
    let stale = put(Some("33"));
    assert_eq!((stale.0, stale.2.as_deref()), (412, Some("34")));
    assert_eq!(put(None).0, 428);
    for no_writers_token in ["r35", "-1", "", "35 "] {
        let status = put(Some(no_writers_token)).0;
        assert!(status == 400 || (no_writers_token == "35 " && status == 200), "{no_writers_token:?}: {status}");
    }
    assert_eq!(ask(&service.address(), "GET /checked HTTP/1.1", &[], "").0, 200, "reading needs no token");
}
