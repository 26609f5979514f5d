//! The Redis servers of a measurement, and what they say of themselves.

use fencepost::{Blocking, init};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

use crate::Outcome;
use crate::contest::Servers;
use crate::wire::Link;

/// What only a client sends. Redis counts what a script calls like what a client sends, so `set` is not among them.
const SENT: &[&str] = &["evalsha", "eval", "script|load", "subscribe", "unsubscribe", "time", "ping", "rpush", "blpop"];

/// Servers without persistence unless told, made ready for Fencepost.
pub(crate) struct Nodes {
    servers: Vec<Server<Redis>>,
    /// Stopped or dead: asking it would take for ever.
    away: Vec<bool>,
}

impl Nodes {
    pub(crate) fn start(count: usize, options: &str) -> Outcome<Self> {
        let servers = (0..count).map(|_| Redis::new().with(options).start()).collect();
        let nodes = Self { servers, away: vec![false; count] };
        init(&nodes.url()).block()?;
        Ok(nodes)
    }

    pub(crate) fn url(&self) -> String {
        url_of(&self.addresses())
    }

    pub(crate) fn pause(&mut self, node: usize) {
        self.servers[node].pause();
        self.away[node] = true;
    }

    pub(crate) fn resume(&mut self, node: usize) {
        self.servers[node].resume();
        self.away[node] = false;
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.servers[node].kill();
        self.away[node] = true;
    }

    /// Until it answers again.
    pub(crate) fn restart(&mut self, node: usize) {
        self.servers[node].restart();
        self.away[node] = false;
    }

    /// How many scripts a node ran by their hash: nobody who connects does that, who locks does.
    pub(crate) fn evalshas(&self, node: usize) -> f64 {
        let stats = self.servers[node].ask(&["INFO", "commandstats"]);
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        calls.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or_default()
    }

    /// Runs a script by its hash for as many locks, one after another; then they are free again.
    pub(crate) fn eval_many(&self, node: usize, script: &str, locks: u32, token: u32) -> Outcome<()> {
        let mut link = Link::connect(&self.servers[node].address())?;
        let hash = link.load(script)?;
        let names: Vec<String> = (0..locks).map(|number| format!("spec-{number}")).collect();
        for name in &names {
            let fence = format!("{name}-fence");
            link.ask(&["EVALSHA", &hash, "2", name, &fence, "owner", &token.to_string(), "30000"])?;
        }
        names.iter().try_for_each(|name| link.ask(&["DEL", name]).map(drop))
    }
}

impl Servers for Nodes {
    fn addresses(&self) -> String {
        self.servers.iter().map(Server::address).collect::<Vec<_>>().join(",")
    }

    fn count(&self) -> usize {
        self.servers.len()
    }

    /// Of everyone who can be asked.
    fn usage(&self, sets: bool) -> Usage {
        let up = self.servers.iter().zip(&self.away).filter(|(_, away)| !**away);
        up.fold(Usage::default(), |sum, (server, _)| sum + Usage::of(&server.ask(&["INFO", "all"]), sets))
    }
}

/// The URL for Fencepost.
pub(crate) fn url_of(addresses: &str) -> String {
    if addresses.contains("://") {
        return addresses.to_owned();
    }
    format!("{}://{addresses}", if addresses.contains(',') { "redlock" } else { "redis" })
}

/// What servers have done since they started.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// All CPU time, in nanoseconds.
    pub(crate) cpu: f64,
    /// Commands from clients, without those that scripts call.
    pub(crate) sent: f64,
    /// Runs of scripts, and the time they took, in nanoseconds.
    pub(crate) scripts: f64,
    pub(crate) script_time: f64,
}

impl Usage {
    fn of(info: &str, sets: bool) -> Self {
        let mut usage = Self::default();
        for line in info.lines() {
            let Some((name, rest)) = line.trim_end().split_once(':') else { continue };
            if matches!(name, "used_cpu_sys" | "used_cpu_user") {
                usage.cpu += rest.parse::<f64>().unwrap_or_default() * 1e9;
            }
            let Some(command) = name.strip_prefix("cmdstat_") else { continue };
            let figure = |key: &str| {
                let figure = rest.split(',').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
                figure.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
            };
            if SENT.contains(&command) || (sets && command == "set") {
                usage.sent += figure("calls");
            }
            if matches!(command, "evalsha" | "eval") {
                usage.scripts += figure("calls");
                usage.script_time += figure("usec") * 1e3;
            }
        }
        usage
    }
}

impl Usage {
    /// Nanoseconds of each script.
    pub(crate) fn per_script(self) -> f64 {
        self.script_time / self.scripts
    }
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            sent: self.sent + other.sent,
            scripts: self.scripts + other.scripts,
            script_time: self.script_time + other.script_time,
        }
    }
}

impl std::ops::Sub for Usage {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let minus =
            Self { cpu: -other.cpu, sent: -other.sent, scripts: -other.scripts, script_time: -other.script_time };
        self + minus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_calls_is_not_counted_as_sent() {
        let nodes = Nodes::start(1, "").expect("a server");
        let before = nodes.usage(false);
        nodes.servers[0].ask(&["EVAL", "redis.call('SET', 'a', 1) return redis.call('GET', 'a')", "0"]);
        let done = nodes.usage(false) - before;
        assert_eq!((done.sent, done.scripts), (1.0, 1.0));
        assert!(done.script_time > 0.0 && done.cpu > 0.0);
    }
}
