//! Networks that are cut between some clients and some servers, in both directions or in one. Each story is told twice:
//! in namespaces, where packets are dropped, and by proxies.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fencepost_core::{AcquireError, Blocking, FencingToken, RenewError};
use fencepost_testkit::net::{Cut, Net};
use fencepost_testkit::process::{self, Other, hear, say};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::room::{self, Room, SERVERS};
use fencepost_testkit::server::Server;

use crate::common::{PATIENCE, fence, is_clean, once_reachable, until, value};
use crate::connect;

const NODES: usize = 5;
/// So long that nothing here is over by itself.
const LONG: Duration = Duration::from_secs(60);
/// So short that a holder that cannot renew is done soon.
const SHORT: Duration = Duration::from_secs(3);

/// Five servers and two clients.
struct World {
    servers: Vec<Server<Redis>>,
    net: Net,
    first: Other,
    second: Other,
}

impl World {
    fn new(servers: Vec<Server<Redis>>, mut net: Net) -> Self {
        let rest = format!("//{}", net.addresses().join(","));
        // Marked by their owner, who need not be one of the clients; the names of the nodes are what counts.
        let place = format!("redlock {rest}");
        let mut first = net.client("is cut off", &format!("init|{place}"));
        first.says("ready");
        let mut second = net.client("is cut off", &format!("join|{place}"));
        second.says("ready");
        Self { servers, net, first, second }
    }

    fn by_proxies() -> Self {
        let servers: Vec<Server<Redis>> = (0..NODES).map(|_| Redis::new().start()).collect();
        let net = Net::by_proxies(&servers);
        Self::new(servers, net)
    }

    /// In the room that this process is in.
    fn in_room() -> Self {
        let room = Room::furnish();
        let recipe = Redis::new().with(&format!("--bind 127.0.0.1 {SERVERS} --protected-mode no"));
        let servers: Vec<Server<Redis>> = (0..NODES).map(|_| recipe.clone().start()).collect();
        let net = Net::in_room(room, &servers);
        Self::new(servers, net)
    }

    fn until_clean(&self) {
        self.servers.iter().for_each(|server| until("nothing is left", || is_clean(server, "x")));
    }
}

/// The client: does what it is told.
pub(crate) fn is_cut_off(place: &str) {
    let (how, place) = place.split_once('|').expect("how, then the place");
    say("here");
    hear();
    if how == "init" {
        let (_, rest) = place.split_once(' ').expect("a scheme and the rest");
        // Each node has a second to answer, which on a busy machine is not always enough.
        until("the nodes are marked", || fencepost_redis::init("redlock", rest).block().is_ok());
    }
    let locks = connect(place);
    let lock = locks.lock("x");
    say("ready");
    let mut guard = None;
    while let Some(line) = hear() {
        match line.as_str() {
            "try" | "hold for short" => {
                let ttl = if line == "try" { LONG } else { SHORT };
                match lock.clone().ttl(ttl).acquire().block() {
                    Ok(granted) => {
                        say(&format!("outcome granted {}", granted.token()));
                        guard = Some(granted);
                    }
                    Err(AcquireError::Busy { .. }) => say("outcome busy"),
                    Err(AcquireError::Store(error)) => say(&format!("outcome trouble: {error}")),
                    Err(other) => panic!("{other}"),
                }
            }
            "wait" => {
                let lock = lock.clone().ttl(LONG).wait_at_most(PATIENCE);
                let granted = once_reachable(|| lock.acquire().block()).expect("its turn");
                say(&format!("outcome granted {}", granted.token()));
                guard = Some(granted);
            }
            // On a busy machine an answer may take longer than it is waited for: then it is asked for again.
            "renew" => {
                let guard = guard.as_ref().expect("held");
                until("it is renewed or lost", || !matches!(guard.renew().block(), Err(RenewError::Unknown(_))));
                say(&format!("outcome {}", guard.is_held()));
            }
            "lose" => say(&format!("outcome {:?}", guard.as_ref().expect("held").lost().block().reason)),
            // What is unknown is tried again by itself.
            "release" => {
                let _ = guard.take().expect("held").release().block();
                say("outcome sent");
            }
            // A lock as it is often written: no answer is no lock, and that is that.
            plain => {
                let address = plain.strip_prefix("plain ").expect("an address");
                let mut stream = TcpStream::connect(address).expect("its packets arrive");
                say("outcome connected");
                hear();
                stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
                stream.write_all(b"SET control:x first NX PX 600000\r\n").expect("sent");
                say(&format!("outcome {:?}", stream.read(&mut [0; 5]).is_ok()));
            }
        }
    }
}

fn told(client: &mut Other, line: &str) -> String {
    client.tell(line);
    client.says("outcome ")
}

fn granted(said: &str) -> FencingToken {
    let token = said.strip_prefix("granted ").unwrap_or_else(|| panic!("not granted: {said}"));
    token.parse().expect("a token")
}

/// A minority is out of reach of one client: it notices nothing.
fn without_a_minority_locks_are_taken_renewed_and_released(mut world: World) {
    world.net.cut(&world.first, [0, 1], Cut::Both);
    let mut last = None;
    for _ in 0..3 {
        let token = granted(&told(&mut world.first, "wait"));
        assert!(Some(token) > last, "tokens rise");
        let said = told(&mut world.second, "try");
        assert!(!said.starts_with("granted"), "it excludes the client that reaches all: {said}");
        assert_eq!(told(&mut world.first, "renew"), "true");
        assert_eq!(told(&mut world.first, "release"), "sent");
        let token = granted(&told(&mut world.second, "wait"));
        assert_eq!(told(&mut world.second, "release"), "sent");
        last = Some(token);
    }
    world.net.heal();
    world.until_clean();
}

/// A majority is out of reach of one client: it is told, gets nothing, and the other goes on.
fn without_a_majority_nothing_is_granted_and_a_holder_is_told(mut world: World) {
    let held = granted(&told(&mut world.first, "hold for short"));
    world.net.cut(&world.first, [2, 3, 4], Cut::Both);
    let next = granted(&told(&mut world.second, "wait"));
    assert!(next > held, "{next} after {held}");
    assert_eq!(told(&mut world.first, "lose"), "Unreachable");
    let said = told(&mut world.first, "try");
    assert!(!said.starts_with("granted"), "two of five are no majority: {said}");
    // The control: if whoever is reached may decide, both sides have it.
    let plain = |server: usize| world.servers[server].ask(&["SET", "control:x", "side", "NX", "PX", "60000"]);
    assert_eq!((plain(0).as_str(), plain(4).as_str()), ("+OK", "+OK"));
    assert_eq!(told(&mut world.second, "renew"), "true");
    world.net.heal();
    assert_eq!(told(&mut world.second, "release"), "sent");
    assert!(granted(&told(&mut world.first, "wait")) > next, "after healing");
    assert_eq!(told(&mut world.first, "release"), "sent");
    world.until_clean();
}

/// Requests arrive and replies do not: what was granted unheard is given back as soon as that can be sent. (Not before
/// healing, where it matters: who hears no acknowledgement sends little more.)
fn without_replies_a_grant_is_given_back(mut world: World) {
    // The control is connected before, as a client of any library would be.
    let address = world.net.addresses()[0].clone();
    assert_eq!(told(&mut world.first, &format!("plain {address}")), "connected");
    world.net.cut(&world.first, 0..NODES, Cut::Replies);
    world.first.tell("go");
    assert_eq!(world.first.says("outcome "), "false", "nobody answered");
    until("the control: it is a lock of nobody", || world.servers[0].word(&["GET", "control:x"]).is_some());
    let asked = Instant::now();
    let said = told(&mut world.first, "try");
    assert!(said.starts_with("trouble: "), "{said}");
    let unheard = || world.servers.iter().filter(|server| fence(server, "x") > 0).count();
    until("a majority has granted it unheard", || unheard() > NODES / 2);
    world.net.heal();
    let token = granted(&told(&mut world.second, "wait"));
    assert!(asked.elapsed() < LONG, "it was given back, and did not end by itself");
    assert_eq!(told(&mut world.second, "release"), "sent");
    assert!(granted(&told(&mut world.first, "wait")) > token);
    assert_eq!(told(&mut world.first, "release"), "sent");
    world.until_clean();
    assert!(world.servers[0].word(&["GET", "control:x"]).is_some(), "the control: and still is");
}

/// Requests do not arrive: there is nothing to clean up, and nobody waits for it.
fn without_requests_nobody_is_kept_waiting(mut world: World) {
    world.net.cut(&world.first, 0..NODES, Cut::Requests);
    let said = told(&mut world.first, "try");
    assert!(said.starts_with("trouble: "), "{said}");
    assert!(world.servers.iter().all(|server| value(server, "x").is_none()), "nothing has arrived");
    let token = granted(&told(&mut world.second, "wait"));
    // What was under way arrives now, if it ever does: too late to be anything.
    world.net.heal();
    assert_eq!(told(&mut world.second, "renew"), "true");
    assert_eq!(told(&mut world.second, "release"), "sent");
    assert!(granted(&told(&mut world.first, "wait")) > token);
    assert_eq!(told(&mut world.first, "release"), "sent");
    world.until_clean();
}

macro_rules! stories {
    ($($story:ident),+) => {
        mod in_namespaces {
            $(#[test]
            fn $story() {
                super::in_a_room_if_allowed(stringify!($story), super::$story);
            })+
        }

        mod by_proxies {
            $(#[test]
            fn $story() {
                super::$story(super::World::by_proxies());
            })+
        }

        /// What a process in a room is for.
        pub(crate) fn is_in_a_room(story: &str) {
            match story {
                $(stringify!($story) => $story(World::in_room()),)+
                story => unreachable!("BUG: no story {story}"),
            }
        }
    };
}

stories!(
    without_a_minority_locks_are_taken_renewed_and_released,
    without_a_majority_nothing_is_granted_and_a_holder_is_told,
    without_replies_a_grant_is_given_back,
    without_requests_nobody_is_kept_waiting
);

/// Where the machine does not allow namespaces the story is told by proxies, and that is said aloud, also by a test that
/// passes.
fn in_a_room_if_allowed(name: &str, story: fn(World)) {
    match room::allowed() {
        Ok(()) => {
            let mut other = room::enter("is in a room", name);
            let said = other.rest();
            println!("{}", said.join("\n"));
            other.finish();
        }
        Err(why) => {
            process::say(&format!("{name}: no namespaces on this machine, so by proxies only ({why})"));
            story(World::by_proxies());
        }
    }
}
