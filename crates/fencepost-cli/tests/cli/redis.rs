//! The command on Redis as people run it: with sentinels, and as a cluster.

use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::sentinels::Sentinels;

use crate::support::{HOLD, Place};

/// Everything that a script asks for.
pub(crate) fn works(store: &str) {
    let place = Place::new();
    let fencepost = |arguments: &[&str]| place.fencepost([&["--store", store], arguments].concat());
    let first = fencepost(&["run", "x", "--", "sh", "-c", "echo $FENCEPOST_TOKEN"]).end().with_code(0);
    let second = fencepost(&["run", "x", "--", "sh", "-c", "echo $FENCEPOST_TOKEN"]).end().with_code(0);
    fencepost(&["check", "x", second.stdout.trim()]).end().with_code(0);
    let stale = fencepost(&["check", "x", first.stdout.trim()]).end().with_code(1);
    assert!(stale.stdout.contains(second.stdout.trim()), "{}", stale.stdout);
    let holder = fencepost(&[&["run", "--label", "the holder", "x", "--"], &HOLD[..]].concat());
    let holder = holder.start_until_it_says("held");
    fencepost(&["run", "-n", "x", "--", "true"]).end().with_code(75);
    let shown = fencepost(&["show", "x"]).end().with_code(0);
    assert!(shown.stdout.contains("the holder"), "{}", shown.stdout);
    let listed = fencepost(&["ls"]).end().with_code(0);
    assert!(listed.stdout.contains('x'), "{}", listed.stdout);
    holder.let_go().with_code(0);
    fencepost(&["run", "-n", "x", "--", "true"]).end().with_code(0);
}

#[test]
fn the_command_works_behind_sentinels() {
    let set = Sentinels::start();
    works(&format!("redis+sentinel://{}", set.place()));
}

#[test]
fn the_command_works_in_a_cluster() {
    let cluster = Cluster::start();
    works(&format!("redis+cluster://{}", cluster.place()));
}

#[test]
fn a_store_url_that_cannot_work_is_bad_configuration() {
    let place = Place::new();
    for (store, words) in [
        ("redis+sentinel://a,b", "/MASTER_NAME"),
        ("redis+cluster://a/3", "database 0 only"),
        ("redis+cluster://a?replicas=many", "1 to 100"),
    ] {
        place.fencepost(["--store", store, "run", "x", "--", "true"]).end().with_code(78).saying(words);
    }
}
