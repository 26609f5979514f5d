//! What the end of a connection leaves at the servers.

use std::time::Duration;

use fencepost_core::Blocking;
use fencepost_testkit::wait::PATIENCE;
use fencepost_testkit::zookeeper::ZooKeeper;

/// One session for each length of a claim, and all of them are closed.
#[test]
fn the_last_handle_closes_every_session() {
    let server = ZooKeeper::new().start();
    let connect = || fencepost_zookeeper::connect("zk", &format!("//{}/locks", server.address()));
    let locks = connect().drain_within(PATIENCE).block().expect("it is up");
    let guards = [5, 20].map(|seconds| {
        let lock = locks.lock(format!("for {seconds} s")).ttl(Duration::from_secs(seconds));
        lock.acquire().block().expect("free")
    });
    assert!(server.sessions().len() >= guards.len(), "{:?}", server.sessions());
    drop(locks);
    drop(guards);
    assert_eq!(server.sessions(), [""; 0]);

    let locks = connect().drain_within(PATIENCE).block().expect("it is up");
    drop(locks.lock("a").acquire().block().expect("free"));
    assert_eq!(locks.shutdown(PATIENCE).block(), [""; 0]);
    assert_eq!(server.sessions(), [""; 0]);
}
