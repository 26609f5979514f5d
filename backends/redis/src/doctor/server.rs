//! One server: what it says of itself, and what follows.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_core::doctor::{Report, Severity, is_enough, shown};
use fencepost_core::store::Trouble;

use crate::driver;
use crate::greeting;
use crate::probe::Probe;
use crate::sets;
use crate::steps::MARKER;
use crate::url::{Config, Deployment, Node};
use crate::wire::Value;

use super::flaws::{self, Flaws};

/// What was seen of a server.
pub(super) struct Server {
    pub(super) place: String,
    info: String,
    /// Changes with every start.
    pub(super) run: String,
    /// Every write is on disk before it is answered.
    pub(super) keeps_everything: bool,
    fsync: Option<String>,
    marker: Option<String>,
    round_trips: Vec<Duration>,
    ahead_ms: i64,
    clock_took: Duration,
    /// Why it says nothing about itself.
    silent: Option<String>,
}

impl Server {
    /// Asks it everything.
    pub(super) fn look_at(node: &Node) -> Result<Self, Trouble> {
        let mut probe = Probe::open(node)?;
        let mut round_trips = Vec::new();
        while !is_enough(&round_trips) {
            let start = Instant::now();
            // What the answer is does not matter: it took its time.
            probe.ask(&["PING"])?;
            round_trips.push(start.elapsed());
        }
        let start = Instant::now();
        let theirs = unix_ms(&probe.ask(&["TIME"])?);
        let clock_took = start.elapsed();
        let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(clock_took / 2);
        let ours = i64::try_from(ours.as_millis()).unwrap_or(i64::MAX);
        let (info, silent) = match probe.ask(&["INFO"])? {
            Value::Error(text) => (String::new(), Some(text)),
            value => (value.text().unwrap_or_default(), None),
        };
        let fsync = probe.ask(&["CONFIG", "GET", "appendfsync"])?;
        let fsync = fsync.array().and_then(|pair| pair.get(1)).and_then(Value::text);
        probe.ask(&["SELECT", &node.database.to_string()])?;
        let marker = probe.ask(&["GET", MARKER])?;
        let marker = if let Value::Text(bytes) = marker { String::from_utf8(bytes).ok() } else { None };
        let mut server = Self {
            place: node.address.to_string(),
            info,
            run: String::new(),
            keeps_everything: false,
            fsync,
            marker,
            round_trips,
            ahead_ms: theirs.map_or(0, |theirs| theirs.saturating_sub(ours)),
            clock_took,
            silent,
        };
        server.run = server.field("run_id").to_owned();
        server.keeps_everything = server.field("aof_enabled") == "1" && server.fsync.as_deref() == Some("always");
        Ok(server)
    }

    /// A field of INFO; empty: there is none.
    fn field(&self, name: &str) -> &str {
        self.info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("", str::trim)
    }

    fn number(&self, name: &str) -> u64 {
        self.field(name).parse().unwrap_or(0)
    }

    /// Finds what is wrong with it.
    pub(super) fn judge(&self, config: &Config, allowed: Duration, ttl: Duration, report: &mut Report) {
        let place = self.place.as_str();
        report.judge_latency(place, self.round_trips.clone(), allowed, ttl);
        report.judge_clock(place, self.ahead_ms, self.clock_took);
        if let Some(text) = &self.silent {
            let severity = if config.quorum { Severity::Error } else { Severity::Warning };
            let evidence =
                format!("it says nothing about itself, so whether it can evict locks is not known, either: {text}");
            report.find(severity, "rights", place, evidence, "give its user the right to INFO: +info");
            return;
        }
        self.judge_version(report);
        self.judge_role(config, report);
        self.judge_memory(report);
        if config.quorum {
            self.judge_marker(config, report);
        } else {
            self.judge_memory_of_locks(config, report);
        }
    }

    fn judge_version(&self, report: &mut Report) {
        let (kind, version) = match self.field("valkey_version") {
            "" => ("Redis", self.field("redis_version")),
            version => ("Valkey", version),
        };
        report.fact(&self.place, "version", format!("{kind} {version}"));
        let (severity, evidence) = match flaws::known(kind, version) {
            Flaws::None => return,
            Flaws::Some(flaws) => (Severity::Warning, format!("{kind} {version}: {}", flaws.join("; "))),
            Flaws::Unknown => (
                Severity::Notice,
                format!("{kind} {version}: its makers do not mend this line any more; distributions may do so"),
            ),
        };
        let cure = "install a newer one, and let nobody else run scripts there: ACL users without +eval";
        report.find(severity, "version", &self.place, evidence, cure);
    }

    fn judge_role(&self, config: &Config, report: &mut Report) {
        if self.field("role") == "slave" {
            let master = format!("{}:{}", self.field("master_host"), self.field("master_port"));
            let cure = "name masters only: what a replica has is copied late, and it takes no writes";
            report.find(Severity::Error, "replica", &self.place, format!("it is a replica of {master}"), cure);
        }
        let is_clustered = self.field("cluster_enabled") == "1";
        if is_clustered && config.deployment != Deployment::Cluster {
            let cure = "name the cluster: redis+cluster://HOST:PORT";
            report.find(Severity::Error, "misconfigured", &self.place, "it is a node of a cluster", cure);
        }
    }

    fn judge_memory(&self, report: &mut Report) {
        let (limit, policy) = (self.field("maxmemory"), self.field("maxmemory_policy"));
        match greeting::evicts(limit, policy) {
            Some(false) => {}
            Some(true) => {
                let evidence = format!(
                    "maxmemory is {limit} and maxmemory-policy is {policy}: it evicts held locks when memory is short"
                );
                let cure = "CONFIG SET maxmemory-policy noeviction, or maxmemory 0";
                report.find(Severity::Error, "evicts", &self.place, evidence, cure);
            }
            None => {
                let evidence =
                    "INFO does not tell maxmemory and maxmemory-policy: whether it can evict locks is not known";
                let cure = "make sure that maxmemory is 0 or maxmemory-policy is noeviction";
                report.find(Severity::Warning, "evicts", &self.place, evidence, cure);
            }
        }
        let (used, limit) = (self.number("used_memory"), self.number("maxmemory"));
        if limit > 0 && used.saturating_mul(10) > limit.saturating_mul(9) {
            let evidence = format!("{used} of {limit} bytes are used; when they are, no lock is granted or renewed");
            report.find(Severity::Warning, "memory", &self.place, evidence, "raise maxmemory, or keep less there");
        }
        let (clients, most) = (self.number("connected_clients"), self.number("maxclients"));
        report.judge_connections(&self.place, clients, most, "maxclients");
    }

    /// Of a quorum: whether it may vote.
    fn judge_marker(&self, config: &Config, report: &mut Report) {
        let ours = sets::fingerprint(config);
        let up_for = Duration::from_secs(self.number("uptime_in_seconds"));
        let marked = self.marker.as_deref().and_then(|marker| marker.rsplit_once('|'));
        match marked {
            Some((theirs, _)) if theirs.split(';').all(|set| set != ours) => {
                let cure = match sets::successor(&sets::marker(true, &ours), theirs) {
                    Some(url) => format!("its servers are being replaced, or were: use {url} now"),
                    None => "let all clients name the same servers, spelled alike, with the same max_ttl_ms".to_owned(),
                };
                let (theirs, ours) = (sets::shown(theirs), sets::shown(&ours));
                let evidence = format!("it belongs to another set: {theirs}; the URL says {ours}");
                report.find(Severity::Error, "fingerprint", &self.place, evidence, cure);
            }
            Some(_) => {}
            None if up_for < driver::probation(config) => {
                let evidence = format!(
                    "it runs for {} and knows of no set yet; it may have forgotten locks of up to {}",
                    shown(up_for),
                    shown(config.max_ttl)
                );
                let cure = "wait; or `fencepost init`, if no lock is held anywhere";
                report.find(Severity::Warning, "young", &self.place, evidence, cure);
            }
            None => {}
        }
    }

    /// Of a server that decides alone: whether it remembers.
    fn judge_memory_of_locks(&self, config: &Config, report: &mut Report) {
        if config.deployment != Deployment::Servers {
            if !config.waits_after_failover {
                let evidence = match config.replicas {
                    Some(_) => "a failover to a replica that had not heard of a lock frees it: two may hold it",
                    None => "what no replica has heard of is free after a failover: two may hold a lock",
                };
                let cure = "?after_failover=wait grants nothing until every forgotten lease is over; or use redlock://";
                report.find(Severity::Warning, "failover", &self.place, evidence, cure);
            }
            return;
        }
        let evidence = match (self.field("aof_enabled"), self.fsync.as_deref()) {
            ("1", Some("always")) => return,
            ("1", Some("everysec")) => "appendfsync is everysec: a power cut forgets the locks of a second",
            ("1", Some(_)) => "appendfsync is no: a power cut forgets locks",
            ("1", None) => "it does not tell how often it writes to disk: a power cut may forget locks",
            _ => "appendonly is no: a restart forgets all locks, and two may hold one",
        };
        let cure = "`appendonly yes` with `appendfsync always`; or redlock:// over servers of which one may forget";
        report.find(Severity::Warning, "forgets", &self.place, evidence, cure);
    }
}

/// The reply to TIME, in milliseconds.
fn unix_ms(reply: &Value) -> Option<i64> {
    let [seconds, micros] = reply.array()? else { return None };
    seconds.number()?.checked_mul(1000)?.checked_add(micros.number()? / 1000)
}
