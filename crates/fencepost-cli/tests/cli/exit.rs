//! The end of the command: whatever it came to, it has sent what it owes, and no node that is down keeps it.
//!
//! A few rounds each, or as many as promised if `FENCEPOST_LONG` is set; then it also tells how long the ends took.

use std::time::{Duration, Instant};

use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use fencepost_testkit::wait::until;
use nix::sys::signal::Signal;

use crate::support::{HOLD, Place};

const NONE: [&str; 0] = [];

/// A server that falls silent may delay the end of the command by this much.
const SILENCE_COSTS: Duration = Duration::from_millis(150);
/// To a server that is far away and back.
const TRIP: Duration = Duration::from_millis(100);
/// The shortest of several rounds counts: a busy machine delays some of them.
const ROUNDS: usize = 5;

fn rounds(long: usize) -> usize {
    if std::env::var_os("FENCEPOST_LONG").is_some() { long } else { 3 }
}

fn url(servers: &[Server<Redis>]) -> String {
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    format!("redlock://{}", addresses.join(","))
}

fn five(place: &Place) -> Vec<Server<Redis>> {
    let servers: Vec<_> = (0..5).map(|_| Redis::new().start()).collect();
    place.fencepost(["--store", &url(&servers), "init"]).end().with_code(0);
    servers
}

/// The keys of locks and queues at these servers.
fn left_at(servers: &[Server<Redis>]) -> Vec<String> {
    let stays = |key: &String| ["fp:fence:", "fp:marker", "fp:probation"].iter().any(|start| key.starts_with(start));
    servers.iter().flat_map(|server| server.keys()).filter(|key| !stays(key)).collect()
}

/// The middle one and the longest.
fn spread(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

/// How long each try took that ended with this code and left nothing at the servers that are up.
fn tries(place: &Place, store: &str, servers: &[Server<Redis>], code: i32) -> Vec<Duration> {
    let one = |_| {
        let began = Instant::now();
        place.fencepost(["--store", store, "run", "-n", "job", "--", "true"]).end().with_code(code);
        let took = began.elapsed();
        assert_eq!(left_at(servers), NONE);
        took
    };
    (0..rounds(40)).map(one).collect()
}

#[test]
fn a_try_without_a_majority_leaves_nothing_at_the_live_nodes() {
    let place = Place::new();
    let mut servers = five(&place);
    let store = url(&servers);
    let up = spread(tries(&place, &store, &servers, 0));
    servers.iter_mut().take(3).for_each(Server::kill);
    let killed = spread(tries(&place, &store, &servers[3..], 69));
    println!("run -n, middle and longest: all five up {up:?}, three killed {killed:?}");
    servers.iter_mut().take(3).for_each(Server::restart);
    servers.iter().take(3).for_each(Server::pause);
    let stopped = spread(tries(&place, &store, &servers[3..], 69));
    println!("run -n, middle and longest: three stopped (SIGSTOP) {stopped:?}");
}

/// How long each waiter took to end that was told to, and left nothing in the queue.
fn interruptions(place: &Place, store: &str, in_the_queue: impl Fn() -> Vec<String>) -> Vec<Duration> {
    let holder = place.fencepost([&["--store", store, "run", "job", "--"], &HOLD[..]].concat());
    let holder = holder.start_until_it_says("held");
    let held = in_the_queue();
    let one = |round: usize| {
        let mut waiter = place.fencepost(["--store", store, "run", "-v", "job", "--", "true"]).start();
        waiter.until_it_notes("waiting for job");
        let signal = if round.is_multiple_of(2) { Signal::SIGTERM } else { Signal::SIGINT };
        let began = Instant::now();
        waiter.signal(signal);
        waiter.end().with_code(128 + signal as i32);
        let took = began.elapsed();
        assert_eq!(in_the_queue(), held);
        took
    };
    let took = (0..rounds(40)).map(one).collect();
    holder.let_go().with_code(0);
    took
}

#[test]
fn a_waiter_that_is_told_to_end_is_out_of_every_queue() {
    let place = Place::new();
    let sqlite = format!("sqlite:{}", place.path("locks.db").display());
    let shown = || vec![place.json(&["show", "job"])["waiters"].to_string()];
    println!("sqlite, middle and longest: {:?}", spread(interruptions(&place, &sqlite, shown)));

    let server = [Redis::new().start()];
    let store = format!("redis://{}", server[0].address());
    println!("redis, middle and longest: {:?}", spread(interruptions(&place, &store, || left_at(&server))));

    let mut servers = five(&place);
    let store = url(&servers);
    println!("redlock, middle and longest: {:?}", spread(interruptions(&place, &store, || left_at(&servers))));
    servers.iter_mut().take(2).for_each(Server::kill);
    let took = interruptions(&place, &store, || left_at(&servers[2..]));
    println!("redlock, two of five killed, middle and longest: {:?}", spread(took));
}

/// A server that is stopped once the links are up costs little: its answer is not waited for. `end` stops the first list of
/// servers, looks at the second, and tells how long the command took to end.
fn assert_silence_costs_little(
    what: &str,
    servers: &[Server<Redis>],
    end: impl Fn(&[Server<Redis>], &[Server<Redis>]) -> Duration,
) {
    let shortest = |stopped| {
        let (silent, live) = servers.split_at(stopped);
        (0..ROUNDS).map(|_| end(silent, live)).min().expect("some rounds")
    };
    let [up, one, three] = [0, 1, 3].map(shortest);
    println!("{what}, shortest of {ROUNDS}: all five up {up:?}, one stopped {one:?}, three stopped {three:?}");
    for (stopped, took) in [("one", one), ("three", three)] {
        assert!(took <= up + SILENCE_COSTS, "{what}: {took:?} with {stopped} of five stopped, {up:?} with all up");
    }
}

#[test]
fn a_server_that_falls_silent_while_the_command_runs_delays_the_end_by_150_ms_at_most() {
    let place = Place::new();
    let servers = five(&place);
    let store = url(&servers);
    assert_silence_costs_little("run", &servers, |silent, live| {
        let holder = place.fencepost([&["--store", &store, "run", "job", "--"], &HOLD[..]].concat());
        let holder = holder.start_until_it_says("held");
        until("every server has granted it", || left_at(&servers).len() == servers.len());
        silent.iter().for_each(Server::pause);
        let began = Instant::now();
        holder.let_go().with_code(0);
        let took = began.elapsed();
        assert_eq!(left_at(live), NONE);
        // What was sent to them before the end is there when they go on.
        silent.iter().for_each(Server::resume);
        until("all servers have freed it", || left_at(&servers).is_empty());
        took
    });
}

#[test]
fn a_server_that_falls_silent_while_the_command_waits_delays_the_end_by_150_ms_at_most() {
    let place = Place::new();
    let servers = five(&place);
    let store = url(&servers);
    assert_silence_costs_little("a waiter, by SIGTERM", &servers, |silent, live| {
        let holder = place.fencepost([&["--store", &store, "run", "job", "--"], &HOLD[..]].concat());
        let holder = holder.start_until_it_says("held");
        until("every server has granted it", || left_at(&servers).len() == servers.len());
        let held = left_at(live);
        let mut waiter = place.fencepost(["--store", &store, "run", "-v", "job", "--", "true"]).start();
        waiter.until_it_notes("waiting for job");
        let waits = |server: &Server<Redis>| server.keys().iter().any(|key| key.starts_with("fp:line:"));
        until("it waits at every server", || servers.iter().all(waits));
        silent.iter().for_each(Server::pause);
        let began = Instant::now();
        waiter.signal(Signal::SIGTERM);
        waiter.end().with_code(128 + Signal::SIGTERM as i32);
        let took = began.elapsed();
        assert_eq!(left_at(live), held, "the waiter left something");
        silent.iter().for_each(Server::resume);
        holder.let_go().with_code(0);
        until("all servers have freed it", || left_at(&servers).is_empty());
        took
    });
}

/// Two of five servers are far away. A majority has confirmed the release long before they answer.
#[test]
fn a_server_that_is_slow_to_answer_is_waited_for() {
    let place = Place::new();
    let servers: Vec<_> = (0..5).map(|_| Redis::new().start()).collect();
    let far: Vec<Proxy> = servers[..2].iter().map(|server| Proxy::before(server.address())).collect();
    for proxy in &far {
        proxy.requests(Flow::Late(TRIP / 2));
        proxy.replies(Flow::Late(TRIP / 2));
    }
    let addresses = far.iter().map(Proxy::address).chain(servers[2..].iter().map(Server::address));
    let store = format!("redlock://{}", addresses.collect::<Vec<_>>().join(","));
    place.fencepost(["--store", &store, "init"]).end().with_code(0);
    for _ in 0..rounds(10) {
        let holder = place.fencepost([&["--store", &store, "run", "job", "--"], &HOLD[..]].concat());
        let holder = holder.start_until_it_says("held");
        until("every server has granted it", || left_at(&servers).len() == servers.len());
        let began = Instant::now();
        holder.let_go().with_code(0);
        let took = began.elapsed();
        assert_eq!(left_at(&servers), NONE);
        assert!(took >= TRIP, "{took:?}");
    }
}

/// The leases that are not among these.
fn leases_beside(known: &[String], server: &Server<Etcd>) -> Vec<String> {
    server.leases().into_iter().filter(|id| !known.contains(id)).collect()
}

#[test]
fn the_end_of_the_command_leaves_no_lease_in_etcd() {
    let place = Place::new();
    let server = Etcd::new().start();
    let store = format!("etcd://{}", server.address());
    let run = |flags: &[&str]| {
        let arguments = [&["--store", &store, "run", "--ttl", "1h"], flags, &["job", "--", "true"]].concat();
        place.fencepost(arguments)
    };
    for _ in 0..rounds(20) {
        run(&[]).end().with_code(0);
        assert_eq!(leases_beside(&[], &server), NONE);
    }
    let holder = place.fencepost([&["--store", &store, "run", "job", "--"], &HOLD[..]].concat());
    let holder = holder.start_until_it_says("held");
    let held = leases_beside(&[], &server);
    for _ in 0..rounds(20) {
        run(&["-n"]).end().with_code(75);
        assert_eq!(leases_beside(&held, &server), NONE);
    }
    let mut waiter = run(&["-v"]).start();
    waiter.until_it_notes("waiting for job");
    waiter.signal(Signal::SIGTERM);
    waiter.end().with_code(128 + Signal::SIGTERM as i32);
    assert_eq!(leases_beside(&held, &server), NONE);
    holder.let_go().with_code(0);
    assert_eq!(leases_beside(&[], &server), NONE);
}
