//! The page that anybody may have: with what it is sent, and what it tells.

use fencepost_server::Settings;

use super::support::{Files, Request, Service, key};

#[test]
fn the_page_is_public_and_nothing_but_its_own_files_runs_in_it() {
    let service = Service::start(Settings::default());
    let page = service.get("/", None);
    assert_eq!(page.status, 200);
    let mut files = vec!["/".to_owned()];
    let mut parts = page.body.split(['"', '\'']).filter(|part| part.starts_with("/assets/")).map(str::to_owned);
    files.extend(parts.by_ref());
    assert!(files.len() > 3, "{files:?}");
    for path in &files {
        let answer = service.get(path, None);
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        let tag = answer.header("etag").expect("a tag").to_owned();
        let again = Request::new("GET", path).header("if-none-match", &format!("\"other\", {tag}")).send(&service);
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
        let other = Request::new("GET", path).header("if-none-match", "\"other\"").send(&service);
        assert_eq!(other.status, 200, "{path}");
    }
    assert_eq!(service.get("/assets/none.js", None).status, 404);
    assert_eq!(service.get("/assets/..%2Fmain.js", None).status, 404);
}

#[test]
fn the_page_says_whether_it_needs_a_key_and_a_key_says_what_it_may() {
    let open = Service::start(Settings::default());
    assert!(open.get("/", None).body.contains("data-asks-who=\"no\""));
    let anyone: serde_json::Value = serde_json::from_str(&open.get("/v1/whoami", None).body).expect("JSON");
    assert_eq!(anyone["allow"], serde_json::json!(["acquire:*", "observe:*", "admin:*"]));

    let (shown, entry) = key("p", &["observe:mine/", "admin:mine/"]);
    let files = Files::new();
    let auth = files.write("auth.toml", &entry);
    let closed = Service::start(Settings::default().auth_file(auth).expect("a file"));
    assert!(closed.get("/", None).body.contains("data-asks-who=\"yes\""));
    let known: serde_json::Value = serde_json::from_str(&closed.get("/v1/whoami", Some(&shown)).body).expect("JSON");
    assert_eq!((&known["principal"], &known["asks_who"]), (&"p".into(), &true.into()));
    assert_eq!(known["allow"], serde_json::json!(["observe:mine/", "admin:mine/"]));
}
