//! Credentials change while the service runs.

use fencepost_server::Settings;
use fencepost_testkit::wait::until;

use super::support::{Files, Service, key};

#[test]
fn keys_come_and_go_and_a_broken_file_changes_nothing() {
    let files = Files::new();
    let (old, of_old) = key("orders", &["observe:*"]);
    let (new, of_new) = key("orders", &["observe:*"]);
    let auth = files.write("auth.toml", &of_old);
    let settings = Settings::default().look_every(std::time::Duration::from_millis(5));
    let service = Service::start(settings.auth_file(auth).expect("a file"));
    let status = |key: &str| service.get("/v1/locks/x", Some(key)).status;
    assert_eq!((status(&old), status(&new)), (200, 401));
    files.write("auth.toml", &format!("{of_old}\n{of_new}"));
    until("the new key is good", || status(&new) == 200);
    assert_eq!(status(&old), 200, "both are good while clients move");
    // A file with a mistake is seen, and changes nothing: neither what it adds nor what it leaves out.
    let (third, of_third) = key("orders", &["observe:*"]);
    files.write("auth.toml", &format!("{of_third}\n[[key]\n"));
    let refused = "fencepost_reloads_total{what=\"credentials\",outcome=\"refused\"} 1";
    until("the mistake is seen", || service.get("/metrics", Some(&new)).body.contains(refused));
    assert_eq!((status(&old), status(&new), status(&third)), (200, 200, 401));
    files.write("auth.toml", &of_new);
    until("the old key is out", || status(&old) == 401);
    assert_eq!(status(&new), 200);
}

#[test]
fn a_service_does_not_start_on_credentials_that_it_cannot_read() {
    let files = Files::new();
    let missing = Settings::default().auth_file(files.path("none.toml")).expect_err("no file");
    assert!(missing.contains("none.toml"), "{missing}");
    let broken = Settings::default().auth_file(files.write("auth.toml", "x = 1")).expect_err("no entry");
    assert!(broken.contains("auth.toml") && broken.contains("line 1"), "{broken}");
}
