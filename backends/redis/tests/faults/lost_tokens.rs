//! Tokens behind sentinels, when failovers lose writes and the clients' clocks are set: a client's clock has no influence, so
//! each token is above the last one although the new master has never heard of it.

use std::process::Command;
use std::time::Duration;

use fencepost_core::{Blocking, FencingToken};
use fencepost_testkit::preload::Clocks;
use fencepost_testkit::process::{Other, hear, say};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::sentinels::Sentinels;
use fencepost_testkit::server::Server;
use fencepost_testkit::wait::{PATIENCE, until};

use crate::common::{Place, once_reachable};
use crate::connect;

const TTL: Duration = Duration::from_secs(300);

/// A client that takes the lock at each `take`, and says its token.
pub(crate) fn takes_when_told(place: &str) {
    let locks = connect(place);
    say("is connected");
    while hear().as_deref() == Some("take") {
        let lock = locks.lock("x").ttl(TTL).wait_at_most(PATIENCE);
        let guard = once_reachable(|| lock.acquire().block()).expect("the master grants it");
        say(&format!("token {}", guard.token()));
        hear();
        // A release may fail for a grant that the failover has lost.
        let _ = guard.release().block();
        say("let go");
    }
}

/// A process with clocks of its own, which are right until they are set.
struct Client {
    clocks: Clocks,
    process: Other,
}

impl Client {
    fn connected(place: &str) -> Self {
        let clocks = Clocks::new();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.envs(clocks.environment());
        let mut process = Other::start_by(command, "takes when told", place);
        process.says("is connected");
        Self { clocks, process }
    }

    /// Sets its wall clock to so many milliseconds after the right time.
    fn is_off_by(&self, ms: i64) {
        let by = Duration::from_millis(ms.unsigned_abs());
        if ms < 0 { self.clocks.wall_behind(by) } else { self.clocks.wall_ahead(by) }
    }

    fn takes(&mut self) -> FencingToken {
        self.process.tell("take");
        self.process.says("token ").parse().expect("a token")
    }

    fn lets_go(&mut self) {
        self.process.tell("let go");
        self.process.says("let go");
    }
}

/// What the server's clock says, as a token, and a little more.
fn clock_of(server: &Server<Redis>) -> FencingToken {
    let time: Vec<u64> = server.words(&["TIME"]).iter().filter_map(|word| word.parse().ok()).collect();
    let since_1970 = Duration::from_secs(time[0]) + Duration::from_micros(time[1]);
    FencingToken::at(std::time::UNIX_EPOCH + since_1970).plus(Duration::from_millis(5))
}

#[test]
fn a_client_whose_clock_is_set_after_it_connected_has_no_influence_on_tokens() {
    let place = Place::one();
    let mut clients = [0, 1].map(|_| Client::connected(&format!("redis {}", place.rest())));
    let mut last = None;
    for off_ms in [0, 4_700, -4_700, 3_600_000, -3_600_000] {
        for (client, off_ms) in clients.iter_mut().zip([off_ms, 0]) {
            client.is_off_by(off_ms);
            let token = client.takes();
            assert!(Some(token) > last, "{token} after {last:?}, {off_ms} ms off");
            assert!(token <= clock_of(&place.servers[0]), "{token} is of the future, {off_ms} ms off");
            client.lets_go();
            last = Some(token);
        }
    }
}

/// Two failovers; with `FENCEPOST_LONG=N`, that many. One line for each is printed, so that a run that was ended early counts.
#[test]
fn tokens_rise_over_failovers_that_lose_a_write_whatever_clients_take_for_the_time() {
    let failovers = std::env::var("FENCEPOST_LONG").ok().map_or(2, |count| count.parse().unwrap_or(200));
    let mut set = Sentinels::start();
    let place = format!("redis+sentinel //{}", set.place());
    let mut clients = [0, 1].map(|_| Client::connected(&place));
    let mut last: Option<FencingToken> = None;
    for failover in 0..failovers {
        let off_ms = [5_000, -5_000, 4_700, 0, -4_700][failover % 5];
        clients[0].is_off_by(off_ms);
        clients[1].is_off_by(-off_ms);
        let master = set.master();
        cut_off_replicas(&set.servers[master]);
        let lost = clients[0].takes();
        assert!(Some(lost) > last, "{lost} after {last:?}");
        set.servers[master].kill();
        set.until_moved_from(master);
        let next = clients[1].takes();
        assert!(next > lost, "{next} after {lost}, which the master did not outlive; clocks {off_ms} ms off");
        println!("failover {} of {failovers}: {lost}, {next}", failover + 1);
        clients[1].lets_go();
        clients[0].lets_go();
        last = Some(next);
        set.servers[master].restart();
        set.until_whole();
    }
}

/// From here on replicas hear nothing of this master any more.
fn cut_off_replicas(master: &Server<Redis>) {
    assert_eq!(master.ask(&["ACL", "SETUSER", "default", "-psync", "-sync"]), "+OK");
    until("no replica is linked", || {
        master.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
        master.ask(&["INFO", "replication"]).contains("connected_slaves:0")
    });
}
