//! What is said before a link is used, and what is learned by it.

use std::time::Duration;

use fencepost_core::store::{StoreErrorKind, Trouble};

use crate::scripts::{self, Script};
use crate::steps::{self, MARKER, PROBATION};
use crate::url::Node;
use crate::wire::{self, Value};

/// The first commands: who we are, and who the server is. Answers how many replies they have.
pub(crate) fn introduce(out: &mut Vec<u8>, node: &Node, inbox: &str) -> usize {
    let user = node.user.as_deref().unwrap_or("default");
    match &node.password {
        Some(password) => wire::write(out, &[b"HELLO", b"3", b"AUTH", user.as_bytes(), password.as_bytes()]),
        None => wire::write(out, &[b"HELLO", b"3"]),
    }
    wire::write(out, &[b"SELECT", node.database.to_string().as_bytes()]);
    wire::write(out, &[b"INFO"]);
    wire::write(out, &[b"GET", MARKER.as_bytes()]);
    wire::write(out, &[b"GET", PROBATION.as_bytes()]);
    wire::write(out, &[b"CONFIG", b"GET", b"appendfsync"]);
    wire::write(out, &[b"SUBSCRIBE", inbox.as_bytes()]);
    7
}

/// What the server said of itself.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) major: u32,
    /// Changes with every start.
    pub(crate) run: String,
    pub(crate) up_for: Duration,
    /// It has a marker, or is on probation: somebody has used it before.
    pub(crate) is_known: bool,
    /// Every write is on disk before it is answered.
    pub(crate) keeps_everything: bool,
}

impl Server {
    /// Reads the replies to [`introduce`].
    pub(crate) fn read(replies: &[Value]) -> Result<Self, Trouble> {
        let [hello, select, info, marker, probation, fsync, subscribe] = replies else {
            return Err(Trouble::new(StoreErrorKind::Unexpected, "it does not speak like a Redis server"));
        };
        for reply in [hello, select, info, marker, probation, subscribe] {
            if let Value::Error(text) = reply {
                return Err(refused(text));
            }
        }
        let info = info.text().unwrap_or_default();
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
        };
        let misconfigured = |message: String| Err(Trouble::new(StoreErrorKind::Misconfigured, message));
        if field("role") == "slave" {
            return misconfigured("it is a replica: name a master".into());
        }
        let policy = field("maxmemory_policy");
        if !policy.is_empty() && policy != "noeviction" {
            return misconfigured(format!(
                "its maxmemory-policy is {policy}, which throws held locks away: set noeviction"
            ));
        }
        let always =
            fsync.array().and_then(|pair| pair.get(1)).and_then(Value::text).is_some_and(|word| word == "always");
        Ok(Self {
            major: field("redis_version").split('.').next().and_then(|major| major.parse().ok()).unwrap_or(7),
            run: field("run_id").to_owned(),
            up_for: Duration::from_secs(field("uptime_in_seconds").parse().unwrap_or(0)),
            is_known: *marker != Value::Null || *probation != Value::Null,
            keeps_everything: always && field("aof_enabled") == "1",
        })
    }
}

fn refused(text: &str) -> Trouble {
    if text.contains("unknown command") && text.to_lowercase().contains("hello") {
        return Trouble::new(StoreErrorKind::Misconfigured, "it is older than Redis 6.2, which we need");
    }
    steps::trouble(text)
}

/// The second commands: the scripts, and whether the node may vote. Answers how many replies they have.
pub(crate) fn equip(out: &mut Vec<u8>, major: u32, trust: &[String]) -> usize {
    for script in scripts::ALL {
        wire::write(out, &[b"SCRIPT", b"LOAD", script.text(major).as_bytes()]);
    }
    let mut parts: Vec<&[u8]> = vec![b"EVAL", scripts::TRUST.as_bytes(), b"2", MARKER.as_bytes(), PROBATION.as_bytes()];
    parts.extend(trust.iter().map(String::as_bytes));
    wire::write(out, &parts);
    scripts::ALL.len() + 1
}

/// The scripts a server has loaded, by their hashes.
pub(crate) type Hashes = Vec<(Script, String)>;

/// Reads the replies to [`equip`]: the scripts' hashes, and the verdict.
pub(crate) fn equipped(replies: &[Value]) -> Result<(Hashes, &Value), Trouble> {
    let (verdict, loaded) = replies.split_last().expect("BUG: as many replies as commands");
    let hashes = scripts::ALL.iter().zip(loaded).map(|(script, reply)| match reply {
        Value::Error(text) => Err(steps::trouble(text)),
        other => Ok((*script, other.text().unwrap_or_default())),
    });
    Ok((hashes.collect::<Result<_, _>>()?, verdict))
}
