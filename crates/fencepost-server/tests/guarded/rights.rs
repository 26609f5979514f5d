//! Every route with every credential. A route that is not in the table fails the test.

use std::collections::BTreeSet;
use std::io::Write as _;

use fencepost_server::Settings;
use fencepost_testkit::wait::until;

use super::support::{Files, Request, Service, key};

/// Who may use a route.
#[derive(Clone, Copy, PartialEq, Debug)]
enum For {
    /// Everybody, without a credential.
    All,
    /// Everybody whose credential is known.
    Known,
    /// Who may do this with names that start with `mine/`.
    Verb(&'static str),
}

const ACQUIRE: For = For::Verb("acquire");
const OBSERVE: For = For::Verb("observe");
const ADMIN: For = For::Verb("admin");

const LEASE: &str = r#"{"owner":"00000000000000000000000000000000deadbeef","token":"5"}"#;
const PERMITS: &str =
    r#"{"owner":"00000000000000000000000000000000deadbeef","ttl_ms":1000,"permits":[{"slot":0,"token":"5"}]}"#;
const BATCH: &str = r#"{"owner":"00000000000000000000000000000000deadbeef","ttl_ms":1000,"tokens":{"mine/b":"5"}}"#;

const RESULT: &str = r#"{"owner":"00000000000000000000000000000000deadbeef","token":"5","result":1}"#;
const KEY: &str =
    r#"{"payload_hash":"00000000000000000000000000000000000000000000000000000000deadbeef","ttl_ms":1000}"#;

/// Method, route, who may, and a request that is in order. `{id}` and `{key}` stand for a name that starts with `mine/`.
const ROUTES: &[(&str, &str, For, &str)] = &[
    ("GET", "/v1/locks?prefix=mine/", OBSERVE, ""),
    ("GET", "/v1/locks/{id}", OBSERVE, ""),
    ("POST", "/v1/locks/{id}/try", ACQUIRE, r#"{"ttl_ms":1000}"#),
    ("POST", "/v1/locks/{id}/acquire", ACQUIRE, r#"{"ttl_ms":1000}"#),
    ("POST", "/v1/locks/{id}/renew", ACQUIRE, LEASE),
    ("POST", "/v1/locks/{id}/release", ACQUIRE, LEASE),
    ("POST", "/v1/locks/{id}/force-release", ADMIN, r#"{"reason":"a test"}"#),
    ("POST", "/v1/locks/{id}/ask", ACQUIRE, "{}"),
    ("GET", "/v1/locks/{id}/history", OBSERVE, ""),
    ("GET", "/v1/locks/{id}/tokens/{token}", OBSERVE, ""),
    ("GET", "/v1/locks/{id}/record", OBSERVE, ""),
    ("PUT", "/v1/locks/{id}/record", ACQUIRE, r#"{"token":"5","value":"","keep_ms":1000}"#),
    ("POST", "/v1/locks/{id}/record/seal", ACQUIRE, r#"{"token":"5"}"#),
    ("POST", "/v1/semaphores/{id}/try", ACQUIRE, r#"{"ttl_ms":1000,"permits":2}"#),
    ("POST", "/v1/semaphores/{id}/acquire", ACQUIRE, r#"{"ttl_ms":1000,"permits":2}"#),
    ("POST", "/v1/semaphores/{id}/renew", ACQUIRE, PERMITS),
    ("POST", "/v1/semaphores/{id}/release", ACQUIRE, PERMITS),
    ("POST", "/v1/batches/try", ACQUIRE, r#"{"ttl_ms":1000,"names":["mine/b","mine/c"]}"#),
    ("POST", "/v1/batches/acquire", ACQUIRE, r#"{"ttl_ms":1000,"names":["mine/b","mine/c"]}"#),
    ("POST", "/v1/batches/renew", ACQUIRE, BATCH),
    ("POST", "/v1/batches/release", ACQUIRE, BATCH),
    ("GET", "/v1/elections/{id}", OBSERVE, ""),
    ("POST", "/v1/elections/{id}/campaign", ACQUIRE, r#"{"ttl_ms":1000}"#),
    ("POST", "/v1/elections/{id}/renew", ACQUIRE, LEASE),
    ("POST", "/v1/elections/{id}/resign", ACQUIRE, LEASE),
    ("GET", "/v1/elections/{id}/observe", OBSERVE, ""),
    ("GET", "/v1/windows/{id}", OBSERVE, ""),
    ("POST", "/v1/windows/{id}/start", ACQUIRE, r#"{"every_ms":1000,"ttl_ms":1000}"#),
    ("POST", "/v1/windows/{id}/renew", ACQUIRE, LEASE),
    ("POST", "/v1/windows/{id}/finish", ACQUIRE, LEASE),
    ("POST", "/v1/records/{key}/start", ACQUIRE, KEY),
    ("POST", "/v1/records/{key}/renew", ACQUIRE, LEASE),
    ("POST", "/v1/records/{key}/finish", ACQUIRE, RESULT),
    ("GET", "/v1/deadlocks", OBSERVE, ""),
    ("GET", "/v1/nodes", OBSERVE, ""),
    ("GET", "/v1/events?prefix=mine/", OBSERVE, ""),
    ("GET", "/v1/whoami", For::Known, ""),
    ("GET", "/openapi.json", For::All, ""),
    ("GET", "/healthz", For::All, ""),
    ("GET", "/readyz", For::All, ""),
    ("GET", "/metrics", OBSERVE, ""),
    ("GET", "/", For::All, ""),
    ("GET", "/assets/{file}", For::All, ""),
];

/// All routes, from the source that makes them.
fn made() -> BTreeSet<(String, String)> {
    let source = include_str!("../../src/routes/mod.rs");
    let (mut made, mut count) = (BTreeSet::new(), 0);
    for line in source.lines() {
        let Some((path, handlers)) = line.split_once(".route(\"").and_then(|(_, rest)| rest.split_once('"')) else {
            continue;
        };
        for method in ["get", "post", "put", "delete", "patch", "any"] {
            let starts =
                handlers.matches(&format!(" {method}(")).count() + handlers.matches(&format!(".{method}(")).count();
            for _ in 0..starts {
                made.insert((method.to_uppercase(), path.to_owned()));
                count += 1;
            }
        }
    }
    assert_eq!(count, made.len(), "no route twice");
    made
}

/// The same from the description of the interface.
fn described() -> BTreeSet<(String, String)> {
    let interface: serde_json::Value = serde_json::from_str(&fencepost_server::openapi()).expect("JSON");
    let paths = interface["paths"].as_object().expect("paths");
    let methods = |path: &serde_json::Value| path.as_object().expect("methods").keys().cloned().collect::<Vec<_>>();
    let each = paths
        .iter()
        .flat_map(|(path, of)| methods(of).into_iter().map(move |method| (method.to_uppercase(), path.clone())));
    each.collect()
}

#[test]
fn every_route_is_in_the_table() {
    let table: BTreeSet<_> = ROUTES
        .iter()
        .map(|(method, path, ..)| ((*method).to_owned(), path.split('?').next().unwrap_or_default().to_owned()))
        .collect();
    assert_eq!(made(), table, "a new route needs an entry that says who may use it");
    assert!(described().is_subset(&table));
}

#[test]
fn no_credential_does_more_than_it_may() {
    // The locks of recipes have names of their own.
    let below = |verbs: &[&str], prefix: &str| -> Vec<String> {
        let kinds = ["", "cron/", "once/"];
        verbs.iter().flat_map(|verb| kinds.map(|kind| format!("{verb}:{kind}{prefix}"))).collect()
    };
    let key_of = |who: &str, scopes: &[String]| key(who, &scopes.iter().map(String::as_str).collect::<Vec<_>>());
    let (observer, observe) = key_of("observer", &below(&["observe"], "mine/"));
    let (taker, acquire) = key_of("taker", &below(&["acquire"], "mine/"));
    let (admin_key, admin) = key_of("admin", &below(&["admin"], "mine/"));
    let (other, theirs) = key_of("other", &below(&["acquire", "observe", "admin"], "theirs/"));
    let (bare, nothing) = key("bare", &[]);
    let files = Files::new();
    let auth = files.write("auth.toml", &[observe, acquire, admin, theirs, nothing].concat());
    let service = Service::start(Settings::default().auth_file(auth).expect("a file"));
    // What each may do below `mine/`; `None`: nobody knows them.
    let wrong = format!("fpk_{}", "0".repeat(64));
    let basic = format!("Basic {observer}");
    let twice = format!("{observer}, Bearer {observer}");
    let credentials: &[(&str, Option<String>, Option<&str>)] = &[
        ("none", None, None),
        ("empty", Some("Bearer ".into()), None),
        ("wrong", Some(format!("Bearer {wrong}")), None),
        ("cut", Some(format!("Bearer {}", &observer[..observer.len() - 1])), None),
        ("basic", Some(basic), None),
        ("two in one", Some(format!("Bearer {twice}")), None),
        ("observe", Some(format!("Bearer {observer}")), Some("observe")),
        ("acquire", Some(format!("bearer {taker}")), Some("acquire")),
        ("admin", Some(format!("Bearer {admin_key}")), Some("admin")),
        ("another prefix", Some(format!("Bearer {other}")), Some("")),
        ("no rights", Some(format!("Bearer {bare}")), Some("")),
    ];
    let mut tried = 0;
    for (method, route, may, body) in ROUTES {
        for (who, shown, verb) in credentials {
            let path =
                route.replace("{id}", "{key}").replace("{key}", &format!("mine%2F{tried}")).replace("{token}", "5");
            let path = path.replace("{file}", "main.js");
            let mut request = Request::new(method, &path);
            if let Some(shown) = shown {
                request = request.header("authorization", shown);
            }
            if !body.is_empty() {
                request = request.body(body);
            }
            let mut stream = service.connect();
            std::io::Write::write_all(&mut stream, &request.bytes()).expect("sent");
            let status = status(&mut stream);
            let of_no_name = *who == "another prefix" && matches!(*route, "/v1/nodes" | "/v1/deadlocks" | "/metrics");
            let expected = match (may, verb) {
                (For::All, _) => None,
                (For::Verb(_) | For::Known, None) => Some(401),
                (For::Known, Some(_)) => None,
                // What belongs to no name is for everybody with that right somewhere.
                (For::Verb(_), Some(_)) if of_no_name => None,
                (For::Verb(needed), Some(verb)) => (needed != verb).then_some(403),
            };
            match expected {
                Some(expected) => assert_eq!(status, expected, "{who}: {method} {route}"),
                None => assert!(![401, 403, 404, 405].contains(&status), "{who}: {method} {route} said {status}"),
            }
            tried += 1;
        }
    }
    assert_eq!(tried, ROUTES.len() * credentials.len());
}

/// The status alone: streams have no end.
fn status(stream: &mut impl std::io::Read) -> u16 {
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer");
    String::from_utf8_lossy(&start[9..]).parse().expect("a status")
}

#[test]
fn the_right_to_a_recipe_is_that_to_its_lock() {
    let (mine, of_mine) = key("mine", &["acquire:mine/"]);
    let (jobs, of_jobs) = key("jobs", &["acquire:cron/mine/"]);
    let files = Files::new();
    let auth = files.write("auth.toml", &(of_mine + &of_jobs));
    let service = Service::start(Settings::default().auth_file(auth).expect("a file"));
    let start = |key: &str| service.post("/v1/windows/mine%2Fx/start", Some(key), r#"{"window":"w"}"#).status;
    assert_eq!((start(&mine), start(&jobs)), (403, 200));
    assert_eq!(service.post("/v1/records/mine%2Fx/start", Some(&jobs), KEY).status, 403);
}

#[test]
fn of_a_deadlock_each_is_shown_what_it_may_see() {
    let files = Files::new();
    let (all, of_all) = key("all", &["acquire:*", "observe:*"]);
    let (some, of_some) = key("some", &["acquire:*", "observe:open/"]);
    let auth = files.write("auth.toml", &(of_all + &of_some));
    let service = Service::start(Settings::default().auth_file(auth).expect("a file"));
    let asks = |path: &str, key: &str, actor: char, more: &str| {
        let actor: String = [actor; 16].iter().collect();
        Request::new("POST", path).key(Some(key)).body(&format!(r#"{{"actor":"{actor}"{more}}}"#))
    };
    assert_eq!(asks("/v1/locks/secret%2F1/try", &all, 'a', "").send(&service).status, 200);
    assert_eq!(asks("/v1/locks/open%2F1/try", &some, 'b', "").send(&service).status, 200);
    let mut waits = service.connect();
    let first = asks("/v1/locks/open%2F1/acquire", &all, 'a', r#","wait_ms":60000"#);
    waits.write_all(&first.bytes()).expect("sent");
    let in_line = || service.get("/v1/locks/open%2F1", Some(&all)).json()["waiters"].as_array().map(Vec::len);
    until("it is in line", || in_line() == Some(1));
    let closes = asks("/v1/locks/secret%2F1/acquire", &some, 'b', r#","wait_ms":60000,"fail_on_deadlock":true"#);
    let refused = closes.send(&service);
    assert_eq!((refused.status, refused.code()), (409, "deadlock".into()));
    assert!(!refused.body.contains("secret"), "{}", refused.body);
    assert_eq!(refused.json()["cycle"][0]["name"], "open/1", "{}", refused.body);
}

#[test]
fn absent_and_not_yours_are_one_answer() {
    let (mine, of_mine) = key("mine", &["acquire:mine/", "observe:mine/"]);
    let (theirs, of_theirs) = key("theirs", &["acquire:theirs/"]);
    let files = Files::new();
    let auth = files.write("auth.toml", &(of_mine + &of_theirs));
    let service = Service::start(Settings::default().auth_file(auth).expect("a file"));
    let post = |path: &str, key: &str, body: &str| service.post(path, Some(key), body);
    assert_eq!(post("/v1/locks/theirs%2Fx/try", &theirs, "{}").status, 200);
    assert_eq!(post("/v1/locks/mine%2Fx/try", &mine, "{}").status, 200);
    // Outside of one's own names nothing tells whether a lock is there.
    let (there, absent) =
        (post("/v1/locks/theirs%2Fx/try", &mine, "{}"), post("/v1/locks/theirs%2Fy/try", &mine, "{}"));
    assert_eq!((there.status, &there.body), (403, &absent.body));
    let routes = [service.get("/v1/locks/theirs%2Fx", Some(&mine)), service.get("/v1/locks/theirs%2Fy", Some(&mine))];
    assert_eq!((routes[0].status, &routes[0].body), (403, &routes[1].body));
    // Nor does a lease that is not one's own.
    let (held, free) =
        (post("/v1/locks/mine%2Fx/release", &mine, LEASE), post("/v1/locks/mine%2Fy/release", &mine, LEASE));
    assert_eq!((held.status, held.code(), &held.body), (409, "not_held".into(), &free.body));
    // A listing of more than one's own names is refused as a whole.
    for prefix in ["", "mine", "theirs/"] {
        assert_eq!(service.get(&format!("/v1/locks?prefix={prefix}"), Some(&mine)).status, 403, "{prefix:?}");
    }
    let listed = service.get("/v1/locks?prefix=mine/", Some(&mine));
    assert!(listed.body.contains("mine/x") && !listed.body.contains("theirs"), "{listed:?}");
}

#[test]
fn whoever_is_not_known_learns_nothing_but_how_to_say_who_they_are() {
    let files = Files::new();
    let auth = files.write("auth.toml", &key("p", &["observe:*"]).1);
    let service = Service::start(Settings::default().auth_file(auth).expect("a file"));
    for path in ["/v1/locks", "/v1/no/such/route", "/x", "/metrics", "/v2", "/v1/locks/%ff"] {
        let answer = service.get(path, None);
        assert_eq!((answer.status, answer.code()), (401, "unauthorized".into()), "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("bearer"), "{answer:?}");
    }
}
