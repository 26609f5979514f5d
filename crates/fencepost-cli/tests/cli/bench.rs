//! `fencepost bench`: what it measures adds up, what it shows is whole, and it leaves nothing locked.

use fencepost_testkit::proxy::{Flow, Proxy};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;
use fencepost_testkit::wait::until;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Done, Place};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn report(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// Durations whose percentiles rise and whose histogram has all of them.
fn adds_up(durations: &Value) -> f64 {
    let names = ["min_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"];
    let values: Vec<f64> = names.iter().map(|name| number(&durations[*name])).collect();
    assert!(values.is_sorted(), "{durations}");
    let mean = number(&durations["mean_ms"]);
    assert!(values[0] <= mean && mean <= values[5], "{durations}");
    let bands = list(&durations["histogram"]);
    assert!(bands.iter().all(|band| number(&band["from_ms"]) < number(&band["to_ms"])), "{durations}");
    let (counted, count) = (bands.iter().map(|band| number(&band["count"])).sum::<f64>(), number(&durations["count"]));
    assert_eq!(counted, count, "{durations}");
    count
}

/// Every promised field, and how they belong together.
fn is_consistent(report: &Value, clients: u64) {
    assert_eq!((&report["schema"], &report["clients"]), (&1.into(), &clients.into()));
    assert_eq!((&report["ttl_ms"], &report["interrupted"]), (&30_000.into(), &false.into()));
    for store in list(&report["stores"]) {
        let workloads = list(&store["workloads"]);
        let names: Vec<&str> = workloads.iter().map(|one| one["workload"].as_str().expect("a name")).collect();
        assert_eq!(names, ["single", "parallel", "contended", "renewal"]);
        assert!(number(&workloads[0]["count"]) > 0.0, "{store}");
        // On a busy machine nodes that vote may be too slow now and then: that is told, not hidden.
        assert!(list(&store["errors"]).iter().all(|error| number(&error["count"]) > 0.0), "{store}");
        assert_eq!(store["left_locked"], Value::Array(Vec::new()), "{store}");
        assert_eq!(store["left_unknown"], Value::Null);
        for workload in workloads {
            let count = adds_up(workload);
            let rounds = list(&workload["rounds"]);
            assert_eq!(rounds.len() as u64, report["rounds"].as_u64().expect("a number"));
            assert_eq!(rounds.iter().map(|round| number(&round["count"])).sum::<f64>(), count);
            let (rate, seconds) = (number(&workload["per_second"]), number(&workload["seconds"]));
            assert!((rate * seconds - count).abs() < 0.01 * count + 0.01, "{workload}");
        }
        let hand_overs = &workloads[2]["hand_overs"];
        let shares: f64 = list(&hand_overs["shares"]).iter().map(number).sum();
        assert_eq!(shares, number(&workloads[2]["count"]));
        assert!(adds_up(&hand_overs["gap"]) <= shares, "the first of a round was handed over by nobody: {hand_overs}");
        if let Some(fairness) = hand_overs["fairness"].as_f64() {
            assert!((1.0 / clients as f64 - 1e-9..=1.0 + 1e-9).contains(&fairness), "{fairness}");
        }
    }
}

/// Measures a store for a second, and looks at it afterwards.
fn measured(place: &Place, store: &str) -> Value {
    let done = place.fencepost(["--store", store, "bench", "--for", "1s", "--clients", "3", "--json"]).end();
    let report = report(&done.with_code(0));
    is_consistent(&report, 3);
    nothing_is_locked(place, store, &report["stores"][0]["prefix"]);
    report
}

fn nothing_is_locked(place: &Place, store: &str, prefix: &Value) {
    let prefix = prefix.as_str().expect("a prefix");
    assert!(prefix.starts_with("fencepost-bench/") && prefix.len() > 30, "{prefix}");
    for lock in list(&place.json(&["ls", prefix, "--store", store])["locks"]) {
        let empty = Value::Array(Vec::new());
        assert_eq!((&lock["holders"], &lock["waiters"]), (&empty, &empty), "{lock}");
    }
}

#[test]
fn a_file_is_measured_and_nothing_stays_locked() {
    let place = Place::new();
    let store = format!("sqlite:{}", place.path("locks.db").display());
    let report = measured(&place, &store);
    assert_eq!(report["stores"][0]["store"], store.as_str());
    assert_eq!(report["stores"][0]["connections"], 3);
}

#[test]
fn memory_is_measured_through_one_connection_and_that_is_said() {
    let place = Place::new();
    let done = place.fencepost(["--store", "memory:", "bench", "--for", "1s", "--json"]).end().with_code(0);
    let report = report(&done);
    is_consistent(&report, 8);
    assert_eq!(report["stores"][0]["connections"], 1);
    assert!(report["warnings"].to_string().contains("share one connection"), "{}", report["warnings"]);
}

#[test]
fn a_redis_server_is_measured_and_its_password_is_not_shown() {
    let server = Redis::new().with("--requirepass geheim").start();
    let place = Place::new();
    let store = format!("redis://:geheim@{}", server.address());
    let arguments = ["--store", &store, "bench", "--for", "1s", "--clients", "3", "--vs", &store, "--html", "out.html"];
    let done = place.fencepost(arguments).end().with_code(0);
    for text in [&done.stdout, &done.stderr, &place.read("out.html")] {
        assert!(!text.contains("geheim"), "{text}");
    }
    assert!(done.stdout.contains(&format!("redis://…@{}", server.address())), "{}", done.stdout);
    let report = measured(&place, &store);
    assert!(number(&report["stores"][0]["workloads"][3]["count"]) > 0.0, "renewals are measured: {report}");
}

#[test]
fn five_servers_that_vote_are_measured() {
    let servers: Vec<Server<Redis>> = (0..5).map(|_| Redis::new().start()).collect();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let (place, store) = (Place::new(), format!("redlock://{}?answer_within_ms=1000", addresses.join(",")));
    place.fencepost(["--store", &store, "init"]).end().with_code(0);
    measured(&place, &store);
}

#[cfg(feature = "serve")]
#[test]
fn a_service_is_measured() {
    let place = Place::new();
    let serve = ["--store", "memory:", "serve", "--listen", "127.0.0.1:0", "--max-rate", "1000000"];
    let (_service, address) = crate::serve::begun(place.fencepost(serve));
    measured(&place, &format!("fencepost+http://{address}"));
}

#[test]
fn two_stores_are_measured_in_the_same_rounds_and_compared_within_each() {
    let server = Redis::new().start();
    let place = Place::new();
    let (one, other) = (format!("redis://{}", server.address()), "memory:");
    let arguments = ["--store", &one, "bench", "--vs", other, "--for", "2s", "--clients", "3", "--json"];
    let report = report(&place.fencepost(arguments).end().with_code(0));
    is_consistent(&report, 3);
    let names: Vec<&str> =
        list(&report["stores"]).iter().map(|store| store["store"].as_str().expect("a text")).collect();
    assert_eq!(names, [one.as_str(), other]);
    let ratios = list(&report["ratios"]);
    assert!(ratios.iter().any(|ratio| ratio["measure"] == "single_p50"), "{ratios:?}");
    for ratio in ratios {
        let [min, median, max] = ["min", "median", "max"].map(|name| number(&ratio[name]));
        assert!(0.0 < min && min <= median && median <= max, "{ratio}");
        assert!(number(&ratio["rounds"]) <= number(&report["rounds"]), "{ratio}");
    }
    let single = ratios.iter().find(|ratio| ratio["measure"] == "single_p50").expect("seen above");
    assert!(number(&single["median"]) > 1.0, "a server is farther away than memory: {single}");
}

#[test]
fn the_page_is_whole_and_fetches_nothing() {
    let place = Place::new();
    let arguments = ["bench", "--vs", "memory:", "--for", "2s", "--clients", "3", "--html", "out.html"];
    place.fencepost(arguments).end().with_code(0);
    let page = place.read("out.html");
    is_well_formed(&page);
    assert!(page.matches("<svg").count() >= 10, "pictures are missing");
    let names = ["http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"];
    let rest = names.iter().fold(page.clone(), |text, name| text.replace(name, ""));
    for word in ["://", "src=", "href=", "url(", "@import", "<script", "NaN", "inf"] {
        assert!(!rest.contains(word), "{word} is in the page");
    }
    for words in ["default-src 'none'", "percentile, %", "per second", "duration", "memory:", "light dark"] {
        assert!(page.contains(words), "{words} is missing");
    }
    let drafts = std::fs::read_dir(place.dir()).expect("our own folder").flatten();
    let drafts = drafts.filter(|file| file.file_name().to_string_lossy().starts_with(".out.html")).count();
    assert_eq!(drafts, 0, "a draft was left behind");
}

/// Every element is closed where it was opened, and every value is quoted.
fn is_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for (number, piece) in page.split('<').enumerate().skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("tag {number} never ends: {piece}"));
        assert!(!text.contains('>'), "a > of nobody: {piece}");
        assert_eq!(tag.matches('"').count() % 2, 0, "a value is not quoted: {tag}");
        let name = tag.trim_start_matches('/').split(['/', ' ']).next().expect("a name");
        match tag {
            _ if tag.starts_with('!') || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "closed in the wrong place: tag {number}"),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

#[test]
fn people_get_a_table_and_bars_that_fit_a_terminal() {
    let place = Place::new();
    let done = place.fencepost(["--store", "memory:", "bench", "--for", "1s"]).end().with_code(0);
    for words in ["memory:", "8 clients", "ttl 30s", "P99.9", "fairness", "p50", "█", "nothing stays locked", "cores"]
    {
        assert!(done.stdout.contains(words), "{words} is missing:\n{}", done.stdout);
    }
    assert!(done.stdout.lines().all(|line| line.chars().count() <= 80), "{}", done.stdout);
}

#[test]
fn whoever_is_alone_is_measured_alone() {
    let place = Place::new();
    let report = place.json(&["bench", "--for", "1s", "--clients", "1"]);
    let workloads = list(&report["stores"][0]["workloads"]);
    assert_eq!(workloads.iter().map(|one| &one["workload"]).collect::<Vec<_>>(), ["single", "renewal"]);
}

#[test]
fn bad_values_are_refused_before_anything_is_opened() {
    let place = Place::new();
    let cases: [(&[&str], i32, &str); 11] = [
        (&["--for", "0"], 2, "--for"),
        (&["--for", "999ms"], 2, "1s to 1h"),
        (&["--for", "2h"], 2, "1s to 1h"),
        (&["--for", "-1s"], 2, "negative"),
        (&["--clients", "0"], 2, "1 to 256"),
        (&["--clients", "257"], 2, "1 to 256"),
        (&["--clients", "many"], 2, "\"many\""),
        (&["--ttl", "0"], 2, "ttl"),
        (&["--vs", "carrier-pigeon://roof"], 78, "carrier-pigeon"),
        (&["--html", "/no/such/folder/out.html"], 78, "--html"),
        (&["--html", "."], 78, "--html"),
    ];
    for (arguments, code, words) in cases {
        let done = place.fencepost([&["bench"], arguments].concat()).end().with_code(code).saying(words);
        assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("", 1), "{done:?}");
    }
    place.fencepost(["--store", "redis://127.0.0.1:1", "bench"]).end().with_code(69).saying("redis://127.0.0.1:1");
}

/// How many commands a server has run.
fn commands(server: &Server<Redis>) -> u64 {
    let info = server.ask(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.trim().strip_prefix("total_commands_processed:"));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in {info}"))
}

#[test]
fn a_server_that_dies_is_told_by_its_errors_beside_what_was_measured_before() {
    let mut server = Redis::new().start();
    let place = Place::new();
    let store = format!("redis://{}", server.address());
    let bench = place.fencepost(["--store", &store, "bench", "--for", "4s", "--clients", "2", "--json"]).start();
    // More than it takes to connect.
    until("pairs are measured", || commands(&server) > 400);
    server.kill();
    let report = report(&bench.end().with_code(0));
    let store = &report["stores"][0];
    let errors = list(&store["errors"]);
    assert!(errors.iter().any(|error| error["kind"] == "unreachable" && number(&error["count"]) > 0.0), "{store}");
    assert!(number(&store["workloads"][0]["count"]) > 0.0, "{store}");
    assert_ne!(store["left_unknown"], Value::Null, "nobody can have looked: {store}");
    assert!(report["warnings"].to_string().contains("unreachable"), "{}", report["warnings"]);
}

#[test]
fn a_store_of_which_nothing_was_measured_is_an_exit_code() {
    let (mut dying, other) = (Redis::new().start(), Redis::new().start());
    let slow = Proxy::before(other.address());
    slow.requests(Flow::Held);
    let place = Place::new();
    let (one, two) = (format!("redis://{}", dying.address()), format!("redis://{}", slow.address()));
    let arguments = ["--store", &one, "bench", "--vs", &two, "--for", "1s", "--clients", "1", "--json"];
    let bench = place.fencepost(arguments).start();
    // The first is ready when its lock was taken once, and the second is not answered yet.
    until("the first is ready", || dying.keys().iter().any(|key| key.contains("own-0")));
    dying.kill();
    slow.requests(Flow::Pass);
    let report = report(&bench.end().with_code(69));
    let counts =
        |store: usize| list(&report["stores"][store]["workloads"]).iter().map(|one| number(&one["count"])).sum::<f64>();
    assert_eq!(counts(0), 0.0, "{report}");
    assert!(counts(1) > 0.0, "{report}");
    assert_eq!(report["ratios"], Value::Null, "there is nothing to compare");
}

#[test]
fn a_signal_ends_it_early_with_what_was_measured_and_nothing_stays_locked() {
    let server = Redis::new().start();
    let place = Place::new();
    let store = format!("redis://{}", server.address());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let before = commands(&server);
        let arguments = ["--store", &store, "bench", "--for", "1h", "--clients", "2", "--json", "--html", "out.html"];
        let bench = place.fencepost(arguments).start();
        until("pairs are measured", || commands(&server) > before + 400);
        bench.signal(signal);
        let report = report(&bench.end().with_code(128 + signal as i32).saying("ending early"));
        assert_eq!(report["interrupted"], true);
        assert!(number(&report["stores"][0]["workloads"][0]["count"]) > 0.0, "{report}");
        assert_eq!(report["stores"][0]["left_locked"], Value::Array(Vec::new()));
        nothing_is_locked(&place, &store, &report["stores"][0]["prefix"]);
        is_well_formed(&place.read("out.html"));
    }
}
