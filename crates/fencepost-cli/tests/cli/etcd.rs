//! The command on etcd.

use fencepost_testkit::etcd::Etcd;

use crate::redis::works;
use crate::support::Place;

#[test]
fn the_command_works_on_etcd() {
    let server = Etcd::new().start();
    works(&format!("etcd://{}", server.address()));
}

#[test]
fn a_cluster_that_cannot_be_reached_is_unreachable_and_no_password_is_shown() {
    let place = Place::new();
    for (store, code) in [("etcd://u:geheim@127.0.0.1:1", 69), ("etcd://u:geheim@h?nonsense=1", 78)] {
        let ended = place.fencepost(["--store", store, "run", "x", "--", "true"]).end().with_code(code);
        assert!(!ended.stderr.contains("geheim"), "{}", ended.stderr);
    }
}
