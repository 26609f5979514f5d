//! Where settings come from.

use serde_json::Value;

use crate::support::Place;

fn source(place: &Place, key: &str, flags: &[&str], store: Option<&str>) -> (String, String) {
    let call = place.fencepost([&["config", "--json"], flags].concat());
    let call = match store {
        Some(store) => call.set("FENCEPOST_STORE", store),
        None => call.unset("FENCEPOST_STORE"),
    };
    let answer: Value = serde_json::from_str(&call.end().with_code(0).stdout).expect("json");
    let row = answer["settings"].as_array().expect("rows").iter().find(|row| row["key"] == key).expect("a row");
    (row["value"].as_str().unwrap_or_default().into(), row["source"].as_str().expect("a source").into())
}

#[test]
fn the_nearer_setting_wins() {
    let place = Place::new();
    let pair = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(source(&place, "store", &[], None), pair("sqlite:", "default"));
    place.write("config/fencepost/fencepost.toml", "store = 'sqlite:user.db'\nlabel = 'user'\nttl = '1m'");
    let user = place.path("config/fencepost/fencepost.toml").display().to_string();
    assert_eq!(source(&place, "store", &[], None), pair("sqlite:user.db", &user));
    place.write("fencepost.toml", "store = 'sqlite:project.db'");
    assert_eq!(source(&place, "store", &[], None), pair("sqlite:project.db", "fencepost.toml"));
    assert_eq!(source(&place, "label", &[], None), pair("user", &user));
    assert_eq!(source(&place, "ttl", &[], None), pair("1m", &user));
    let environment = Some("sqlite:environment.db");
    assert_eq!(source(&place, "store", &[], environment), pair("sqlite:environment.db", "FENCEPOST_STORE"));
    assert_eq!(source(&place, "records", &[], environment), pair("", "default"));
    place.write("fencepost.toml", "records = 'postgres://me:geheim@h/d'");
    assert_eq!(source(&place, "records", &[], None), pair("postgres://…@h/d", "fencepost.toml"));
    let flags = ["--store", "sqlite:flag.db"];
    assert_eq!(source(&place, "store", &flags, environment), pair("sqlite:flag.db", "--store"));
}

#[test]
fn a_named_file_is_read_instead_of_the_others() {
    let place = Place::new();
    place.write("fencepost.toml", "label = 'project'");
    place.write("named.toml", "store = 'sqlite:named.db'");
    assert_eq!(source(&place, "store", &["--config", "named.toml"], None).0, "sqlite:named.db");
    assert_eq!(source(&place, "label", &["--config", "named.toml"], None).1, "default");
    place.fencepost(["config", "--config", "missing.toml"]).end().with_code(78).saying("missing.toml");
    place.fencepost(["config"]).set("FENCEPOST_CONFIG", "missing.toml").end().with_code(78);
}

#[test]
fn label_and_ttl_of_the_environment_are_used() {
    let place = Place::new();
    let command = ["sh", "-c", "\"$0\" show a --json", crate::support::PROGRAM];
    let done = place.run(&["a"], &command).set("FENCEPOST_LABEL", "me").set("FENCEPOST_TTL", "7s").end().with_code(0);
    let state: Value = serde_json::from_str(&done.stdout).expect("json");
    assert_eq!(state["holders"][0]["label"], "me");
    assert!(state["holders"][0]["expires_in_ms"].as_u64().is_some_and(|left| left <= 7_000));
}

#[test]
fn passwords_are_not_shown() {
    let place = Place::new();
    let done = place.fencepost(["config", "--store", "redis://me:secret@host/0"]).end().with_code(0);
    assert!(!done.stdout.contains("secret") && done.stdout.contains("host/0"));
}

#[test]
fn a_bad_file_is_refused_with_file_line_and_key() {
    let place = Place::new();
    for (text, line, key) in
        [("stroe = 'a'", ":1", "stroe"), ("\nttl = 'soon'", ":2", "ttl"), ("store = [", ":1", "fencepost.toml")]
    {
        place.write("fencepost.toml", text);
        let done = place.run(&["a"], &["touch", "ran"]).end().with_code(78).saying("fencepost.toml");
        assert_eq!(done.saying(line).saying(key).stderr.lines().count(), 1);
    }
    place.write("fencepost.toml", "ttl = '87600h'");
    place.run(&["a"], &["touch", "ran"]).end().with_code(78).saying("fencepost.toml").saying("ttl");
    assert!(!place.path("ran").exists());
}
