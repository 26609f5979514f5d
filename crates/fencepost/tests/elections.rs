//! Elections between processes on every back end: leaders are killed, and at every moment at most one leads.

use std::time::Duration;

use fencepost::Blocking;
use fencepost_testkit::candidates;
use fencepost_testkit::cluster::Cluster;
use fencepost_testkit::etcd::Etcd;
use fencepost_testkit::mariadb::MariaDb;
use fencepost_testkit::postgres::Postgres;
use fencepost_testkit::process::{self, Other};
use fencepost_testkit::redis::Redis;
use fencepost_testkit::sentinels::Sentinels;
use fencepost_testkit::server::Server;
use fencepost_testkit::zookeeper::{Ensemble, ZooKeeper};

/// Not a test of its own: a candidate.
#[test]
fn in_another_process() {
    let Some((_, store)) = process::role() else { return };
    // A busy machine may keep a process waiting for longer than a node's answer takes.
    candidates::campaign(fencepost::connect(store).answer_within(Duration::from_millis(500)));
}

fn leaders_are_killed(store: &str) {
    candidates::leaders_are_killed_and_the_next_one_leads(|| Other::start("campaigns", store));
}

#[test]
fn on_sqlite() {
    let dir = tempfile::tempdir().expect("a directory");
    leaders_are_killed(&format!("sqlite:{}", dir.path().join("locks.db").display()));
}

#[test]
fn on_one_redis_server() {
    let server = Redis::new().start();
    leaders_are_killed(&format!("redis://{}", server.address()));
}

#[test]
fn on_five_redis_servers_that_vote() {
    let servers: Vec<Server<Redis>> = (0..5).map(|_| Redis::new().start()).collect();
    let nodes: Vec<String> = servers.iter().map(Server::address).collect();
    let store = format!("redlock://{}", nodes.join(","));
    fencepost::init(&store).block().expect("a new cluster");
    leaders_are_killed(&store);
}

#[test]
fn behind_sentinels() {
    let set = Sentinels::start();
    leaders_are_killed(&format!("redis+sentinel://{}", set.place()));
}

#[test]
fn in_a_cluster() {
    let cluster = Cluster::start();
    leaders_are_killed(&format!("redis+cluster://{}", cluster.place()));
}

#[test]
fn on_etcd() {
    let server = Etcd::new().start();
    leaders_are_killed(&format!("etcd://{}", server.address()));
}

#[test]
fn on_one_zookeeper_server() {
    let server = ZooKeeper::new().start();
    leaders_are_killed(&format!("zk://{}", server.address()));
}

#[test]
fn on_three_zookeeper_servers() {
    let ensemble = Ensemble::start();
    leaders_are_killed(&format!("zk://{}", ensemble.place()));
}

#[test]
fn on_postgres() {
    let server = Postgres::new().start();
    fencepost::init(&server.url()).block().expect("tables");
    leaders_are_killed(&server.url());
}

#[test]
fn on_mariadb() {
    let server = MariaDb::new().start();
    fencepost::init(&server.url()).block().expect("tables");
    leaders_are_killed(&server.url());
}
