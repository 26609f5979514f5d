//! The description of the HTTP interface, put to the test: a fuzzer sends what it allows and what it forbids to a real
//! service, and holds every answer against it.

use std::env;

use fencepost_testkit::server::find_in_setup;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::serve::begun;
use crate::support::{PROGRAM, Place};

/// Streams have no end, and a request that waits says nothing of the interface that one that does not wait would not.
const ENDLESS: &str = "(/events|/observe)$";
const WAITS: &str = "wait_ms";

#[test]
fn the_service_does_what_its_description_says() {
    let is_long = env::var_os("FENCEPOST_LONG").is_some();
    let (seconds, examples) = if is_long { ("600", "400") } else { ("45", "10") };
    let mut described: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi.json")).expect("the description is JSON");
    for schema in described["components"]["schemas"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            fields.remove(WAITS);
        }
    }
    let place = Place::new();
    place.write("openapi.json", &described.to_string());
    // What it notes goes to a file: nobody here reads a pipe, and a pipe that is full would stop it.
    let store = format!("sqlite:{}", place.path("locks.db").display());
    let noting = ["-c", "exec \"$@\" 2>service.log", "sh", PROGRAM, "--store", &store, "serve", "--listen"];
    let (service, address) = begun(place.program("sh").arguments(noting).arguments(["127.0.0.1:0"]));
    let fuzzer = find_in_setup("schemathesis/bin/schemathesis");
    let done = place
        .program(fuzzer.to_str().expect("UTF-8"))
        .arguments(["run", "openapi.json", "--url", &format!("http://{address}"), "--no-color"])
        .arguments(["--seed", "10", "--max-time", seconds, "--max-examples", examples, "--workers", "2"])
        .arguments(["--phases", "coverage,fuzzing", "--exclude-path-regex", ENDLESS, "--request-timeout", "20"])
        // That a request is in order does not mean that the lock is free, or the token known.
        .arguments(["--exclude-checks", "positive_data_acceptance", "--continue-on-failure", "--no-shrink"])
        .arguments(["--generation-database", "none"])
        .end();
    assert_eq!(done.code, 0, "{}\n{}", done.stdout, done.stderr);
    assert!(!done.stdout.contains("Tested: 0"), "it asked nothing: {}", done.stdout);
    let store = format!("fencepost+http://{address}");
    place.fencepost(["--store", &store, "run", "-n", "after all that", "--", "true"]).end().with_code(0);
    service.end(Signal::SIGTERM).with_code(0);
    let notes = place.read("service.log");
    assert!(!notes.contains("panicked"), "{notes}");
}
