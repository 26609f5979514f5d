//! What is said before a link is used, and what is learned by it.

use std::time::Duration;

use fencepost_core::store::{StoreErrorKind, Trouble};

use crate::error;
use crate::keys::Keys;
use crate::scripts::{self, Dialect, Script};
use crate::sets;
use crate::standing::Says;
use crate::steps::{MARKER, PROBATION};
use crate::url::Node;
use crate::wire::{self, Value};

/// Says who we are, and by which name `CLIENT LIST` shall show this connection.
pub(crate) fn hello(out: &mut Vec<u8>, node: &Node, name: Option<&str>) {
    let user = node.user.as_deref().unwrap_or("default");
    let mut words: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(password) = &node.password {
        words.extend([b"AUTH", user.as_bytes(), password.as_bytes()]);
    }
    if let Some(name) = name {
        words.extend([b"SETNAME", name.as_bytes()]);
    }
    wire::write(out, &words);
}

/// The first commands: who we are, and who the server is. Answers how many replies they have.
pub(crate) fn introduce(out: &mut Vec<u8>, node: &Node, inbox: &str, keys: &Keys) -> usize {
    let clustered = keys.clustered;
    hello(out, node, (keys.marker != MARKER).then(|| sets::client_name(&keys.marker)).as_deref());
    wire::write(out, &[b"SELECT", node.database.to_string().as_bytes()]);
    wire::write(out, &[b"INFO"]);
    match clustered {
        false => {
            wire::write(out, &[b"GET", MARKER.as_bytes()]);
            wire::write(out, &[b"GET", PROBATION.as_bytes()]);
        }
        true => {
            wire::write(out, &[b"CLUSTER", b"SLOTS"]);
            wire::write(out, &[b"CLUSTER", b"MYID"]);
        }
    }
    wire::write(out, &[b"EVALSHA", scripts::USED_HASH.as_bytes(), b"0"]);
    wire::write(out, &[b"CONFIG", b"GET", b"appendfsync"]);
    wire::write(out, &[b"SUBSCRIBE", inbox.as_bytes()]);
    8
}

/// What the server said of itself.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) major: u32,
    /// Changes with every start.
    pub(crate) run: String,
    pub(crate) up_for: Duration,
    /// A client has used it before: the server has a marker, is on probation, or had a marker in this run.
    pub(crate) is_known: bool,
    /// The sets that its marker names, if it has one.
    pub(crate) votes_in: Option<String>,
    /// Its marker is of an earlier run.
    pub(crate) is_stale: bool,
    /// The sets that it remembers while it is on probation, if any.
    pub(crate) remembers: Option<String>,
    /// Every write is on disk before it is answered.
    pub(crate) keeps_everything: bool,
    /// It follows a master.
    pub(crate) is_replica: bool,
    /// It has followed one before, and was promoted since it started.
    pub(crate) was_promoted: bool,
    /// In a cluster: who has which slots, as it sees it.
    pub(crate) slots: Option<Value>,
}

impl Server {
    /// Reads the replies to [`introduce`].
    ///
    /// A server alone is trusted whatever happened to it, so it need not let us read INFO: then it is a matter of its
    /// operator that it is a master and evicts nothing. In a quorum only INFO tells a server that was started anew.
    pub(crate) fn read(replies: &[Value], quorum: bool, clustered: bool) -> Result<Self, Trouble> {
        let [hello, select, info, marker, probation, used, fsync, subscribe] = replies else {
            return Err(Trouble::new(StoreErrorKind::Unexpected, "it does not speak like a Redis server"));
        };
        for reply in [hello, select, marker, probation, subscribe] {
            if let Value::Error(text) = reply {
                if clustered && text.contains("cluster support disabled") {
                    let message = "it is no node of a cluster: such a URL is redis://HOST:PORT";
                    return Err(Trouble::new(StoreErrorKind::Misconfigured, message));
                }
                return Err(refused(text));
            }
        }
        let info = match info {
            Value::Error(text) if quorum || !text.starts_with("NOPERM") => {
                let trouble = error::trouble(text);
                let message = format!(
                    "a node of a quorum must tell by INFO whether it was started anew: give its user +info ({text})"
                );
                return Err(if text.starts_with("NOPERM") { Trouble::new(trouble.kind, message) } else { trouble });
            }
            other => other.text().unwrap_or_default(),
        };
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
        };
        let misconfigured = |message: String| Err(Trouble::new(StoreErrorKind::Misconfigured, message));
        if !clustered && said(hello, "mode").is_some_and(|mode| mode == "cluster") {
            return misconfigured("it is a node of a cluster: such a URL is redis+cluster://HOST:PORT".into());
        }
        let (limit, policy) = (field("maxmemory"), field("maxmemory_policy"));
        if evicts(limit, policy) == Some(true) {
            return misconfigured(format!(
                "its maxmemory is {limit} bytes and its maxmemory-policy {policy}, which evicts held locks when memory is \
                 short: set noeviction, or maxmemory 0"
            ));
        }
        let always =
            fsync.array().and_then(|pair| pair.get(1)).and_then(Value::text).is_some_and(|word| word == "always");
        let run = field("run_id").to_owned();
        // Any other error says nothing: then it is judged without.
        let was_used = !matches!(used, Value::Error(_));
        let marked = marker.text();
        let marked = marked.as_deref().and_then(|marker| marker.rsplit_once('|'));
        let remembers = probation.text().and_then(|probation| Some(probation.split('|').nth(2)?.to_owned()));
        Ok(Self {
            major: said(hello, "version").and_then(|version| version.split('.').next()?.parse().ok()).unwrap_or(7),
            up_for: Duration::from_secs(field("uptime_in_seconds").parse().unwrap_or(0)),
            is_known: was_used || (!clustered && (*marker != Value::Null || *probation != Value::Null)),
            votes_in: marked.map(|(sets, _)| sets.to_owned()),
            is_stale: marked.is_some_and(|(_, marked)| marked != run),
            remembers: remembers.filter(|sets| !sets.is_empty()),
            run,
            is_replica: field("role") == "slave" || said(hello, "role").is_some_and(|role| role == "replica"),
            was_promoted: field("master_replid2").contains(|digit| digit != '0'),
            slots: clustered.then(|| marker.clone()),
            keeps_everything: always && field("aof_enabled") == "1",
        })
    }
}

impl Server {
    /// What it says of this set, until it has judged itself.
    pub(crate) fn says_of(&self, set: &str) -> Says {
        let names = |sets: &String| sets.split(';').any(|other| other == set);
        match (&self.votes_in, &self.remembers) {
            (Some(sets), _) if names(sets) && (self.keeps_everything || !self.is_stale) => Says::Ours,
            (Some(sets), _) | (None, Some(sets)) if !names(sets) => Says::Others,
            _ => Says::Nothing,
        }
    }
}

/// Whether a server with these settings, as INFO has them, can evict a lock. `None`: it does not tell.
pub(crate) fn evicts(limit: &str, policy: &str) -> Option<bool> {
    match (limit.parse::<u64>().ok(), policy) {
        (Some(0), _) | (_, "noeviction") => Some(false),
        (None, _) | (_, "") => None,
        (Some(_), _) => Some(true),
    }
}

/// A field of the reply to HELLO.
fn said(hello: &Value, name: &str) -> Option<String> {
    let pairs = hello.array()?.chunks_exact(2);
    pairs.into_iter().find(|pair| pair[0].text().as_deref() == Some(name)).and_then(|pair| pair[1].text())
}

/// What it means that a server does not greet us.
pub(crate) fn refused(text: &str) -> Trouble {
    if text.contains("unknown command") && text.to_lowercase().contains("hello") {
        return Trouble::new(StoreErrorKind::Misconfigured, "it is older than Redis 6.2, which we need");
    }
    error::trouble(text)
}

/// The second commands: the scripts, and whether the node may vote; and, behind its marker, the sign that there was one.
/// Answers how many replies they have.
pub(crate) fn equip(out: &mut Vec<u8>, dialect: Dialect, trust: &[Vec<u8>]) -> usize {
    for script in dialect.scripts() {
        wire::write(out, &[b"SCRIPT", b"LOAD", script.text(dialect).as_bytes()]);
    }
    if trust.is_empty() {
        return dialect.scripts().len();
    }
    let parts: Vec<&[u8]> = trust.iter().map(Vec::as_slice).collect();
    wire::write(out, &parts);
    wire::write(out, &[b"SCRIPT", b"LOAD", scripts::USED.as_bytes()]);
    dialect.scripts().len() + 2
}

/// The command that asks whether a node may vote. `place` is where its marker is, `sign` the key by which the scripts see
/// it, `words` what `trust.lua` is told.
pub(crate) fn trust(place: &str, sign: &str, words: &[String]) -> Vec<Vec<u8>> {
    let (marker, probation) = (format!("{MARKER}{place}"), format!("{PROBATION}{place}"));
    let sign = if sign == MARKER { &marker } else { sign };
    let start = ["EVAL", scripts::TRUST, "3", &marker, &probation, sign];
    start.into_iter().chain(words.iter().map(String::as_str)).map(|word| word.as_bytes().to_vec()).collect()
}

/// The scripts a server has loaded, by their hashes.
pub(crate) type Hashes = Vec<(Script, String)>;

/// Reads the replies to [`equip`]: the scripts' hashes, and the verdict, if it was asked for.
pub(crate) fn equipped(dialect: Dialect, replies: &[Value]) -> Result<(Hashes, Option<&Value>), Trouble> {
    let hashes = dialect.scripts().iter().zip(replies).map(|(script, reply)| match reply {
        Value::Error(text) => Err(error::trouble(text)),
        other => Ok((*script, other.text().unwrap_or_default())),
    });
    Ok((hashes.collect::<Result<_, _>>()?, replies.get(dialect.scripts().len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_with_a_policy_that_evicts_can_evict() {
        assert_eq!(evicts("0", "allkeys-lru"), Some(false));
        assert_eq!(evicts("104857600", "noeviction"), Some(false));
        assert_eq!(evicts("104857600", "volatile-ttl"), Some(true));
        assert_eq!(evicts("", "noeviction"), Some(false));
        for (limit, policy) in [("", ""), ("", "allkeys-lru"), ("104857600", "")] {
            assert_eq!(evicts(limit, policy), None, "{limit:?} and {policy:?}");
        }
    }
}
