//! What no good client sends. The service refuses it, does not fall over, and answers others meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fencepost_testkit::dice::Dice;

use super::support::{Answer, Request, Service, limited};

/// What came back until the other side closed, if anything.
fn outcome(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend(&piece[..length]),
            Err(error) => {
                assert!(
                    !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
                    "left open"
                );
                break;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn is_well(service: &Service) {
    let answer = service.post("/v1/locks/well/try", None, r#"{"ttl_ms":60000}"#);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(service.post("/v1/locks/well/release", None, &answer.body).status, 200);
}

#[test]
fn nonsense_is_refused_and_the_service_goes_on() {
    let service = Service::start(limited(|limits| limits.header_time = Duration::from_millis(300)));
    let head = "POST /v1/locks/x/try HTTP/1.1\r\nhost: localhost\r\n";
    let json = format!("{head}content-type: application/json\r\nconnection: close\r\n");
    let deep = "[".repeat(10_000);
    let nested = format!("{{\"label\":{}", "{\"a\":".repeat(3_000));
    let with_body = |body: &[u8]| {
        let mut bytes = format!("{json}content-length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend(body);
        bytes
    };
    let many: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    let cases: Vec<(&str, Vec<u8>, &[u16])> = vec![
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00".to_vec(), &[400]),
        ("no request line", b"\r\n\r\n\r\n".to_vec(), &[]),
        ("zeros", vec![0; 5_000], &[400]),
        (
            "a long path",
            format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(100_000)).into_bytes(),
            &[414, 431],
        ),
        ("a huge header", format!("{head}x: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes(), &[431]),
        ("many headers", format!("{head}{many}\r\n").into_bytes(), &[431]),
        (
            "bad UTF-8 in the path",
            b"GET /v1/locks/%ff%fe HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(),
            &[400],
        ),
        ("raw bytes in the path", b"GET /v1/locks/\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(), &[400]),
        ("bad UTF-8 in the body", with_body(b"{\"label\":\"\xff\xfe\"}"), &[400]),
        ("deep arrays", with_body(deep.as_bytes()), &[400]),
        ("deep objects", with_body(nested.as_bytes()), &[400]),
        ("a number too large", with_body(b"{\"ttl_ms\":1e400}"), &[400]),
        ("the same field twice", with_body(b"{\"ttl_ms\":1000,\"ttl_ms\":2000}"), &[400]),
        ("an unknown field", with_body(b"{\"ttl\":1000}"), &[400]),
        ("a lone surrogate", with_body(b"{\"label\":\"\\ud800\"}"), &[400]),
        ("two hosts", format!("{head}host: evil.example\r\nconnection: close\r\n\r\n").into_bytes(), &[400, 403]),
        ("two lengths", format!("{json}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}").into_bytes(), &[400]),
        (
            "a length and chunks",
            format!("{json}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n").into_bytes(),
            &[200, 400],
        ),
        ("a bad chunk", format!("{json}transfer-encoding: chunked\r\n\r\nzz\r\n").into_bytes(), &[400, 413]),
        (
            "a length that lies about terabytes",
            format!("{json}content-length: 9999999999999\r\n\r\n").into_bytes(),
            &[413],
        ),
        (
            "two keys",
            format!("{json}idempotency-key: a\r\nidempotency-key: b\r\ncontent-length: 0\r\n\r\n").into_bytes(),
            &[400],
        ),
        (
            "an unknown method",
            b"BREW /v1/locks/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(),
            &[405],
        ),
        ("HTTP/2 without its start", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(), &[400]),
        ("headers that do not end", head.as_bytes().to_vec(), &[408]),
        ("nothing at all", Vec::new(), &[408]),
    ];
    for (what, bytes, statuses) in cases {
        let mut stream = service.connect();
        // Whoever refuses early may close before all is sent.
        let _ = stream.write_all(&bytes);
        let said = outcome(stream);
        let status: Option<u16> = said.split(' ').nth(1).and_then(|status| status.parse().ok());
        assert!(status.is_none_or(|status| statuses.contains(&status)), "{what}: {said:.300}");
        let silent = [
            "no request line",
            "raw bytes in the path",
            "HTTP/2 without its start",
            "headers that do not end",
            "nothing at all",
            "zeros",
        ];
        assert!(status.is_some() || silent.contains(&what), "{what}: no answer");
    }
    is_well(&service);
}

#[test]
fn a_thousand_idle_connections_and_a_flood_leave_room_for_others() {
    let few = limited(|limits| (limits.header_time, limits.connections) = (Duration::from_millis(500), 200));
    let service = Service::start(few);
    let before = resident_kb();
    let mut idle = Vec::new();
    for number in 0..1_000 {
        let Ok(mut stream) = TcpStream::connect(service.address) else { continue };
        // Half of them say something and never end it.
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET /v1/locks HTTP/1.1\r\nhost: local");
        }
        idle.push(stream);
    }
    // All of them run out of time, and whoever asks in order is served meanwhile or soon.
    let mut asked = service.connect();
    asked.write_all(&Request::new("GET", "/v1/locks").bytes()).expect("sent");
    assert_eq!(Answer::read(&mut asked).status, 200);
    assert_eq!(idle.len(), 1_000);
    is_well(&service);
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < 200_000, "{grown} kB for a thousand connections");
}

pub(crate) fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[test]
fn bytes_thrown_at_random_are_survived() {
    let moment = Duration::from_millis(200);
    let service = Service::start(limited(|limits| (limits.header_time, limits.body_time) = (moment, moment)));
    let mut dice = Dice::new(10);
    let good = Request::new("POST", "/v1/locks/x/acquire").body(r#"{"ttl_ms":1000,"wait_ms":0,"label":"x"}"#).bytes();
    let mut open = Vec::new();
    for _ in 0..600 {
        let mut bytes = good.clone();
        for _ in 0..=dice.below(4) {
            let place = usize::try_from(dice.below(bytes.len() as u64)).expect("small");
            match dice.below(3) {
                0 => bytes[place] = u8::try_from(dice.below(256)).expect("a byte"),
                1 => drop(bytes.drain(place..)),
                _ => bytes.insert(place, u8::try_from(dice.below(256)).expect("a byte")),
            }
            if bytes.is_empty() {
                bytes.push(b'x');
            }
        }
        let mut stream = service.connect();
        let _ = stream.write_all(&bytes);
        open.push(stream);
    }
    for stream in open {
        let said = outcome(stream);
        let status = said.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        assert!(status.is_none_or(|status| status < 500), "{said:.300}");
    }
    is_well(&service);
    service.ended();
}
