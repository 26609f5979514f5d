//! Spans as a collector gets them.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::Replica;
use fencepost_core::store::{Memory, connect};
use fencepost_server::{Settings, Traces};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Takes what is posted to `/v1/traces`, and answers 200.
struct Collector {
    url: String,
    came: Receiver<(String, Vec<u8>)>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (tell, came) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if tell.send(taken(stream)).is_err() {
                    return;
                }
            }
        });
        Self { url, came }
    }

    /// All that came, once the service has ended.
    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for (head, body) in self.came.try_iter() {
            assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
            assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
            let sent = ExportTraceServiceRequest::decode(&body[..]).expect("spans");
            for resource in sent.resource_spans {
                spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        spans
    }
}

fn taken(stream: TcpStream) -> (String, Vec<u8>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).expect("a head") > 0, "it ended: {head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("a length")];
    stream.read_exact(&mut body).expect("a body");
    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("answered");
    (head, body)
}

fn replica(traces: Traces) -> Replica {
    let memory = connect(|opening| Ok(vec![Memory::new(opening.clock)]));
    Replica::with(memory, Settings::default().drain(Duration::from_secs(5)).traces(traces))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The attributes as text.
fn attributes(span: &Span) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter().filter_map(|pair| Some((pair, pair.value.as_ref()?.value.as_ref()?)));
    pairs.map(|(pair, value)| (pair.key.clone(), text(value))).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name:?} among {spans:#?}"));
    assert!(found.next().is_none(), "two of {name:?}");
    span
}

#[test]
fn a_request_is_a_span_in_the_trace_of_its_caller_with_its_steps_within() {
    let collector = Collector::start();
    let mut service = replica(Traces::to(&collector.url).expect("a URL"));
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let lease = service.open("/v1/locks/canary-name/try", &[("traceparent", &parent)], Some(&json!({})));
    let lease = lease.answer().good();
    service.post("/v1/locks/canary-name/acquire", &json!({})).problem(423, "held");
    service.post("/v1/locks/canary-name/release", &lease).good();
    service.get("/canary-path").problem(404, "no_route");
    service.stop();

    let spans = collector.spans();
    let asked = named(&spans, "POST /v1/locks/{id}/try");
    assert_eq!((hex(&asked.trace_id).as_str(), hex(&asked.parent_span_id).as_str()), (TRACE, PARENT));
    let told = attributes(asked);
    assert_eq!(
        (told["http.route"].as_str(), told["http.response.status_code"].as_str()),
        ("/v1/locks/{id}/try", "200")
    );
    let steps = |of: &Span| -> Vec<&Span> { spans.iter().filter(|span| span.parent_span_id == of.span_id).collect() };
    assert_eq!(steps(asked).iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["acquire"]);
    assert!(steps(asked).iter().all(|step| step.trace_id == asked.trace_id && step.end_time_unix_nano > 0));

    // Without a parent each is a trace of its own, also where the lock was refused.
    let refused = named(&spans, "POST /v1/locks/{id}/acquire");
    assert!(refused.parent_span_id.is_empty() && hex(&refused.trace_id) != TRACE);
    assert_eq!(attributes(refused)["http.response.status_code"], "423");
    assert_eq!(attributes(steps(refused)[0])["error.type"], "held");
    assert_eq!(steps(named(&spans, "POST /v1/locks/{id}/release"))[0].name, "release");
    assert_eq!(attributes(named(&spans, "GET"))["http.response.status_code"], "404");

    let all = format!("{spans:?}");
    for secret in ["canary", lease["owner"].as_str().expect("an owner")] {
        assert!(!all.contains(secret), "{secret} came out");
    }
}

#[test]
fn names_of_locks_are_in_spans_only_if_somebody_wants_them() {
    let collector = Collector::start();
    let mut service = replica(Traces::to(&format!("{}/v1/traces", collector.url)).expect("a URL").names(true));
    service.post("/v1/locks/wanted/try", &json!({})).good();
    service.stop();
    assert_eq!(attributes(named(&collector.spans(), "acquire"))["fencepost.lock"], "wanted");
}

#[test]
fn a_collector_that_is_away_is_nobodys_trouble() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let mut service = replica(Traces::to(&format!("http://{closed}")).expect("a URL"));
    service.post("/v1/locks/x/try", &json!({})).good();
    service.stop();
    for wrong in ["https://collector:4318", "collector:4318", "http://"] {
        let why = Traces::to(wrong).expect_err("refused");
        assert!(why.contains(wrong), "{why}");
    }
}
