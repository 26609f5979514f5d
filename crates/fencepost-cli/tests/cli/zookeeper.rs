//! The command on ZooKeeper.

use fencepost_testkit::zookeeper::ZooKeeper;

use crate::redis::works;
use crate::support::Place;

#[test]
fn the_command_works_on_zookeeper() {
    let server = ZooKeeper::new().start();
    works(&format!("zk://{}/jobs", server.address()));
}

#[test]
fn servers_that_cannot_be_reached_are_unreachable_and_no_password_is_shown() {
    let place = Place::new();
    for (store, code) in [("zk://u:geheim@127.0.0.1:1", 69), ("zookeeper://u:geheim@h?nonsense=1", 78)] {
        let ended = place.fencepost(["--store", store, "run", "x", "--", "true"]).end().with_code(code);
        assert!(!ended.stderr.contains("geheim"), "{}", ended.stderr);
    }
}
