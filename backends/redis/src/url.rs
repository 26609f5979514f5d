//! What a URL says: which servers, as whom, under which prefix.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::Invalid;

use crate::keys::Layout;
use crate::replicas::Replicas;
use crate::sets;
use crate::settings::{Settings, decoded};
use crate::tls::{Access, Client};

/// Where one server is, and who we are there.
#[derive(Clone)]
pub(crate) struct Node {
    /// Who it is, for all clients alike.
    pub(crate) address: Address,
    /// Where this client reaches it, if elsewhere.
    via: Option<Address>,
    /// How to speak TLS with it, if so.
    pub(crate) tls: Option<Access>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => f.write_str(path),
        }
    }
}

impl Node {
    /// Where to connect to.
    pub(crate) fn door(&self) -> &Address {
        self.via.as_ref().unwrap_or(&self.address)
    }

    /// Whether its password goes over a network for all to see.
    pub(crate) fn exposes_password(&self) -> bool {
        let Address::Tcp { host, .. } = self.door() else { return false };
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.password.is_some() && self.tls.is_none() && !is_here
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}/{})", self.address, self.database)
    }
}

/// How to enter a server whose address the URL does not name, because others do.
#[derive(Clone)]
pub(crate) struct Entry {
    user: Option<String>,
    password: Option<String>,
    database: u32,
    tls: Option<Arc<Client>>,
}

impl Entry {
    pub(crate) fn node(&self, address: Address) -> Result<Node, Invalid> {
        let tls = match (&self.tls, &address) {
            (Some(client), Address::Tcp { host, .. }) => Some(client.access(host)?),
            _ => None,
        };
        let Self { user, password, database, .. } = self.clone();
        Ok(Node { address, via: None, tls, user, password, database })
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry(/{})", self.database)
    }
}

/// What the servers that a URL names are to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Deployment {
    /// One, or several masters that vote.
    Servers,
    /// They know where the master of this name is.
    Sentinels { master: String },
    /// They know which masters there are, and who has which slots.
    Cluster,
}

/// Everything a URL says.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) nodes: Vec<Node>,
    /// While one set of servers takes the place of another: who is in which. Empty: there is one set.
    pub(crate) sets: Vec<Vec<usize>>,
    pub(crate) deployment: Deployment,
    /// For the servers that sentinels or a cluster name.
    pub(crate) entry: Entry,
    pub(crate) replicas: Option<Replicas>,
    /// A failover counts as loss of memory.
    pub(crate) waits_after_failover: bool,
    /// Before every name. Default `lock:`, with Redisson's layout nothing.
    pub(crate) prefix: String,
    pub(crate) layout: Layout,
    /// Several masters that vote.
    pub(crate) quorum: bool,
    /// The longest lease of a quorum: how long a node that forgot must keep still.
    pub(crate) max_ttl: Duration,
    /// How long one answer of one server may take, if the URL says so.
    pub(crate) answer_within: Option<Duration>,
    pub(crate) trusting: Trusting,
}

/// What decides whether a node may vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trusting {
    /// Its marker.
    Judged,
    /// Nothing: it is looked at, and left as it is.
    NotAsked,
    /// An operator vouches for every node: `fencepost init`.
    Everybody,
}

/// The most nodes that vote.
const NODES_MAX: usize = 9;

impl Config {
    /// Reads a URL: the part before `:` and the part after it.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<Self, Invalid> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        // Part of a password that was not encoded may be taken for anything: then the error repeats nothing.
        let has_credentials = rest.contains('@');
        let shown = |text: &str| if has_credentials { "…".to_owned() } else { text.to_owned() };
        let wrong = |value: &str, cure: &str| Invalid::new("store", format!("{scheme}:{}", shown(value)), cure);
        let (kind, with_tls) = match scheme {
            "redis" | "redis+unix" => (Kind::One, false),
            "rediss" => (Kind::One, true),
            "redlock" => (Kind::Quorum, false),
            "redlock+tls" => (Kind::Quorum, true),
            "redis+sentinel" => (Kind::Sentinels, false),
            "rediss+sentinel" => (Kind::Sentinels, true),
            "redis+cluster" => (Kind::Cluster, false),
            "rediss+cluster" => (Kind::Cluster, true),
            _ => {
                let cure = "a Redis URL is redis, rediss, redis+unix, redlock, redlock+tls, redis+sentinel, \
                            rediss+sentinel, redis+cluster or rediss+cluster";
                return Err(wrong("…", cure));
            }
        };
        let quorum = kind == Kind::Quorum;
        let settings = Settings::parse(query, &shown)?;
        let mut master = String::new();
        let nodes = match scheme {
            "redis+unix" => {
                let path = place.strip_prefix("//").unwrap_or(place);
                let (words, path) = path.rsplit_once('@').filter(|_| !path.starts_with('/')).unwrap_or(("", path));
                let (user, password) = credentials(words)?;
                let address = Address::Unix(decoded(path)?);
                vec![Node { address, via: None, tls: None, user, password, database: settings.database }]
            }
            _ => {
                let form = match kind {
                    Kind::Sentinels => format!("write it as {scheme}://SENTINEL:PORT,SENTINEL:PORT/MASTER_NAME"),
                    _ => format!("write it as {scheme}://HOST:PORT"),
                };
                let place = place.strip_prefix("//").ok_or_else(|| wrong("…", &form))?;
                let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
                let number = match kind {
                    Kind::Sentinels => {
                        let (name, number) = path.split_once('/').unwrap_or((path, ""));
                        if name.is_empty() {
                            return Err(wrong("…", &form));
                        }
                        master = decoded(name)?;
                        number
                    }
                    _ => path,
                };
                let database = match number {
                    "" => settings.database,
                    number => number.parse().map_err(|_| {
                        wrong("…", "after the host comes the number of a database; write a / in a password as %2F")
                    })?,
                };
                if kind == Kind::Cluster && database != 0 {
                    return Err(Invalid::new("db", database.to_string(), "a cluster has the database 0 only"));
                }
                let port = if kind == Kind::Sentinels { "26379" } else { "6379" };
                hosts.split(',').map(|host| node(host, database, port, &shown)).collect::<Result<Vec<_>, _>>()?
            }
        };
        if nodes.len() > 1 && kind == Kind::One {
            let cure = "several servers are redlock://A,B,C if they know nothing of each other, redis+cluster://A,B,C if \
                        they are a cluster, redis+sentinel://A,B,C/MASTER_NAME if they are sentinels";
            return Err(wrong("…", cure));
        }
        let shares_credentials = matches!(kind, Kind::Sentinels | Kind::Cluster);
        if shares_credentials && nodes[1..].iter().any(|node| node.user.is_some() || node.password.is_some()) {
            return Err(wrong("…", "user and password stand before the first server, and are those of all"));
        }
        settings.fit(kind)?;
        let database = nodes[0].database;
        let next = settings.next.as_ref().map(|hosts| {
            hosts.split(',').map(|host| node(host, database, "6379", &shown)).collect::<Result<Vec<_>, _>>()
        });
        let next = next.transpose()?;
        for set in [Some(&nodes), next.as_ref()].into_iter().flatten() {
            if set.len() > NODES_MAX {
                return Err(wrong("…", "name at most 9 servers"));
            }
            if set.iter().enumerate().any(|(at, node)| set[..at].iter().any(|one| one.address == node.address)) {
                return Err(wrong("…", "one server is listed twice: each node must be a server of its own"));
            }
        }
        let password = settings.password()?;
        let client = match (with_tls, settings.tls.named()) {
            (true, _) => Some(Client::new(&settings.tls)?),
            (false, None) => None,
            (false, Some(field)) => {
                let cure = "only rediss://, redlock+tls://, rediss+sentinel:// and rediss+cluster:// speak TLS";
                return Err(Invalid::new(field, "…", cure));
            }
        };
        let mut nodes = nodes;
        let sets = next.map(|next| sets::join(&mut nodes, next)).unwrap_or_default();
        let first = &nodes[0];
        let entry = Entry {
            user: first.user.clone(),
            password: first.password.clone().or_else(|| password.clone()),
            database: first.database,
            tls: client.map(Arc::new),
        };
        let sentinel_password = if kind == Kind::Sentinels { settings.sentinel_password()? } else { None };
        for node in &mut nodes {
            match kind {
                Kind::One | Kind::Quorum => node.password = node.password.take().or_else(|| password.clone()),
                Kind::Cluster => (node.user, node.password) = (entry.user.clone(), entry.password.clone()),
                Kind::Sentinels => {
                    (node.user, node.password) = (settings.sentinel_user.clone(), sentinel_password.clone());
                }
            }
            node.tls = entry.node(node.address.clone())?.tls;
        }
        if let Some(doors) = settings.via.as_deref() {
            pass_through(&mut nodes, doors, &shown)?;
        }
        Ok(Self {
            nodes,
            sets,
            deployment: match kind {
                Kind::One | Kind::Quorum => Deployment::Servers,
                Kind::Sentinels => Deployment::Sentinels { master },
                Kind::Cluster => Deployment::Cluster,
            },
            entry,
            replicas: settings.replicas()?,
            waits_after_failover: settings.waits_after_failover.unwrap_or(false),
            prefix: settings.prefix().to_owned(),
            layout: settings.layout,
            quorum,
            max_ttl: settings.max_ttl,
            answer_within: settings.answer_within,
            trusting: Trusting::Judged,
        })
    }

    /// Whether a password goes over a network for all to see; where to.
    pub(crate) fn exposes_password(&self) -> Option<&Address> {
        let found = |node: &&Node| self.entry.node(node.address.clone()).is_ok_and(|node| node.exposes_password());
        self.nodes.iter().find(|node| node.exposes_password() || found(node)).map(|node| &node.address)
    }
}

/// What a scheme stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    One,
    Quorum,
    Sentinels,
    Cluster,
}

fn node(text: &str, database: u32, default_port: &str, shown: &dyn Fn(&str) -> String) -> Result<Node, Invalid> {
    let (words, host) = text.rsplit_once('@').unwrap_or(("", text));
    let (user, password) = credentials(words)?;
    let refuse = |cure: &str| Invalid::new("store", shown(host), cure);
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or(default_port)),
        None => host.split_once(':').unwrap_or((host, default_port)),
    };
    if name.is_empty() {
        return Err(refuse("name a host, as in redis://HOST:PORT"));
    }
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| refuse("a port is a number, 1 to 65535"))?;
    let address = Address::Tcp { host: decoded(name)?, port };
    Ok(Node { address, via: None, tls: None, user, password, database })
}

/// Each server is reached through the door at its place in the list.
fn pass_through(nodes: &mut [Node], doors: &str, shown: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
    let cure = "write HOST:PORT for each server of the URL, in their order, joined by commas";
    let doors: Vec<Node> = doors.split(',').map(|door| node(door, 0, "6379", shown)).collect::<Result<_, _>>()?;
    if doors.len() != nodes.len() {
        return Err(Invalid::new("via", doors.len().to_string(), cure));
    }
    nodes.iter_mut().zip(doors).for_each(|(node, door)| node.via = Some(door.address));
    Ok(())
}

/// User and password, as far as they are given.
fn credentials(words: &str) -> Result<(Option<String>, Option<String>), Invalid> {
    let (user, password) = words.split_once(':').unwrap_or((words, ""));
    let given = |word: &str| Ok(Some(decoded(word)?).filter(|word| !word.is_empty()));
    Ok((given(user)?, given(password)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(scheme: &str, rest: &str) -> Config {
        Config::parse(scheme, rest).expect("valid")
    }

    #[test]
    fn a_url_names_host_port_database_and_credentials() {
        let config = config("redis", "//me:p%40ss@example:7000/3?prefix=app:");
        let node = &config.nodes[0];
        assert_eq!(node.address.to_string(), "example:7000");
        assert_eq!((node.user.as_deref(), node.password.as_deref(), node.database), (Some("me"), Some("p@ss"), 3));
        assert_eq!((config.prefix.as_str(), config.quorum), ("app:", false));
        assert!(!format!("{config:?}").contains("p@ss"));
    }

    #[test]
    fn defaults_are_port_6379_and_the_prefix_lock() {
        let config = config("redis", "//[::1]");
        assert_eq!(config.nodes[0].address.to_string(), "[::1]:6379");
        assert_eq!(config.prefix, "lock:");
    }

    #[test]
    fn redissons_layout_has_no_prefix_unless_one_is_given() {
        for (rest, prefix) in [("//a?layout=redisson", ""), ("//a?prefix=app:&layout=redisson", "app:")] {
            for scheme in ["redis", "redis+sentinel", "redis+cluster"] {
                let rest = if scheme == "redis+sentinel" { rest.replace("//a", "//a/main") } else { rest.to_owned() };
                let config = config(scheme, &rest);
                assert_eq!((config.layout, config.prefix.as_str()), (Layout::Redisson, prefix));
            }
        }
        assert_eq!(config("redis", "//a?layout=fencepost").layout, Layout::Fencepost);
        assert_eq!(config("redis+cluster", "//a?layout=redisson&prefix={app}").prefix, "{app}");
    }

    #[test]
    fn redissons_layout_is_refused_where_servers_vote_and_the_error_says_what_to_do() {
        for (scheme, rest) in [("redlock", "//a?layout=redisson"), ("redlock", "//a,b,c?layout=redisson")] {
            let error = Config::parse(scheme, rest).expect_err(rest).to_string();
            let said = ["layout", "redisson", "redis+sentinel://"];
            assert!(said.iter().all(|word| error.contains(word)), "{error}");
        }
        let error = Config::parse("redis", "//a?layout=hash").expect_err("no such layout").to_string();
        assert!(["layout", "hash", "fencepost", "redisson"].iter().all(|word| error.contains(word)), "{error}");
    }

    #[test]
    fn a_socket_may_have_credentials_too() {
        let node = &config("redis+unix", "//me:p%40ss@/run/redis.sock?db=2").nodes[0];
        assert_eq!(node.address.to_string(), "/run/redis.sock");
        assert_eq!((node.user.as_deref(), node.password.as_deref(), node.database), (Some("me"), Some("p@ss"), 2));
        assert_eq!(config("redis+unix", "///run/a@b").nodes[0].address.to_string(), "/run/a@b");
    }

    #[test]
    fn a_password_is_exposed_by_plain_connections_to_other_machines_only() {
        for (scheme, rest, exposed) in [
            ("redis", "//:p@example", true),
            ("redis", "//:p@10.0.0.1", true),
            ("redis", "//example", false),
            ("redis", "//:p@localhost", false),
            ("redis", "//:p@127.0.0.1", false),
            ("redis", "//:p@[::1]", false),
            ("redis+unix", "//:p@/run/redis.sock", false),
        ] {
            assert_eq!(config(scheme, rest).nodes[0].exposes_password(), exposed, "{rest}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_build_without_tls_names_the_feature() {
        for scheme in ["rediss", "redlock+tls"] {
            let error = Config::parse(scheme, "//a").expect_err("no TLS").to_string();
            assert!(error.contains("redis-tls"), "{error}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn with_tls_every_node_is_met_under_its_own_name() {
        let config = config("redlock+tls", "//a:1,b:2?insecure=true");
        let names: Vec<String> = config.nodes.iter().map(|node| format!("{:?}", node.tls)).collect();
        assert_eq!(names, ["Some(Access(a))", "Some(Access(b))"]);
        assert!(config.quorum);
    }

    #[test]
    fn a_quorum_lists_its_nodes_each_with_its_own_credentials() {
        let config = config("redlock", "//:one@a:1,:two@b:2,c:3?max_ttl_ms=2000");
        let passwords: Vec<_> = config.nodes.iter().map(|node| node.password.as_deref()).collect();
        assert_eq!(passwords, [Some("one"), Some("two"), None]);
        assert_eq!((config.quorum, config.max_ttl), (true, Duration::from_secs(2)));
    }

    #[test]
    fn bad_urls_are_refused_without_repeating_a_password() {
        for (scheme, rest) in [
            ("redis", "localhost"),
            ("redis", "//"),
            ("redis", "//a,b"),
            ("redis", "//a:0"),
            ("redis", "//a:70000"),
            ("redis", "//a/x"),
            ("redis", "//a?colour=red"),
            ("redis", "//a?prefix=fp:x"),
            ("redis", "//u:secret%zz@a"),
            ("redis", "//u:secret@a:x"),
            ("redis", "//:begin/secret@a"),
            ("redis", "//u:sec/secret@a"),
            ("redis", "//u:1/secret@a"),
            ("redis", "//u:sec?secret@a"),
            ("redis", "//u:1?secret@a"),
            ("redis", "//u:secret,x@a"),
            ("redis", "//u:x?db=secret@a"),
            ("sentinel", "//u:secret@a"),
            ("redlock", "//a,b,a"),
            ("redlock", "//a?max_ttl_ms=1"),
            ("redlock", "//1,2,3,4,5,6,7,8,9,10"),
            ("redlock", "//a,b,c?next="),
            ("redlock", "//a,b,c?next=a,a"),
            ("redlock", "//a,b,c?next=:secret@a:x"),
            ("redis", "//a?next=b"),
            ("redlock", "//a?answer_within_ms=0"),
            ("redis", "//a?password_file=/does/not/exist"),
        ] {
            let error = Config::parse(scheme, rest).expect_err(rest).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_server_may_be_reached_elsewhere_and_stays_who_it_is() {
        let config = config("redlock", "//a,b:2,c?via=127.0.0.1:7,[::1]:8,d");
        let doors: Vec<String> = config.nodes.iter().map(|node| node.door().to_string()).collect();
        assert_eq!(doors, ["127.0.0.1:7", "[::1]:8", "d:6379"]);
        let names: Vec<String> = config.nodes.iter().map(|node| node.address.to_string()).collect();
        assert_eq!(names, ["a:6379", "b:2", "c:6379"]);
        for (scheme, rest) in [("redlock", "//a,b,c?via=x,y"), ("redis+cluster", "//a?via=x"), ("redis", "//a?via=x:0")]
        {
            assert!(Config::parse(scheme, rest).is_err(), "{rest}");
        }
    }
}
