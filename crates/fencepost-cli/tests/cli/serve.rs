//! The service as a program: locks through it, by the command and by `curl`, also when it is killed.

use nix::sys::signal::Signal;

use crate::redis::works;
use crate::support::{Done, HOLD, Invocation, Place, Running};

/// A service that does not outlive its test.
pub(crate) struct Service(Option<Running>);

impl Service {
    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().expect("it runs").pid()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.0.as_ref().expect("it runs").signal(signal);
    }

    /// Ends it in this way.
    pub(crate) fn end(mut self, signal: Signal) -> Done {
        let running = self.0.take().expect("it is ended once");
        running.signal(signal);
        running.end()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.signal(Signal::SIGKILL);
        }
    }
}

/// A service on the file of this place, and where it listens.
fn serve(place: &Place, listen: &str) -> (Service, String) {
    serve_store(place, &format!("sqlite:{}", place.path("locks.db").display()), listen)
}

pub(crate) fn serve_store(place: &Place, store: &str, listen: &str) -> (Service, String) {
    begun(place.fencepost(["--store", store, "serve", "--listen", listen]))
}

/// A service as it was invoked, once it listens.
pub(crate) fn begun(invoked: Invocation) -> (Service, String) {
    let mut service = invoked.start();
    let line = service.line();
    let address = line.trim().strip_prefix("http://").expect("where it listens").to_owned();
    (Service(Some(service)), address)
}

fn token(place: &Place, store: &str) -> u64 {
    let ended = place.fencepost(["--store", store, "run", "x", "--", "sh", "-c", "echo $FENCEPOST_TOKEN"]).end();
    ended.with_code(0).stdout.trim().parse().expect("a token")
}

#[test]
fn the_command_works_through_a_service() {
    let place = Place::new();
    let (service, address) = serve(&place, "127.0.0.1:0");
    works(&format!("fencepost+http://{address}"));
    service.end(Signal::SIGTERM).with_code(0);
}

#[test]
fn nobody_else_can_reach_a_service_that_asks_nobody_who_they_are() {
    let place = Place::new();
    place.fencepost(["serve", "--listen", "0.0.0.0:0"]).end().with_code(78).saying("127.0.0.1");
}

#[test]
fn a_service_that_was_killed_forgets_no_lock_and_repeats_no_token() {
    let place = Place::new();
    let (service, address) = serve(&place, "127.0.0.1:0");
    let store = format!("fencepost+http://{address}");
    let first = token(&place, &store);
    let hold = [&["--store", &store, "run", "--ttl", "30s", "x", "--"], &HOLD[..]].concat();
    let holder = place.fencepost(hold).start_until_it_says("held");
    service.end(Signal::SIGKILL);

    let (service, _) = serve(&place, &address);
    place.fencepost(["--store", &store, "run", "-n", "x", "--", "true"]).end().with_code(75);
    holder.let_go().with_code(0);
    assert!(token(&place, &store) > first + 1, "the holder's own lies between");
    service.end(Signal::SIGTERM).with_code(0);
}

#[test]
fn whoever_waits_at_a_replica_that_is_killed_goes_on_at_the_other() {
    let place = Place::new();
    let ((one, first), (two, second)) = (serve(&place, "127.0.0.1:0"), serve(&place, "127.0.0.1:0"));
    let through = |addresses: String| format!("fencepost+http://{addresses}");
    let other = through(second.clone());
    let hold = [&["--store", &other, "run", "x", "--"], &HOLD[..]].concat();
    let holder = place.fencepost(hold).start_until_it_says("held");

    let both = through(format!("{first},{second}"));
    let waiter = [&["--store", &both, "run", "--label", "the waiter", "x", "--"], &HOLD[..]].concat();
    let mut waiter = place.fencepost(waiter).start();
    let in_line = || place.fencepost(["--store", &other, "show", "x"]).end().stdout.contains("the waiter");
    fencepost_testkit::wait::until("in line at the first", in_line);
    one.end(Signal::SIGKILL);
    fencepost_testkit::wait::until("in line at the other", in_line);
    holder.let_go().with_code(0);
    assert_eq!(waiter.line().trim(), "held");
    waiter.let_go().with_code(0);
    two.end(Signal::SIGTERM).with_code(0);
}

#[test]
fn a_replica_that_hangs_costs_no_lock_where_there_is_another() {
    let (place, redis) = (Place::new(), fencepost_testkit::redis::Redis::new().start());
    let store = format!("redis://{}", redis.address());
    let ((one, first), (_two, second)) =
        (serve_store(&place, &store, "127.0.0.1:0"), serve_store(&place, &store, "127.0.0.1:0"));
    let both = format!("fencepost+http://{first},{second}");
    let hold = [&["--store", &both, "run", "--ttl", "9s", "x", "--"], &HOLD[..]].concat();
    let holder = place.fencepost(hold).start_until_it_says("held");
    one.signal(Signal::SIGSTOP);

    let left = || {
        let shown = place.fencepost(["--store", &store, "--json", "show", "x"]).end().with_code(0).stdout;
        let state: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        state["holders"][0]["expires_in_ms"].as_u64().expect("it is held")
    };
    let mut least = left();
    fencepost_testkit::wait::until("it is renewed at the other", || {
        let now = left();
        least = least.min(now);
        now > least + 1000
    });
    // Whoever comes now meets the one that hangs first.
    place.fencepost(["--store", &both, "run", "-n", "y", "--", "true"]).end().with_code(0);
    holder.let_go().with_code(0);
    one.signal(Signal::SIGCONT);
}

#[test]
fn the_script_of_the_documentation_works_with_curl_alone() {
    let place = Place::new();
    let (service, address) = serve(&place, "127.0.0.1:0");
    let page = include_str!("../../../../docs/service.md");
    let scripts = page.split("```sh script\n").skip(1).map(|rest| rest.split("```").next().expect("an end"));
    let all: Vec<&str> = scripts.collect();
    assert_eq!(all.len(), 2);
    let script = all.join("\n");
    let done = place.program("sh").arguments(["-eu", "-c", &script]).set("SERVICE", &format!("http://{address}")).end();
    let done = done.with_code(0);
    assert!(done.stdout.ends_with(r#"{"state":"done","result":{"receipt":1}}"#), "{}", done.stdout);
    assert!(done.stdout.contains("working under token "), "{}", done.stdout);
    assert!(done.stdout.contains("\"outcome\":\"freed\""), "{}", done.stdout);
    let store = format!("fencepost+http://{address}");
    let held = place.fencepost(["--store", &store, "run", "-n", "backup", "--", "true"]).end();
    held.with_code(0);
    service.end(Signal::SIGTERM).with_code(0);
}
