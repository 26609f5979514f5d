//! What can go wrong with Redis servers that keep locks.

mod flaws;
mod server;

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use fencepost_core::doctor::{Report, Severity, answer_within, shown, try_out};
use fencepost_core::store::{Clock, Store, StoreError, StoreErrorKind, Trouble};
use fencepost_core::{Blocking, Invalid};

use crate::driver;
use crate::probe::Probe;
use crate::socket::{self, Place};
use crate::url::{Address, Config, Deployment, Node};
use crate::{cluster, open_any, sentinel};
use server::Server;

/// Looks at the servers of `SCHEME:REST`, which keep locks of this ttl. Takes a moment, and blocks for it.
///
/// Apart from a lock of a random name, which is taken and released, it changes what any client changes by connecting: a new
/// node of a quorum is marked, or put on probation.
///
/// # Errors
/// If the URL is none of Redis.
pub fn examine(scheme: &str, rest: &str, ttl: Duration) -> Result<Report, StoreError> {
    let wrong = |invalid: Invalid| StoreError::new(StoreErrorKind::Misconfigured, "examine", invalid.to_string());
    let config = Config::parse(scheme, rest).map_err(wrong)?;
    let mut report = Report::new(scope(&config));
    let servers = servers(&config, &mut report);
    if let Some(address) = config.exposes_password() {
        let cure = "use TLS: rediss://, redlock+tls://, rediss+sentinel://, rediss+cluster://";
        let evidence = "the password goes over the network in clear text";
        report.find(Severity::Warning, "clear-text", &address.to_string(), evidence, cure);
    }
    if config.quorum && ttl > config.max_ttl {
        let evidence =
            format!("a ttl of {} is longer than max_ttl_ms lets it be, {}", shown(ttl), shown(config.max_ttl));
        let cure =
            "use a shorter ttl (`--ttl`, FENCEPOST_TTL, `ttl` in fencepost.toml), or raise max_ttl_ms for all clients";
        report.find(Severity::Error, "ttl", "all servers", evidence, cure);
    }
    let usual = match config.quorum && config.nodes.len() > 1 {
        true => (ttl / 20).min(Duration::from_millis(50)),
        false => answer_within(ttl),
    };
    let allowed = config.answer_within.unwrap_or(usual);
    let (mut seen, mut missing) = (Vec::new(), Vec::new());
    for (number, node) in servers.iter().enumerate() {
        match Server::look_at(node) {
            Ok(server) => {
                server.judge(&config, allowed, ttl, &mut report);
                seen.push(server);
            }
            Err(trouble) => missing.push((number, node.address.to_string(), trouble)),
        }
    }
    let gone: Vec<usize> = missing.iter().map(|(number, _, _)| *number).collect();
    report.judge_missing(missing.into_iter().map(|(_, place, trouble)| (place, trouble)), suffices(&config, &gone));
    judge_set(&config, &servers, &seen, &mut report);
    // What is wrong already would only be said once more.
    if report.worst() != Some(Severity::Error) {
        try_all(config, &gone, ttl, &mut report);
    }
    Ok(report)
}

/// Whether locks can be taken without these servers: a majority of each list has to be left.
fn suffices(config: &Config, gone: &[usize]) -> bool {
    let all: Vec<usize> = (0..config.nodes.len()).collect();
    let sets = if config.sets.is_empty() { vec![all] } else { config.sets.clone() };
    let is_left = |set: &Vec<usize>| 2 * set.iter().filter(|number| !gone.contains(number)).count() > set.len();
    config.quorum && sets.iter().all(is_left)
}

fn scope(config: &Config) -> String {
    let whom = match &config.deployment {
        Deployment::Servers if config.quorum => match config.sets.as_slice() {
            [] => format!("these {} servers, of which a majority decides", config.nodes.len()),
            sets => {
                let counts: Vec<String> = sets.iter().map(|set| set.len().to_string()).collect();
                format!("these servers, of which a majority of each list decides ({})", counts.join(" and "))
            }
        },
        Deployment::Servers => "this server".to_owned(),
        Deployment::Sentinels { master } => format!("the master {master:?} that these sentinels name"),
        Deployment::Cluster => "this cluster".to_owned(),
    };
    format!("every process that uses {whom}, with the prefix {:?} and the same database", config.prefix)
}

/// The servers that keep the locks: those that the URL names, or those that they name.
fn servers(config: &Config, report: &mut Report) -> Vec<Node> {
    match &config.deployment {
        Deployment::Servers => config.nodes.clone(),
        Deployment::Sentinels { master } => masters_by_sentinels(config, master, report),
        Deployment::Cluster => masters_of_cluster(config, report),
    }
}

fn masters_by_sentinels(config: &Config, master: &str, report: &mut Report) -> Vec<Node> {
    let mut named: BTreeMap<String, (Address, Vec<String>)> = BTreeMap::new();
    let mut missing = Vec::new();
    for node in &config.nodes {
        let place = node.address.to_string();
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master];
        let answer = Probe::open(node).and_then(|mut probe| probe.ask(&words));
        match answer.and_then(|value| sentinel::answer(master, &value)) {
            Ok(address) => {
                named.entry(address.to_string()).or_insert_with(|| (address, Vec::new())).1.push(place);
            }
            Err(trouble) => missing.push((place, trouble)),
        }
    }
    // Any one of them finds the master.
    report.judge_missing(missing, !named.is_empty());
    if named.len() > 1 {
        let said: Vec<String> =
            named.iter().map(|(master, (_, by))| format!("{} say {master}", by.join(", "))).collect();
        let cure = "wait until a failover is over; then see `SENTINEL MASTERS` at each of them";
        report.find(Severity::Error, "sentinels-disagree", master, said.join("; "), cure);
    }
    if config.nodes.len() < 3 {
        let evidence = format!("{} of the sentinels are named", config.nodes.len());
        let cure = "run and name three sentinels at least, on machines of their own";
        report.find(Severity::Warning, "few-sentinels", master, evidence, cure);
    }
    named.into_values().filter_map(|(address, _)| config.entry.node(address).ok()).collect()
}

fn masters_of_cluster(config: &Config, report: &mut Report) -> Vec<Node> {
    let mut missing = Vec::new();
    for node in &config.nodes {
        let place = node.address.to_string();
        let slots = Probe::open(node).and_then(|mut probe| probe.get(&["CLUSTER", "SLOTS"]));
        let ranges = match slots {
            Ok(slots) => cluster::ranges(&slots, &node.address).unwrap_or_default(),
            Err(trouble) => {
                let trouble = match trouble.message.contains("cluster support disabled") {
                    true => {
                        Trouble::new(StoreErrorKind::Misconfigured, "it is no node of a cluster: use redis://HOST:PORT")
                    }
                    false => trouble,
                };
                missing.push((place, trouble));
                continue;
            }
        };
        // Any one of them knows the others.
        report.judge_missing(missing, true);
        let covered: u32 = ranges.iter().map(|(first, last, _)| u32::from(last - first) + 1).sum();
        if covered < u32::from(crate::keys::SLOTS) {
            let evidence = format!("{covered} of {} slots have a master", crate::keys::SLOTS);
            let cure = "locks of the other slots cannot be taken: see `redis-cli --cluster check`";
            report.find(Severity::Error, "not-covered", &place, evidence, cure);
        }
        let mut masters: Vec<Address> = Vec::new();
        for (_, _, master) in ranges {
            if !masters.contains(&master) {
                masters.push(master);
            }
        }
        return masters.into_iter().filter_map(|address| config.entry.node(address).ok()).collect();
    }
    report.judge_missing(missing, false);
    Vec::new()
}

/// What is wrong with several servers together.
fn judge_set(config: &Config, servers: &[Node], seen: &[Server], report: &mut Report) {
    for (at, server) in seen.iter().enumerate() {
        let twin = seen[..at].iter().find(|other| !server.run.is_empty() && other.run == server.run);
        if let Some(twin) = twin {
            let evidence = format!("it is the same server as {} (run id {})", twin.place, server.run);
            report.find(Severity::Error, "same-server", &server.place, evidence, "name each server once");
        }
    }
    if !config.quorum {
        return;
    }
    // Of two lists each has to bear a loss.
    let counts = if config.sets.is_empty() { vec![servers.len()] } else { config.sets.iter().map(Vec::len).collect() };
    for count in counts {
        if count.is_multiple_of(2) {
            let evidence = format!("{count} servers survive the loss of {}, as {} would", (count - 1) / 2, count - 1);
            let cure = "name an odd number: 3 or 5";
            report.find(Severity::Warning, "even", "all servers", evidence, cure);
        }
        if count == 1 {
            let evidence = "one server is no quorum: its loss is the loss of all locks";
            report.find(Severity::Warning, "one-server", "all servers", evidence, "name 3 or 5 servers");
        }
    }
    judge_hosts(servers, report);
    let restarting: Vec<&str> =
        seen.iter().filter(|server| !server.keeps_everything).map(|server| server.place.as_str()).collect();
    if !restarting.is_empty() {
        let evidence = format!(
            "after a restart {} would grant nothing for {}: nothing says that all was on disk",
            restarting.join(", "),
            shown(driver::probation(config))
        );
        let cure = "nothing has to be done; `appendonly yes` with `appendfsync always` lets a server vote at once";
        report.find(Severity::Notice, "restart-delay", "all servers", evidence, cure);
    }
}

fn judge_hosts(servers: &[Node], report: &mut Report) {
    let mut hosts = Vec::new();
    for node in servers {
        match socket::look_up(&node.address) {
            Ok(Place::Tcp(address)) => hosts.push(Some(address.ip()).filter(|ip| !is_ours(*ip))),
            Ok(Place::Unix(_)) => hosts.push(None),
            // Whoever cannot be found was told of already.
            Err(_) => return,
        }
    }
    if let Some((severity, evidence)) = judged_hosts(&hosts) {
        let cure = "put each on a machine, and best on a power supply and a switch, of its own";
        report.find(severity, "one-host", "all servers", evidence, cure);
    }
}

/// Whether it is an address of this machine: only those can be listened at.
fn is_ours(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Servers on one machine fail together: a majority there is as good as all. `None` among the hosts: this machine.
fn judged_hosts(hosts: &[Option<IpAddr>]) -> Option<(Severity, String)> {
    let all = hosts.len();
    let count = |host: &&Option<IpAddr>| hosts.iter().filter(|other| other == host).count();
    let most = hosts.iter().max_by_key(count)?;
    let there = count(&most);
    if all < 2 || 2 * there <= all {
        return None;
    }
    let which = if there == all { "all of them".to_owned() } else { format!("{there} of {all}") };
    Some(match most {
        None if there == all => {
            (Severity::Notice, format!("{which} are on this machine, which is good for trying it out"))
        }
        None => (Severity::Warning, format!("{which} are on this machine: without it there is no majority")),
        Some(ip) => (Severity::Warning, format!("{which} are at {ip}: they fail together")),
    })
}

/// Takes and releases a lock at every server that is there.
fn try_all(config: Config, gone: &[usize], ttl: Duration, report: &mut Report) {
    let place = "all servers";
    let unexpected = |message: String| Err(Trouble::new(StoreErrorKind::Unexpected, message));
    let clock = match Clock::system() {
        Ok(clock) => clock,
        Err(error) => return report.judge_trial(place, unexpected(error.to_string())),
    };
    match open_any(config, clock.clone()).block() {
        Ok(stores) => {
            let there = stores.into_iter().enumerate().filter(|(number, _)| !gone.contains(number));
            for (_, store) in there {
                report.judge_trial(&store.label(), try_out(&store, &clock, ttl));
            }
        }
        Err(error) => report.judge_trial(place, Err(Trouble::new(error.kind, error.message))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_one_machine_fail_together() {
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|ip| Some(ip.parse::<IpAddr>().expect("an address")));
        let judged = |hosts: &[Option<IpAddr>]| judged_hosts(hosts).map(|(severity, _)| severity);
        assert_eq!(judged(&[a, a, a]), Some(Severity::Warning));
        assert_eq!(judged(&[None, None, None]), Some(Severity::Notice));
        assert_eq!(judged(&[a, b]), None);
        assert_eq!(judged(&[a]), None);
        // One that is elsewhere decides nothing.
        assert_eq!(judged(&[a, b, a]), Some(Severity::Warning));
        assert_eq!(judged(&[None, b, None]), Some(Severity::Warning));
        assert_eq!(judged(&[None, a, b]), None);
    }

    #[test]
    fn all_addresses_of_this_machine_are_one_host() {
        let ours = |ip: &str| is_ours(ip.parse().expect("an address"));
        assert!(ours("127.0.0.1") && ours("127.0.0.2") && ours("::1"));
        // One that is kept for books.
        assert!(!ours("203.0.113.7"));
    }

    #[test]
    fn a_majority_of_each_list_has_to_be_left() {
        let config = |rest| Config::parse("redlock", rest).expect("a URL");
        let five = config("//a,b,c,d,e");
        assert!(suffices(&five, &[0, 4]) && !suffices(&five, &[0, 1, 2]));
        assert!(!suffices(&Config::parse("redis", "//a").expect("a URL"), &[0]));
    }
}
