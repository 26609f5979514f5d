//! A client of Redisson's, by what is known of its lock: the check, the count, the expiry, the end at zero and the word on
//! the channel, each step in one script. The npm port of it, the real one, is among the interop tests.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::common::PATIENCE;

const ENTER: &str = "\
    local own = redis.call('HEXISTS', KEYS[1], ARGV[1]) \
    if own == 0 and redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('PTTL', KEYS[1]) end \
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1) \
    redis.call('PEXPIRE', KEYS[1], ARGV[2]) \
    return false";

/// The word goes out by PUBLISH, or by SPUBLISH in a cluster.
const LEAVE: &str = "\
    if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end \
    if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 0 end \
    redis.call('DEL', KEYS[1]) \
    redis.call(ARGV[3], KEYS[2], '0') \
    return 1";

const RENEW: &str = "\
    if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end \
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

/// One thread of one of their processes.
pub(crate) struct Theirs<'a> {
    pub(crate) server: &'a Server<Redis>,
    pub(crate) field: &'static str,
    pub(crate) publish: &'static str,
}

/// How an unlock ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    NotTheirs,
    StillHeld,
    Freed,
}

impl<'a> Theirs<'a> {
    pub(crate) fn at(server: &'a Server<Redis>) -> Self {
        Self { server, field: "285475da-9417-4f16-9f5a-1a4e0e3d3c2b:33", publish: "PUBLISH" }
    }

    /// Takes the lock, or enters it again.
    pub(crate) fn lock(&self, name: &str, ttl_ms: u32) -> bool {
        self.server.word(&["EVAL", ENTER, "1", name, self.field, &ttl_ms.to_string()]).is_none()
    }

    pub(crate) fn unlock(&self, name: &str) -> Left {
        let words = ["EVAL", LEAVE, "2", name, &channel(name), self.field, "60000", self.publish];
        match self.server.word(&words).as_deref() {
            None => Left::NotTheirs,
            Some("0") => Left::StillHeld,
            Some("1") => Left::Freed,
            Some(other) => panic!("{other}"),
        }
    }

    /// What their watchdog does.
    pub(crate) fn renew(&self, name: &str, ttl_ms: u32) -> bool {
        self.server.number(&["EVAL", RENEW, "1", name, self.field, &ttl_ms.to_string()]) == 1
    }
}

/// The channel of a lock.
pub(crate) fn channel(name: &str) -> String {
    if name.contains('{') {
        format!("redisson_lock__channel:{name}")
    } else {
        format!("redisson_lock__channel:{{{name}}}")
    }
}

/// What one of theirs that waits hears.
pub(crate) struct Ear {
    lines: BufReader<TcpStream>,
}

impl Ear {
    /// Subscribed when this returns. `command` is SUBSCRIBE, or SSUBSCRIBE in a cluster.
    pub(crate) fn at(server: &Server<Redis>, command: &str, channel: &str) -> Self {
        let mut stream = TcpStream::connect(server.address()).expect("it is up");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(format!("{command} {channel}\r\n").as_bytes()).expect("it listens");
        let mut ear = Self { lines: BufReader::new(stream) };
        assert_eq!(ear.words(3)[0], command.to_lowercase());
        ear
    }

    /// The next message.
    pub(crate) fn hear(&mut self) -> String {
        self.words(3).pop().expect("three words")
    }

    /// The words of a reply, or its numbers.
    fn words(&mut self, count: usize) -> Vec<String> {
        let mut words = Vec::new();
        while words.len() < count {
            let line = self.line();
            match line.split_at(1) {
                ("*", _) => {}
                ("$", _) => words.push(self.line()),
                (":", number) => words.push(number.to_owned()),
                _ => panic!("{line}"),
            }
        }
        words
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("somebody says something");
        line.trim_end().to_owned()
    }
}
