//! `fencepost reconfigure`: each run says what is done, what remains and for how long.

use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use fencepost_testkit::wait::until;
use serde_json::{Value, json};

use crate::support::{Done, HOLD, Place};

/// Six servers, of which the first three are a cluster; the longest lease is a second.
struct Change {
    place: Place,
    servers: Vec<Server<Redis>>,
}

impl Change {
    fn new() -> Self {
        let change = Self { place: Place::new(), servers: (0..6).map(|_| Redis::new().start()).collect() };
        change.place.fencepost(["init", "--store", &change.url(0..3)]).end().with_code(0);
        change
    }

    fn hosts(&self, numbers: std::ops::Range<usize>) -> String {
        self.servers[numbers].iter().map(Server::address).collect::<Vec<_>>().join(",")
    }

    fn url(&self, numbers: std::ops::Range<usize>) -> String {
        format!("redlock://{}?max_ttl_ms=1000&answer_within_ms=1000", self.hosts(numbers))
    }

    fn step(&self, flags: &[&str]) -> Done {
        let (from, to) = (self.url(0..3), self.url(3..6));
        self.place.fencepost([&["reconfigure", "--from", &from, "--to", &to][..], flags].concat()).end()
    }

    fn json(&self) -> (i32, Value) {
        let done = self.step(&["--json"]);
        (done.code, serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}")))
    }
}

#[test]
fn it_goes_on_where_it_stopped_and_says_what_remains() {
    let change = Change::new();
    let (code, state) = change.json();
    assert_eq!((code, &state["state"], &state["schema"]), (75, &json!("prepared"), &json!(1)));
    assert_eq!((&state["done"], &state["remains"]), (&json!(["prepared"]), &json!(["closed", "opened", "done"])));
    let both = format!("{}&next={}", change.url(0..3), change.hosts(3..6));
    assert_eq!(state["url"], json!(both));
    assert_eq!(state["servers"][0]["votes_for"], json!(["old", "both"]));
    // A run by the old URL is seen; one by the URL of both is let in.
    let run = |url: &str| {
        let flags = ["run", "--ttl", "1s", "--store", url, "nightly", "--"];
        change.place.fencepost([&flags[..], &HOLD].concat())
    };
    let old = run(&change.url(0..3)).start_until_it_says("held");
    let (code, state) = change.json();
    assert_eq!((code, &state["state"]), (75, &json!("old_clients")));
    assert!(!state["clients"].as_array().expect("a list").is_empty(), "{state}");
    assert!(state["next"].as_str().expect("a text").contains("--force"), "{state}");
    old.let_go().with_code(0);
    let mut state = json!({ "state": "old_clients" });
    until("its connections are gone", || {
        state = change.json().1;
        state["state"] != "old_clients"
    });
    assert_eq!(state["state"], "closing");
    let left = state["left_ms"].as_u64().expect("a number");
    assert!(left > 0 && left <= 2000, "{left}");
    let refused = run(&change.url(0..3)).end().with_code(78);
    assert!(refused.stderr.contains("not the one to use now") && refused.stderr.contains("?next="), "{refused:?}");
    until("the leases are over", || {
        state = change.json().1;
        state["state"] != "closing"
    });
    assert_eq!((&state["state"], &state["url"]), (&json!("opened"), &json!(change.url(3..6))));
    run(&change.url(3..6)).end().with_code(0);
    let done = change.step(&[]).with_code(0);
    assert!(done.stdout.contains("4     done") && !done.stdout.contains("to do"), "{}", done.stdout);
    let (code, state) = change.json();
    assert_eq!((code, &state["remains"], &state["next"]), (0, &json!([]), &json!("")));
    run(&change.url(0..3)).end().with_code(78).saying("not the one to use now");
}

#[test]
fn force_waits_for_nobody_but_for_leases_it_does() {
    let change = Change::new();
    let prepared = change.step(&["--force"]).with_code(75);
    for words in
        ["1     prepared  done", "2     closed    to do", "from  old, both", "next: give all clients redlock://"]
    {
        assert!(prepared.stdout.contains(words), "{words} is missing:\n{}", prepared.stdout);
    }
    let flags = ["run", "--ttl", "1s", "--on-lost", "term", "--store", &change.url(0..3), "nightly", "--"];
    let held = change.place.fencepost([&flags[..], &HOLD].concat()).start_until_it_says("held");
    let closing = change.step(&["--force"]).with_code(75);
    assert!(closing.stdout.contains("leases of the old set still run: try again in "), "{}", closing.stdout);
    held.end().with_code(80);
    until("it is done", || change.step(&["--force"]).code == 0);
}

#[test]
fn nonsense_is_refused_with_field_value_and_cure() {
    let place = Place::new();
    let refused =
        |from: &str, to: &str| place.fencepost(["reconfigure", "--from", from, "--to", to]).end().with_code(78);
    refused("redlock://a,b,c", "redlock://c,b,a").saying("the same servers");
    refused("sqlite:", "redlock://a").saying("from");
    refused("redlock://a", "redis+cluster://:secret@a").saying("redlock://A,B,C");
    refused("redlock://a", "redlock://b?max_ttl_ms=1000").saying("max_ttl_ms");
    place.fencepost(["reconfigure", "--from", "redlock://a"]).end().with_code(2).saying("--to");
    // Nobody is there.
    let gone = place.fencepost(["reconfigure", "--from", "redlock://127.0.0.1:1", "--to", "redlock://127.0.0.1:2"]);
    gone.end().with_code(69).saying("127.0.0.1:1");
}
