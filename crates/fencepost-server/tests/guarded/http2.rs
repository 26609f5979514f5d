//! HTTP/2 as no good client speaks it. Frames are written by hand: libraries refuse to send these.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fencepost_core::store::{Memory, connect};
use fencepost_core::{Blocking as _, VirtualClock};
use fencepost_testkit::dice::Dice;
use fencepost_testkit::wait::until;

use super::hostile::{is_well, resident_kb};
use super::support::{Service, limited};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// What the service may grow by, whatever it is sent; other tests run in the same process.
const GROWTH_KB: u64 = 150_000;

/// Kinds of frames.
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const CONTINUATION: u8 = 9;
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("small").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A text, as headers are written without any table: its length, and itself.
fn text(text: &str) -> Vec<u8> {
    assert!(text.len() < 127);
    let mut bytes = vec![u8::try_from(text.len()).expect("short")];
    bytes.extend(text.as_bytes());
    bytes
}

/// The head of a request for this path.
fn head(is_post: bool, path: &str) -> Vec<u8> {
    // From the static table: the method, `:scheme http`, then `:path` and `:authority` by name.
    let mut block = vec![if is_post { 0x83 } else { 0x82 }, 0x86, 0x04];
    block.extend(text(path));
    block.push(0x01);
    block.extend(text("localhost"));
    block
}

/// A header that no table has.
fn header(name: &str, value: &str) -> Vec<u8> {
    [vec![0x00], text(name), text(value)].concat()
}

/// A connection that has said hello.
fn greeted(service: &Service) -> TcpStream {
    let mut stream = service.connect();
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("set");
    stream.write_all(PREFACE).expect("sent");
    stream.write_all(&frame(kind::SETTINGS, 0, 0, &[])).expect("sent");
    stream
}

/// Writes for as long as somebody takes it. Whoever is refused may not get to the end.
fn pour(stream: &mut TcpStream, pieces: impl Iterator<Item = Vec<u8>>) {
    for piece in pieces {
        if stream.write_all(&piece).is_err() {
            return;
        }
    }
}

/// All frames that came until the other side closed, or said nothing for so long: kind, stream and payload.
fn frames(mut stream: TcpStream, silence: Duration) -> Vec<(u8, u32, Vec<u8>)> {
    stream.set_read_timeout(Some(silence)).expect("set");
    let (mut bytes, mut piece) = (Vec::new(), [0; 65_536]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let (mut found, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((start, after)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]) as usize;
        let Some((payload, after)) = after.split_at_checked(length) else { break };
        let stream = u32::from_be_bytes([start[5], start[6], start[7], start[8]]);
        found.push((start[3], stream, payload.to_vec()));
        rest = after;
    }
    found
}

/// The reason for which the connection was ended by a word.
fn goodbye(frames: &[(u8, u32, Vec<u8>)]) -> Option<u32> {
    let (.., payload) = frames.iter().find(|(kind, ..)| *kind == kind::GOAWAY)?;
    Some(u32::from_be_bytes(payload.get(4..8)?.try_into().ok()?))
}

/// Streams of the client, one after the other.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn whoever_resets_its_stream_is_out_of_the_line_and_others_of_the_connection_go_on() {
    // Time stands still: nobody leaves the line because its place is over.
    let clock = VirtualClock::new();
    let locks = connect(|opening| Ok(vec![Memory::new(opening.clock)])).clock(&clock).block().expect("a store");
    let service = Service::on(locks.clone(), limited(|_| ()));
    let held = locks.lock("x").acquire().block().expect("free");
    let mut stream = greeted(&service);
    let post = |id: u32, path: &str, body: &str| {
        let head = [head(true, path), header("content-type", "application/json")].concat();
        [frame(kind::HEADERS, END_HEADERS, id, &head), frame(kind::DATA, END_STREAM, id, body.as_bytes())].concat()
    };
    let waiters = || locks.inspect("x").block().expect("seen").waiters.len();
    for id in [1, 3] {
        stream.write_all(&post(id, "/v1/locks/x/acquire", r#"{"wait_ms":60000}"#)).expect("sent");
    }
    until("both are in line", || waiters() == 2);
    stream.write_all(&frame(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes())).expect("sent");
    until("one is out of it", || waiters() == 1);
    stream.write_all(&post(5, "/v1/locks/y/try", "{}")).expect("sent");
    until("another request is served", || !locks.inspect("y").block().expect("seen").holders.is_empty());
    held.release().block().expect("released");
    until("the other has it", || waiters() == 0);
    let said = frames(stream, Duration::from_secs(1));
    let bodies = |id: u32| -> String {
        let data = said.iter().filter(|(kind, stream, _)| (*kind, *stream) == (kind::DATA, id));
        data.map(|(.., payload)| String::from_utf8_lossy(payload).into_owned()).collect()
    };
    assert_eq!(bodies(1), "");
    assert!(bodies(3).contains(r#""name":"x""#) && bodies(5).contains(r#""name":"y""#), "{said:?}");
}

#[test]
fn streams_that_are_reset_as_soon_as_they_are_opened_end_the_connection() {
    let service = Service::start(limited(|_| ()));
    let before = resident_kb();
    for _ in 0..3 {
        let mut stream = greeted(&service);
        let request = head(false, "/v1/locks");
        pour(
            &mut stream,
            streams(20_000).map(|id| {
                let cancel = 8u32.to_be_bytes();
                [frame(kind::HEADERS, END_STREAM | END_HEADERS, id, &request), frame(kind::RST_STREAM, 0, id, &cancel)]
                    .concat()
            }),
        );
        let said = frames(stream, Duration::from_secs(2));
        assert_eq!(goodbye(&said), Some(ENHANCE_YOUR_CALM), "{} frames", said.len());
    }
    is_well(&service);
    assert!(resident_kb().saturating_sub(before) < GROWTH_KB);
}

#[test]
fn no_more_requests_run_at_a_time_than_one_connection_may_have() {
    let service = Service::start(limited(|limits| {
        (limits.streams, limits.body_time) = (20, Duration::from_millis(500));
    }));
    let mut stream = greeted(&service);
    // Bodies that never come.
    let request = [head(true, "/v1/locks/x/try"), header("content-type", "application/json")].concat();
    pour(&mut stream, streams(2_000).map(|id| frame(kind::HEADERS, END_HEADERS, id, &request)));
    let said = frames(stream, Duration::from_secs(2));
    let refused = said.iter().filter(|(kind, ..)| *kind == kind::RST_STREAM).count();
    let answered = said.iter().filter(|(kind, ..)| *kind == kind::HEADERS).count();
    assert!(answered <= 20, "{answered} of 2,000 were served at a time");
    assert!(refused > 0 || goodbye(&said).is_some(), "{} frames", said.len());
    is_well(&service);
}

#[test]
fn heads_without_end_and_heads_too_large_are_refused() {
    let service = Service::start(limited(|_| ()));
    let before = resident_kb();
    // Each piece is small, and none is the last.
    let mut endless = greeted(&service);
    endless.write_all(&frame(kind::HEADERS, END_STREAM, 1, &head(false, "/v1/locks"))).expect("sent");
    let piece: Vec<u8> = (0..60).flat_map(|number| header(&format!("x-{number}"), &"y".repeat(100))).collect();
    pour(&mut endless, (0..20_000).map(|_| frame(kind::CONTINUATION, 0, 1, &piece)));
    let said = frames(endless, Duration::from_secs(2));
    assert!(said.iter().all(|(kind, ..)| *kind != kind::HEADERS), "it was answered");

    // One that ends, and is larger than the service reads.
    let mut large = greeted(&service);
    let many: Vec<u8> = (0..140).flat_map(|number| header(&format!("x-{number}"), &"y".repeat(110))).collect();
    let whole = [head(false, "/v1/locks"), many].concat();
    assert!(whole.len() > 16 * 1024);
    let (first, second) = whole.split_at(16_000);
    large.write_all(&frame(kind::HEADERS, END_STREAM, 1, first)).expect("sent");
    large.write_all(&frame(kind::CONTINUATION, END_HEADERS, 1, second)).expect("sent");
    let said = frames(large, Duration::from_secs(2));
    let answer = said.iter().find(|(kind, stream, _)| *kind == kind::HEADERS && *stream == 1);
    // 431 is in no table: literal, as digits or packed; 200 is one byte of the static table.
    assert!(answer.is_none_or(|(.., block)| block.first() != Some(&0x88)), "it was served");
    is_well(&service);
    assert!(resident_kb().saturating_sub(before) < GROWTH_KB);
}

#[test]
fn settings_and_pings_without_end_fill_no_memory() {
    let service = Service::start(limited(|_| ()));
    let before = resident_kb();
    // Each asks for an answer that nobody reads.
    let settings = [0, 3, 0, 0, 0, 100].repeat(100);
    for flood in [frame(kind::SETTINGS, 0, 0, &settings), frame(kind::PING, 0, 0, &[7; 8])] {
        let mut stream = greeted(&service);
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("set");
        let many = flood.repeat(1_000);
        pour(&mut stream, (0..200).map(|_| many.clone()));
        is_well(&service);
    }
    assert!(resident_kb().saturating_sub(before) < GROWTH_KB, "{} kB", resident_kb().saturating_sub(before));
}

#[test]
fn frames_thrown_at_random_are_survived() {
    let service = Service::start(limited(|limits| limits.header_time = Duration::from_millis(200)));
    let mut dice = Dice::new(2);
    for _ in 0..300 {
        let mut stream = greeted(&service);
        let mut below = |most: u64| u8::try_from(dice.below(most)).expect("a byte");
        let mut bytes = frame(kind::HEADERS, END_HEADERS, 1, &head(true, "/v1/locks/x/try"));
        for _ in 0..8 {
            let payload: Vec<u8> = (0..below(40)).map(|_| below(256)).collect();
            bytes.extend(frame(below(12), below(64), u32::from(below(6)), &payload));
        }
        let place = usize::from(below(u64::try_from(bytes.len()).expect("small").min(255)));
        bytes[place] ^= below(256);
        let _ = stream.write_all(&bytes);
    }
    is_well(&service);
    service.ended();
}
