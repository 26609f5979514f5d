//! `fencepost serve` beyond loopback, under a service manager, and what it never says.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use fencepost_testkit::server::find_in_setup;
use fencepost_testkit::wait::until;
use nix::sys::signal::Signal;
use serde_json::Value;

use super::queries::three_that_vote;
use super::support::{Done, Invocation, PROGRAM, Place, Running};

const PATIENCE: Duration = Duration::from_secs(60);

/// A service on a free port, which it tells.
struct Served {
    running: Running,
    port: u16,
}

fn serve(invocation: Invocation) -> Served {
    let mut running = invocation.start();
    let said = running.line();
    let port = said.rsplit(':').next().and_then(|port| port.parse().ok());
    Served { running, port: port.unwrap_or_else(|| panic!("no port: {said:?}")) }
}

impl Served {
    /// The whole answer.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
        );
        write!(stream, "{head}{headers}content-length: {length}\r\n\r\n{body}").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn end(self) -> Done {
        self.running.signal(Signal::SIGTERM);
        self.running.end()
    }
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {answer}"))
}

#[test]
fn off_loopback_it_does_not_start_without_credentials_and_says_the_cure() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = place.fencepost(["serve", "--listen", address]).end().with_code(78);
        refused.saying("fencepost key").saying("--auth-file").saying("127.0.0.1");
    }
    place.write("auth.toml", "nothing = 'useful'");
    let bad = |file: &str| place.fencepost(["serve", "--listen", "0.0.0.0:0", "--auth-file", file]).end().with_code(78);
    bad("auth.toml").saying("auth.toml").saying("line 1");
    bad("missing.toml").saying("missing.toml");
    assert!(!place.path("locks.db").exists(), "nothing was opened");
    place.fencepost(["serve", "--tls-cert", "x.pem"]).end().with_code(2).saying("--tls-key");
}

#[test]
fn a_key_is_made_shown_once_and_opens_the_door() {
    let place = Place::new();
    let made = place.json(&["key", "orders", "--allow", "acquire:orders/", "--allow", "observe:orders/"]);
    let (key, entry) = (made["key"].as_str().expect("a key"), made["entry"].as_str().expect("an entry"));
    assert!(!entry.contains(key) && entry.contains("\"acquire:orders/\""), "{entry}");
    for bad in ["acquire", "grab:x", "acquire:"] {
        place.fencepost(["key", "orders", "--allow", bad]).end().with_code(2).saying(bad);
    }
    place.fencepost(["key", "orders"]).end().with_code(2).saying("--allow");
    let people = place.fencepost(["key", "orders", "--allow", "observe:*"]).end().with_code(0);
    assert!(people.stdout.contains("fpk_") && people.stdout.contains("[[key]]"), "{people:?}");
    place.write("auth.toml", entry);
    let served = serve(place.fencepost(["serve", "--listen", "0.0.0.0:0", "--auth-file", "auth.toml"]));
    let shown = format!("authorization: Bearer {key}\r\n");
    assert!(served.ask("POST", "/v1/locks/orders%2F1/try", &shown, "{}").starts_with("HTTP/1.1 200"));
    assert!(served.ask("POST", "/v1/locks/other/try", &shown, "{}").starts_with("HTTP/1.1 403"));
    assert!(served.ask("GET", "/v1/locks/orders%2F1", "", "").starts_with("HTTP/1.1 401"));
    served.end().with_code(0).saying("in the clear");
}

#[test]
fn a_service_manager_hears_of_start_life_and_end() {
    let place = Place::new();
    let socket = UnixDatagram::bind(place.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let hear = || {
        let mut said = [0; 256];
        let length = socket.recv(&mut said).expect("a word");
        String::from_utf8_lossy(&said[..length]).into_owned()
    };
    let path = place.path("notify").display().to_string();
    let invocation = place.fencepost(["serve", "--listen", "127.0.0.1:0"]);
    let served = serve(invocation.set("NOTIFY_SOCKET", &path).set("WATCHDOG_USEC", "200000"));
    assert!(hear().starts_with("READY=1"));
    assert!(served.ask("GET", "/readyz", "", "").starts_with("HTTP/1.1 200"), "ready when it says so");
    assert_eq!((hear(), hear()), ("WATCHDOG=1".into(), "WATCHDOG=1".into()));
    let ended = served.end();
    while !hear().starts_with("STOPPING=1") {}
    ended.with_code(0);
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let unit = include_str!("../../../../packaging/systemd/fencepost.service");
    let place = Place::new();
    let flags = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/fencepost ")).expect("what it runs");
    assert_eq!(crate::package::is_taken(&place, &unit.replace("/usr/bin/fencepost", PROGRAM)), Ok(()));
    // One with a word that systemd does not know is not.
    let wrong = unit.replace("[Service]", "[Service]\nNoSuchSetting=1").replace("/usr/bin/fencepost", PROGRAM);
    let said = crate::package::is_taken(&place, &wrong).expect_err("it is wrong");
    assert!(said.contains("NoSuchSetting"), "{said}");
    // And its flags are those of the command.
    let flags = flags.replace("${LOGS_DIRECTORY}", ".").replace("127.0.0.1:7117", "127.0.0.1:0");
    let served = serve(place.fencepost(flags.split(' ')));
    assert!(served.ask("POST", "/v1/locks/x/try", "", "{}").starts_with("HTTP/1.1 200"));
    served.end().with_code(0);
    place.fencepost(["audit", "check", "audit.jsonl"]).end().with_code(0);
}

#[test]
fn the_image_starts_what_there_is_to_start() {
    let file = include_str!("../../../../packaging/container/Containerfile");
    let command = file.lines().find_map(|line| line.strip_prefix("CMD ")).expect("what it runs");
    let command: Vec<String> = serde_json::from_str(command).expect("a list");
    let place = Place::new();
    let here = |word: &String| word.replace("/etc/fencepost/", "").replace(":7117", ":0");
    let command: Vec<String> = command.iter().map(here).collect();
    place.fencepost(&command).end().with_code(78).saying("auth.toml");
    place.write("auth.toml", place.json(&["key", "p", "--allow", "observe:*"])["entry"].as_str().expect("an entry"));
    let served = serve(place.fencepost(&command));
    assert!(served.ask("GET", "/healthz", "", "").starts_with("HTTP/1.1 200"));
    served.end().with_code(0);
}

#[test]
fn the_image_is_built_in_stages_from_named_versions_and_does_not_run_as_root() {
    let file = include_str!("../../../../packaging/container/Containerfile");
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let told = |word: &str| -> Vec<&str> { lines.iter().filter_map(|line| line.strip_prefix(word)).collect() };
    let stages = told("FROM ");
    assert!(stages.len() == 2 && stages[0].ends_with(" AS build"), "{stages:?}");
    for stage in stages {
        let image = stage.split(' ').next().expect("an image");
        let (_, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{image} has no tag"));
        assert!(tag != "latest" && !tag.contains('/'), "{image} may be another tomorrow");
    }
    // What comes behind the last FROM is the image.
    let image = lines.iter().rposition(|line| line.starts_with("FROM ")).map(|from| &lines[from..]).expect("a stage");
    let user = image.iter().rev().find_map(|line| line.strip_prefix("USER ")).expect("a user");
    assert!(!["root", "0"].contains(&user.split(':').next().unwrap_or_default()), "{user}");
    assert!(
        image.iter().all(|line| !line.starts_with("RUN ") && !line.starts_with("ADD ")),
        "it only copies: {image:?}"
    );
    assert!(
        image.iter().filter(|line| line.starts_with("COPY ")).all(|line| line.contains("--from=build ")),
        "{image:?}"
    );
    assert!(image.iter().any(|line| line.starts_with("ENTRYPOINT [")), "signals reach the service, not a shell");
    assert!(told("RUN ").iter().any(|run| run.contains("--locked")), "the versions are those of the lock file");
    assert!(!file.contains("ENV FENCEPOST_STORE") && !file.contains("ARG "), "no secret is built in");
}

#[test]
fn a_linter_finds_nothing_in_the_container_file() {
    let linter = find_in_setup("hadolint/bin/hadolint");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/container/Containerfile");
    let linted = std::process::Command::new(&linter).args(["--no-color", "--failure-threshold", "info", file]).output();
    let linted = linted.expect("it runs");
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
    // It would tell.
    let place = Place::new();
    place.write("Containerfile", "FROM debian\nRUN cd /tmp\n");
    let bad = std::process::Command::new(linter).arg(place.path("Containerfile")).output().expect("it runs");
    assert!(!bad.status.success());
}

#[test]
fn an_audit_log_goes_on_in_a_new_file_when_it_is_moved_away() {
    let place = Place::new();
    let served = serve(place.fencepost(["serve", "--listen", "127.0.0.1:0", "--audit-log", "audit.jsonl"]));
    let take_and_give_back = || {
        let lease = body(&served.ask("POST", "/v1/locks/x/try", "", "{}"));
        assert!(served.ask("POST", "/v1/locks/x/release", "", &lease.to_string()).starts_with("HTTP/1.1 200"));
    };
    take_and_give_back();
    fs::rename(place.path("audit.jsonl"), place.path("audit.jsonl.1")).expect("moved");
    take_and_give_back();
    until("a new file", || place.path("audit.jsonl").exists());
    take_and_give_back();
    let counted = "{what=\"audit_log\",outcome=\"read\"} 1";
    until("it is counted", || served.ask("GET", "/metrics", "", "").contains(counted));
    served.end().with_code(0);
    let whole = place.json(&["audit", "check", "audit.jsonl.1", "audit.jsonl"]);
    assert_eq!(
        (&whole["entries"], &whole["grants"], &whole["findings"]),
        (&8.into(), &3.into(), &serde_json::json!([]))
    );
    let piece = place.fencepost(["audit", "check", "audit.jsonl"]).end().with_code(1);
    assert!(piece.stdout.contains("audit.jsonl: line 1: it goes on behind another file"), "{piece:?}");
    let head = place.json(&["audit", "check", "audit.jsonl.1"])["head"].as_str().expect("a head").to_owned();
    place.fencepost(["audit", "check", "audit.jsonl", "--after", &head]).end().with_code(0);
    place.fencepost(["audit", "check", "audit.jsonl", "audit.jsonl.1"]).end().with_code(1);
    place.fencepost(["audit", "check", "audit.jsonl.1", "missing.jsonl"]).end().with_code(2).saying("missing.jsonl");
}

#[test]
fn a_collector_that_cannot_be_spoken_to_is_named() {
    let place = Place::new();
    let refused =
        place.fencepost(["serve", "--listen", "127.0.0.1:0", "--otlp", "https://far:4318"]).end().with_code(78);
    let cure = if cfg!(feature = "otel") { "http://HOST:4318" } else { "--features otel" };
    refused.saying("--otlp").saying(cure);
    place.fencepost(["serve", "--trace-names"]).end().with_code(2).saying("--otlp");
}

#[test]
fn an_audit_log_is_checked_and_a_forged_one_is_found() {
    let place = Place::new();
    let served = serve(place.fencepost(["serve", "--listen", "127.0.0.1:0", "--audit-log", "audit.jsonl"]));
    for _ in 0..3 {
        let lease = body(&served.ask("POST", "/v1/locks/x/try", "", "{}"));
        assert!(served.ask("POST", "/v1/locks/x/release", "", &lease.to_string()).starts_with("HTTP/1.1 200"));
    }
    let second = place.fencepost(["serve", "--listen", "127.0.0.1:0", "--audit-log", "audit.jsonl"]);
    second.end().with_code(78).saying("another process");
    served.end().with_code(0);
    let good = place.json(&["audit", "check", "audit.jsonl"]);
    assert_eq!((&good["entries"], &good["grants"], &good["findings"]), (&7.into(), &3.into(), &serde_json::json!([])));
    let head = good["head"].as_str().expect("a head");
    place.fencepost(["audit", "check", "audit.jsonl", "--head", head]).end().with_code(0);
    let log = place.read("audit.jsonl");
    let cut: String = log.lines().take(5).map(|line| format!("{line}\n")).collect();
    place.write("cut.jsonl", &cut);
    place.fencepost(["audit", "check", "cut.jsonl"]).end().with_code(0);
    place.fencepost(["audit", "check", "cut.jsonl", "--head", head]).end().with_code(1);
    place.write("forged.jsonl", &log.replacen("anyone", "nobody", 1));
    let found = place.fencepost(["audit", "check", "forged.jsonl"]).end().with_code(1);
    assert!(found.stdout.contains("line 2"), "{found:?}");
    place.fencepost(["audit", "check", "missing.jsonl"]).end().with_code(2).saying("missing.jsonl");
}

#[test]
fn a_release_by_force_through_the_service_names_the_nodes_that_did_not_confirm_it() {
    let place = Place::new();
    let (servers, store) = three_that_vote(&place);
    let served = serve(place.fencepost(["--store", &store, "serve", "--listen", "127.0.0.1:0"]));
    let force = || body(&served.ask("POST", "/v1/locks/a/force-release", "", r#"{"reason":"a test"}"#));
    assert_eq!(force()["unreached"], Value::Null, "all have confirmed it");
    servers[2].pause();
    let data = force();
    assert_eq!(data["unreached"].as_array().map(Vec::len), Some(1), "{data}");
    assert_eq!(data["unreached"][0]["node"], servers[2].address(), "{data}");
    served.end();
}

#[test]
fn secrets_appear_in_nothing_that_comes_out() {
    let place = Place::new();
    let made = place.json(&["key", "canary", "--allow", "acquire:*", "--allow", "observe:*"]);
    let key = made["key"].as_str().expect("a key").to_owned();
    place.write("auth.toml", made["entry"].as_str().expect("an entry"));
    let flags = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--auth-file",
        "auth.toml",
        "--audit-log",
        "audit.jsonl",
        "--log",
        "json",
        "-v",
    ];
    let served = serve(place.fencepost(flags));
    let (wrong, owner, idempotent) =
        ("fpk_canarywrong", "0123456789abcdef0123456789abcdefca0a2e1f", "canary-idempotency");
    let shown = format!("authorization: Bearer {key}\r\n");
    let mut out = String::new();
    let lease = format!("{{\"owner\":\"{owner}\"}}");
    // Only the grant itself carries its owner.
    assert!(served.ask("POST", "/v1/locks/x/try", &shown, &lease).contains(owner));
    let once = body(&served.ask("POST", "/v1/locks/y/try", &format!("{shown}idempotency-key: {idempotent}\r\n"), "{}"));
    let derived = once["owner"].as_str().expect("an owner").to_owned();
    for (method, path, headers, body) in [
        ("POST", "/v1/locks/x/try", shown.as_str(), "{}"),
        ("POST", "/v1/locks/x/try", &format!("authorization: Bearer {wrong}\r\n"), "{}"),
        ("POST", "/v1/locks/x/try", &shown, &format!("{{\"owner\":\"{owner}x\"}}")),
        ("POST", "/v1/locks/x/try", &shown, &format!("{{\"owner\":\"{owner}\"")),
        ("POST", "/v1/locks/x/try", &shown, &format!("[\"{owner}\"]")),
        (
            "POST",
            "/v1/locks/y/try",
            &format!("{shown}idempotency-key: {idempotent}\r\nidempotency-key: {idempotent}\r\n"),
            "{}",
        ),
        ("POST", "/v1/locks/x/renew", &shown, &lease),
        ("POST", "/v1/locks/x/renew", &shown, &format!("{{\"owner\":\"{owner}\",\"token\":\"{owner}\"}}")),
        ("POST", "/v1/locks/x/renew", &shown, &format!("{{\"owner\":[\"{owner}\"]}}")),
        ("GET", "/v1/locks/x", &shown, ""),
        ("GET", "/v1/locks", &shown, ""),
        ("GET", "/v1/elections/x", &shown, ""),
        ("GET", "/v1/deadlocks", &shown, ""),
        ("GET", "/v1/nodes", &shown, ""),
        ("GET", "/metrics", &shown, ""),
        ("GET", "/openapi.json", "", ""),
        ("GET", "/readyz", "", ""),
        ("POST", "/v1/locks/x/force-release", &shown, "{}"),
        ("POST", "/v1/locks/x/ask", &shown, "{}"),
        ("POST", "/v1/locks/x/release", &shown, &lease),
        ("POST", "/v1/locks/x/release", &shown, &lease),
    ] {
        let answer = served.ask(method, path, headers, body);
        // What somebody sent as a token comes back to them as a bad token.
        out.push_str(if body.contains("\"token\"") { "" } else { &answer });
        out.push('\n');
    }
    let ended = served.end().with_code(0);
    assert!(ended.stderr.contains("\"level\":\"DEBUG\""), "logs are JSON: {ended:?}");
    out = [out, ended.stdout, ended.stderr, place.read("audit.jsonl")].concat();
    // A store whose URL has a password, and files that hold secrets in the wrong place.
    let password = "canary-password";
    for scheme in ["redis", "redlock", "redis+sentinel", "redis+cluster", "etcd", "zk", "postgres", "mysql"] {
        let place_of = if scheme == "redis+sentinel" { "127.0.0.1:1/name" } else { "127.0.0.1:1/1" };
        let store = format!("{scheme}://user:{password}@{place_of}");
        let failed = place.fencepost(["serve", "--listen", "127.0.0.1:0", "-v"]).set("FENCEPOST_STORE", &store).end();
        assert_ne!(failed.code, 0, "{failed:?}");
        out = [out, failed.stdout, failed.stderr].concat();
    }
    // One that fails only after it was reached, and a client whose key is not known.
    let mut redis = fencepost_testkit::redis::Redis::new().with(&format!("--requirepass {password}")).start();
    let store = format!("redis://:{password}@{}", redis.address());
    let served = serve(place.fencepost(["serve", "--listen", "127.0.0.1:0", "-v"]).set("FENCEPOST_STORE", &store));
    redis.kill();
    let away = served.ask("POST", "/v1/locks/x/try", "", "{}");
    assert!(away.contains(" 503 "), "{away}");
    let ended = served.end().with_code(0);
    out = [out, away, ended.stdout, ended.stderr].concat();
    let served = serve(place.fencepost(flags));
    let through = format!("fencepost+http://127.0.0.1:{}", served.port);
    place.write("client.key", wrong);
    let refused = place.fencepost(["-v", "--store", &through, "run", "-n", "x", "--", "true"]);
    let refused = refused.set("FENCEPOST_API_KEY_FILE", "client.key").end().with_code(77);
    let ended = served.end().with_code(0);
    out = [out, refused.stdout, refused.stderr, ended.stdout, ended.stderr].concat();
    place.write("broken.toml", &format!("[[key]]\nprincipal = 'p'\nsha256 = '{key}'\nallow = '{key}'\n"));
    place.write("key.pem", &format!("-----BEGIN PRIVATE KEY-----\n{password}\n-----END PRIVATE KEY-----\n"));
    for flags in [&["--auth-file", "broken.toml"][..], &["--tls-cert", "key.pem", "--tls-key", "key.pem"]] {
        let failed = place.fencepost([&["serve", "--listen", "127.0.0.1:0"], flags].concat()).end().with_code(78);
        out = [out, failed.stdout, failed.stderr].concat();
    }
    for secret in [key.as_str(), &key[4..], wrong, owner, idempotent, derived.as_str(), password] {
        let line = out.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} came out");
    }
    assert!(out.len() > 20_000, "there was something to look through: {}", out.len());
    fs::remove_file(place.path("audit.jsonl")).expect("it is there");
}
