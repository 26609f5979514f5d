//! Servers and clients, and who of them can reach whom: by namespaces and dropped packets where the machine allows it, by
//! proxies anywhere.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use crate::preload::Source;
use crate::process::Other;
use crate::proxy::{Flow, Proxy};
use crate::room::{Room, SERVERS};
use crate::server::{Recipe, Server};

/// What does not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// What the client sends.
    Requests,
    /// What the server sends.
    Replies,
    /// Anything.
    Both,
}

/// A network between some servers and clients, which are processes.
#[derive(Debug)]
pub struct Net {
    ports: Vec<u16>,
    clients: Vec<u32>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Room(Room),
    Proxies(Vec<Proxy>, Source),
}

impl Net {
    /// By namespaces, inside a [room](crate::room). The servers must listen at [`SERVERS`].
    ///
    /// # Panics
    /// If this process is in no room.
    pub fn in_room(room: Room, servers: &[Server<impl Recipe>]) -> Self {
        Self { ports: servers.iter().map(Server::port).collect(), clients: Vec::new(), way: Way::Room(room) }
    }

    /// By a proxy before each server.
    ///
    /// # Panics
    /// If there is no port for it.
    pub fn by_proxies(servers: &[Server<impl Recipe>]) -> Self {
        let proxies = servers.iter().map(|server| Proxy::before(server.address())).collect();
        let ports = servers.iter().map(Server::port).collect();
        Self { ports, clients: Vec::new(), way: Way::Proxies(proxies, Source::new()) }
    }

    /// `HOST:PORT` of each server, as clients see it.
    pub fn addresses(&self) -> Vec<String> {
        match &self.way {
            Way::Room(_) => self.ports.iter().map(|port| format!("{SERVERS}:{port}")).collect(),
            Way::Proxies(proxies, _) => proxies.iter().map(Proxy::address).collect(),
        }
    }

    /// Starts a client in a role. It says `here` first, and has its network once it hears a word.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn client(&mut self, role: &str, place: &str) -> Other {
        let mut client = match &self.way {
            Way::Room(room) => room.client(self.clients.len(), role, place),
            Way::Proxies(_, source) => {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.envs(source.environment(address(self.clients.len())));
                let mut client = Other::start_by(command, role, place);
                client.says("here");
                client
            }
        };
        self.clients.push(client.id());
        client.tell("go");
        client
    }

    /// From now on this does not arrive between a client and these servers.
    ///
    /// # Panics
    /// If the client is not one of this network's.
    pub fn cut(&mut self, client: &Other, servers: impl IntoIterator<Item = usize>, cut: Cut) {
        let number = self.clients.iter().position(|id| *id == client.id()).expect("a client of this network");
        for server in servers {
            match &mut self.way {
                Way::Room(room) => room.cut(number, self.ports[server], cut),
                Way::Proxies(proxies, _) => {
                    let held = |held| if held { Flow::Held } else { Flow::Pass };
                    proxies[server].flows_of(address(number), held(cut != Cut::Replies), held(cut != Cut::Requests));
                }
            }
        }
    }

    /// Everything arrives again.
    pub fn heal(&mut self) {
        match &mut self.way {
            Way::Room(room) => room.heal(),
            Way::Proxies(proxies, _) => {
                let clients = || (0..self.clients.len()).map(address);
                for (proxy, client) in proxies.iter().flat_map(|proxy| clients().map(move |client| (proxy, client))) {
                    proxy.flows_of(client, Flow::Pass, Flow::Pass);
                }
            }
        }
    }
}

/// Where the connections of a client come from, if there are proxies.
fn address(client: usize) -> IpAddr {
    let number = u8::try_from(client + 1).expect("a few clients");
    Ipv4Addr::new(127, 77, 0, number).into()
}
