//! Servers for one test.

#![allow(dead_code, reason = "each test program uses its part")]

use fencepost_core::Connect;
use fencepost_testkit::contract::Subject;
use fencepost_testkit::redis::Redis;
use fencepost_testkit::server::Server;

/// Some servers, alone or as a quorum.
pub(crate) struct Place {
    pub(crate) servers: Vec<Server<Redis>>,
    pub(crate) quorum: bool,
}

impl Place {
    /// One server.
    pub(crate) fn one() -> Self {
        Self { servers: vec![Redis::new().start()], quorum: false }
    }

    /// So many that vote, trusted from the start.
    pub(crate) fn quorum(count: usize) -> Self {
        let place = Self { servers: (0..count).map(|_| Redis::new().start()).collect(), quorum: true };
        place.trust();
        place
    }

    /// Marks a new cluster as trusted, as `fencepost init` does.
    pub(crate) fn trust(&self) {
        fencepost_core::Blocking::block(fencepost_redis::init("redlock", &self.rest())).expect("all are there");
    }

    /// Kills some servers.
    pub(crate) fn with_dead(mut self, count: usize) -> Self {
        self.servers.iter_mut().take(count).for_each(Server::kill);
        self
    }

    /// Stops some servers in their tracks.
    pub(crate) fn with_stopped(self, count: usize) -> Self {
        self.servers.iter().take(count).for_each(Server::pause);
        self
    }

    /// What comes after the scheme.
    pub(crate) fn rest(&self) -> String {
        let addresses: Vec<String> = self.servers.iter().map(Server::address).collect();
        format!("//{}", addresses.join(","))
    }
}

impl Subject for Place {
    fn connect(&self) -> Connect {
        fencepost_redis::connect(if self.quorum { "redlock" } else { "redis" }, &self.rest())
    }
}
