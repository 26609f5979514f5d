//! On loopback nobody is asked who they are: then it must be a program of this machine, and no web page.

use fencepost_server::Settings;

use super::support::{Files, Request, Service, key};

#[test]
fn a_page_of_another_site_cannot_drive_a_service_without_credentials() {
    let service = Service::start(Settings::default());
    let port = service.address.port();
    let take = || Request::new("POST", "/v1/locks/x/try").body("{}");
    for host in
        ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1.evil.example".into(), String::new()]
    {
        let answer = take().host(&host).send(&service);
        assert_eq!((answer.status, answer.code()), (403, "denied".into()), "{host:?}");
        assert_eq!(Request::new("GET", "/healthz").host(&host).send(&service).status, 200, "probes name any host");
    }
    for origin in ["http://evil.example", "null", "http://localhost:1"] {
        assert_eq!(take().header("origin", origin).send(&service).status, 403, "{origin}");
    }
    assert_eq!(take().header("sec-fetch-site", "cross-site").send(&service).status, 403);
    // What the dashboard of the service itself sends, and what programs send.
    let ours = format!("localhost:{port}");
    let answer = take().host(&ours).header("origin", &format!("http://{ours}")).header("sec-fetch-site", "same-origin");
    assert_eq!(answer.send(&service).status, 200);
    assert_eq!(service.post("/v1/locks/y/try", None, "{}").status, 200);
    // A form cannot say that it sends JSON.
    let form = Request::new("POST", "/v1/locks/z/try").header("content-type", "text/plain");
    let mut bytes = form.bytes();
    bytes.extend(b"{}");
    let text = String::from_utf8(bytes).expect("text").replace("content-length: 0", "content-length: 2");
    let mut stream = service.connect();
    std::io::Write::write_all(&mut stream, text.as_bytes()).expect("sent");
    assert_eq!(super::support::Answer::read(&mut stream).status, 415);
}

#[test]
fn with_credentials_any_host_name_is_ours_but_other_sites_are_not() {
    let files = Files::new();
    let (secret, entry) = key("p", &["acquire:*"]);
    let service = Service::start(Settings::default().auth_file(files.write("auth.toml", &entry)).expect("a file"));
    let take = || Request::new("POST", "/v1/locks/x/try").key(Some(&secret)).host("locks.internal").body("{}");
    assert_eq!(take().send(&service).status, 200);
    assert_eq!(take().header("origin", "http://evil.example").send(&service).status, 403);
}
