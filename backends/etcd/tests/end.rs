//! What the end of a connection leaves in the cluster.

use std::time::Duration;

use fencepost_core::Blocking;
use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::wait::PATIENCE;

/// Those of claims that are over, and those that were kept for the next claim.
#[test]
fn the_last_handle_ends_every_lease() {
    let server = Etcd::new().start();
    let connect = || fencepost_etcd::connect("etcd", &format!("//{}", server.address())).drain_within(PATIENCE);
    let locks = connect().block().expect("it is up");
    let hour = locks.lock("an hour").ttl(Duration::from_secs(3600)).wait_forever();
    let guard = hour.acquire().block().expect("free");
    assert!(hour.try_acquire().block().expect("an answer").is_none());
    assert!(server.leases().len() > 1, "{:?}", server.leases());
    drop((locks, hour));
    drop(guard);
    assert_eq!(server.leases(), [""; 0]);

    let locks = connect().block().expect("it is up");
    drop(locks.lock("a").acquire().block().expect("free"));
    assert_eq!(locks.shutdown(PATIENCE).block(), [""; 0]);
    assert_eq!(server.leases(), [""; 0]);
}
