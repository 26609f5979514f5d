//! Slots that move while locks in them are held and waited for.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use common::{PATIENCE, once_reachable, until};
use fencepost_core::{Blocking, EventKind, Locks, ReleaseOutcome};
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::contract::wait_for;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

const TTL: Duration = Duration::from_secs(10);

fn connect(cluster: &Cluster) -> Locks {
    let rest = format!("//{}", cluster.place());
    fencepost_redis::connect("redis+cluster", &rest).block().expect("it is up")
}

/// A slot on its way from one master to another.
struct Move<'a> {
    cluster: &'a Cluster,
    key: String,
    slot: String,
    from: usize,
    to: usize,
}

impl<'a> Move<'a> {
    /// Opens the slot of a key on both sides.
    fn begin(cluster: &'a Cluster, key: &str) -> Self {
        let (slot, from) = (cluster.slot(key), cluster.owner(key));
        let to = (0..6).find(|number| *number != from && cluster.is_master(*number)).expect("another master");
        let this = Self { cluster, key: key.to_owned(), slot, from, to };
        this.ask(to, &["CLUSTER", "SETSLOT", &this.slot, "IMPORTING", &cluster.id(from)]);
        this.ask(from, &["CLUSTER", "SETSLOT", &this.slot, "MIGRATING", &cluster.id(to)]);
        this
    }

    fn ask(&self, number: usize, words: &[&str]) {
        assert_eq!(self.server(number).ask(words), "+OK", "{words:?}");
    }

    fn server(&self, number: usize) -> &Server<Redis> {
        &self.cluster.servers[number]
    }

    /// Moves one key; false when there is none left.
    fn move_key(&self) -> bool {
        let Some(key) = self.server(self.from).word(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "1"]) else {
            return false;
        };
        let port = self.server(self.to).port().to_string();
        // It may have expired meanwhile.
        let reply = self.server(self.from).ask(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
        assert!(reply == "+OK" || reply == "+NOKEY", "{reply}");
        true
    }

    /// Somebody asked for keys of which some are here and some there.
    fn has_sent_away(&self) -> bool {
        self.server(self.from).ask(&["INFO", "errorstats"]).contains("errorstat_TRYAGAIN")
    }

    /// Moves what is left and closes the slot: the target has it.
    fn end(&self) {
        while self.move_key() {}
        let id = self.cluster.id(self.to);
        let others = (0..6).filter(|number| ![self.to, self.from].contains(number) && self.cluster.is_master(*number));
        for number in [self.to, self.from].into_iter().chain(others) {
            self.ask(number, &["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]);
        }
        let moved = format!("-MOVED {} {}", self.slot, self.server(self.to).address());
        let agrees = |number: &usize| {
            let reply = self.server(*number).ask(&["EXISTS", &self.key]);
            if *number == self.to { reply.starts_with(':') } else { reply == moved }
        };
        until("all agree that it has moved", || (0..6).all(|number| agrees(&number)));
        // A slot that moves on before all have heard how new this is may end up with nobody.
        let info = self.server(self.to).ask(&["CLUSTER", "INFO"]);
        let epoch = info.lines().find_map(|line| line.strip_prefix("cluster_my_epoch:")).expect("an epoch").trim();
        let knows = |server: &Server<Redis>| {
            let nodes = server.ask(&["CLUSTER", "NODES"]);
            let line = nodes.lines().find(|line| line.contains(&id)).expect("all know each other").to_owned();
            line.split(' ').nth(6) == Some(epoch)
        };
        until("all know how new that is", || self.cluster.servers.iter().all(knows));
    }
}

/// The keys of a lock on all masters, but for its fence.
fn left_behind(cluster: &Cluster, name: &str) -> Vec<String> {
    let masters = (0..6).filter(|number| cluster.is_master(*number));
    let keys = masters.flat_map(|number| cluster.servers[number].keys());
    keys.filter(|key| key.contains(&format!("lock:{name}")) && !key.starts_with("fp:fence")).collect()
}

#[test]
fn a_slot_moves_while_its_lock_is_held_and_waited_for_and_both_go_on() {
    let cluster = Cluster::start();
    let (first, second) = (connect(&cluster), connect(&cluster));
    let guard = first.lock("x").ttl(TTL).acquire().block().expect("free");
    let mut events = second.events();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lock("x").ttl(TTL).wait_forever().acquire().block());
        wait_for(&mut events, "x", |kind| *kind == EventKind::Waiting);
        let moving = Move::begin(&cluster, "lock:x");
        assert!(moving.move_key(), "half of it is there, half of it here");
        // No server can do anything now: a script would not find all its keys. It is asked until one can.
        let renewed = std::thread::scope(|scope| {
            let renewal = scope.spawn(|| guard.renew().block());
            until("it was sent away", || moving.has_sent_away());
            moving.end();
            renewal.join().expect("no panic")
        });
        renewed.expect("it waited for the slot");
        assert_eq!(cluster.owner("lock:x"), moving.to);
        assert!(guard.is_held() && !waiter.is_finished());
        let token = guard.token();
        assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
        let next = waiter.join().expect("no panic").expect("its turn");
        assert!(next.token() > token);
        assert_eq!(next.release().block().expect("released"), ReleaseOutcome::Freed);
    });
    until("nothing is left on either side", || left_behind(&cluster, "x").is_empty());
}

/// Every state that a slot passes through, while clients take turns.
#[test]
fn slots_that_move_to_and_fro_cost_no_exclusion_and_leave_nothing() {
    let cluster = Cluster::start();
    let clients = [connect(&cluster), connect(&cluster), connect(&cluster)];
    let (inside, turns, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    let take_turns = |locks: &Locks| {
        while !done.load(Ordering::SeqCst) {
            let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE);
            let guard = once_reachable(|| lock.acquire().block()).expect("its turn comes");
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
            inside.fetch_sub(1, Ordering::SeqCst);
            turns.fetch_add(1, Ordering::SeqCst);
            guard.release().block().expect("released");
        }
    };
    std::thread::scope(|scope| {
        let done = End(&done);
        clients.iter().for_each(|locks| drop(scope.spawn(|| take_turns(locks))));
        for _ in 0..5 {
            let before = turns.load(Ordering::SeqCst);
            Move::begin(&cluster, "lock:x").end();
            until("work goes on", || turns.load(Ordering::SeqCst) >= before + 20);
        }
        drop(done);
    });
    until("nothing is left on either side", || left_behind(&cluster, "x").is_empty());
}

/// Ends the work, also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn scripts_that_are_flushed_at_any_time_cost_nobody_a_turn() {
    let cluster = Cluster::start();
    let locks = connect(&cluster);
    for turn in 0..50 {
        let flush = || cluster.servers.iter().for_each(|server| drop(server.ask(&["SCRIPT", "FLUSH"])));
        flush();
        let guard = locks.lock(format!("job{turn}")).ttl(TTL).acquire().block().expect("free");
        flush();
        guard.renew().block().expect("held");
        flush();
        assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
    }
}

#[test]
fn names_with_braces_are_locks_of_their_own_and_their_keys_stay_together() {
    let cluster = Cluster::start();
    let (first, second) = (connect(&cluster), connect(&cluster));
    let names = ["{x}", "a{x}b", "a{x}c", "}{", "{}", "a}b", "%7Bx%7D", "{x", "x"];
    let guards: Vec<_> = names.map(|name| first.lock(name).ttl(TTL).acquire().block().expect("free")).into();
    for name in names {
        assert!(second.lock(name).ttl(TTL).acquire().block().is_err(), "{name} is held");
        assert_eq!(second.inspect(name).block().expect("an answer").holders.len(), 1, "{name}");
    }
    let mut listed = Vec::new();
    let mut feed = second.list("");
    while let Some(state) = feed.next().block() {
        listed.push(state.expect("an answer").name);
    }
    let mut all = names.map(str::to_owned);
    all.sort_unstable();
    assert_eq!(listed, all);
    for guard in guards {
        assert_eq!(guard.release().block().expect("released"), ReleaseOutcome::Freed);
    }
}
