//! A Redis Cluster: three masters, and a replica of each.

use crate::ports::free_port;
use crate::redis::Redis;
use crate::server::Server;
use crate::wait::{a_moment, until};

/// So many masters, each with a replica.
const MASTERS: usize = 3;
/// How many slots there are.
const SLOTS: usize = 16384;

/// Three masters and three replicas. At first the servers 0 to 2 are the masters, and 3 to 5 follow them.
#[derive(Debug)]
pub struct Cluster {
    /// The servers; which ones are masters changes.
    pub servers: Vec<Server<Redis>>,
}

impl Cluster {
    /// Starts all of them and waits until they are a cluster.
    ///
    /// # Panics
    /// If they do not come to that.
    pub fn start() -> Self {
        let server = || {
            let bus = free_port();
            (Redis::new().with(&options(bus)).start(), bus)
        };
        let (servers, buses): (Vec<Server<Redis>>, Vec<u16>) = (0..MASTERS * 2).map(|_| server()).unzip();
        let cluster = Self { servers };
        for (number, server) in cluster.servers.iter().enumerate() {
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            if number < MASTERS {
                let (first, last) = Self::range(number);
                server.ask(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            }
            let (port, bus) = (server.port().to_string(), buses[number].to_string());
            cluster.servers[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let all_known = |server: &Server<Redis>| {
            let nodes = server.ask(&["CLUSTER", "NODES"]);
            nodes.matches("connected").count() == MASTERS * 2 && !nodes.contains("handshake")
        };
        until("all have met", || cluster.servers.iter().all(all_known));
        for number in MASTERS..MASTERS * 2 {
            let master = cluster.id(number - MASTERS);
            until("it follows", || cluster.servers[number].ask(&["CLUSTER", "REPLICATE", &master]) == "+OK");
        }
        cluster.until_whole();
        cluster
    }

    /// The command line of a server that may be part of a cluster.
    pub fn options() -> String {
        options(free_port())
    }

    /// The first and the last slot that a master has at first.
    fn range(number: usize) -> (usize, usize) {
        (number * SLOTS / MASTERS, (number + 1) * SLOTS / MASTERS - 1)
    }

    /// A server's name in the cluster.
    pub fn id(&self, number: usize) -> String {
        self.servers[number].word(&["CLUSTER", "MYID"]).expect("a name")
    }

    /// Whether a server is a master.
    pub fn is_master(&self, number: usize) -> bool {
        self.servers[number].ask(&["ROLE"]).contains("master")
    }

    /// Waits until every slot has a master with a replica that follows, and all servers see it so.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn until_whole(&self) {
        until("the cluster is whole", || {
            let masters = (0..self.servers.len()).filter(|number| self.is_master(*number));
            let followed = masters.filter(|number| {
                self.servers[*number].ask(&["INFO", "replication"]).matches("state=online").count() == 1
            });
            followed.count() == MASTERS && self.servers.iter().all(Self::sees_all)
        });
    }

    fn sees_all(server: &Server<Redis>) -> bool {
        let nodes = server.ask(&["CLUSTER", "NODES"]);
        server.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
            && !nodes.contains("fail")
            && nodes.matches(" slave ").count() + nodes.matches("myself,slave").count() == MASTERS
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> String {
        self.servers[0].number(&["CLUSTER", "KEYSLOT", key]).to_string()
    }

    /// The number of the server that has this key, as it says itself.
    ///
    /// # Panics
    /// If nobody has it.
    pub fn owner(&self, key: &str) -> usize {
        let has = |number: &usize| {
            self.is_master(*number) && !self.servers[*number].ask(&["EXISTS", key]).starts_with("-MOVED")
        };
        (0..self.servers.len()).find(has).expect("every slot has a master")
    }

    /// The number of a replica of this master.
    ///
    /// # Panics
    /// If there is none.
    pub fn replica_of(&self, master: usize) -> usize {
        let id = self.id(master);
        let follows = |number: &usize| {
            let nodes = self.servers[*number].ask(&["CLUSTER", "NODES"]);
            nodes.lines().any(|line| line.contains("myself,slave") && line.contains(&id))
        };
        (0..self.servers.len()).find(follows).expect("a replica")
    }

    /// Makes a replica the master in place of its own, without loss, and waits until it is.
    ///
    /// # Panics
    /// If it does not come to that.
    pub fn fail_over(&self, replica: usize) {
        until("the replica is the master", || {
            self.is_master(replica) || {
                self.servers[replica].ask(&["CLUSTER", "FAILOVER"]);
                let asked = std::time::Instant::now();
                while !self.is_master(replica) && asked.elapsed() < std::time::Duration::from_secs(5) {
                    a_moment();
                }
                self.is_master(replica)
            }
        });
    }

    /// `A,B,C`: three of its servers, as they stand in a URL.
    pub fn place(&self) -> String {
        let addresses: Vec<String> = self.servers.iter().take(MASTERS).map(Server::address).collect();
        addresses.join(",")
    }
}

fn options(bus: u16) -> String {
    format!(
        "--cluster-enabled yes --cluster-port {bus} --cluster-node-timeout 1000 --repl-diskless-sync-delay 0 \
         --cluster-replica-validity-factor 0 --cluster-allow-replica-migration no --repl-ping-replica-period 1"
    )
}
