//! What a URL says: which servers, as whom, under which prefix.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use fencepost_core::Invalid;

use crate::settings::{Settings, decoded};
use crate::tls::{Access, Client};

/// Where one server is, and who we are there.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) address: Address,
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
    /// Whether its password goes over a network for all to see.
    pub(crate) fn exposes_password(&self) -> bool {
        let Address::Tcp { host, .. } = &self.address else { return false };
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        self.password.is_some() && self.tls.is_none() && !is_here
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}/{})", self.address, self.database)
    }
}

/// Everything a URL says.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) nodes: Vec<Node>,
    /// Before every name. Default `lock:`.
    pub(crate) prefix: String,
    /// Several masters that vote.
    pub(crate) quorum: bool,
    /// The longest lease of a quorum: how long a node that forgot must keep still.
    pub(crate) max_ttl: Duration,
    /// An operator vouches for every node: `fencepost init`.
    pub(crate) trust_all: bool,
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
        let (quorum, with_tls) = match scheme {
            "redis" | "redis+unix" => (false, false),
            "rediss" => (false, true),
            "redlock" => (true, false),
            "redlock+tls" => (true, true),
            _ => return Err(wrong("…", "a Redis URL is redis, rediss, redis+unix, redlock or redlock+tls")),
        };
        let settings = Settings::parse(query, &shown)?;
        let nodes = match scheme {
            "redis+unix" => {
                let path = place.strip_prefix("//").unwrap_or(place);
                let (words, path) = path.rsplit_once('@').filter(|_| !path.starts_with('/')).unwrap_or(("", path));
                let (user, password) = credentials(words)?;
                let address = Address::Unix(decoded(path)?);
                vec![Node { address, tls: None, user, password, database: settings.database }]
            }
            _ => {
                let form = format!("write it as {scheme}://HOST:PORT");
                let place = place.strip_prefix("//").ok_or_else(|| wrong("…", &form))?;
                let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
                let database = match database {
                    "" => settings.database,
                    number => number.parse().map_err(|_| {
                        wrong("…", "after the host comes the number of a database; write a / in a password as %2F")
                    })?,
                };
                hosts.split(',').map(|host| node(host, database, &shown)).collect::<Result<Vec<_>, _>>()?
            }
        };
        if nodes.len() > 1 && !quorum {
            return Err(wrong("…", "several servers are redlock://A,B,C, or redlock+tls://A,B,C"));
        }
        if nodes.len() > NODES_MAX {
            return Err(wrong("…", "a quorum has at most 9 nodes"));
        }
        let twice =
            nodes.iter().enumerate().any(|(at, node)| nodes[..at].iter().any(|one| one.address == node.address));
        if twice {
            return Err(wrong("…", "one server is listed twice: each node must be a server of its own"));
        }
        let password = settings.password()?;
        let client = match (with_tls, settings.tls.named()) {
            (true, _) => Some(Client::new(&settings.tls)?),
            (false, None) => None,
            (false, Some(field)) => {
                return Err(Invalid::new(field, "…", "only rediss:// and redlock+tls:// speak TLS"));
            }
        };
        let mut nodes = nodes;
        for node in &mut nodes {
            node.password = node.password.take().or_else(|| password.clone());
            if let (Some(client), Address::Tcp { host, .. }) = (&client, &node.address) {
                node.tls = Some(client.access(host)?);
            }
        }
        Ok(Self { nodes, prefix: settings.prefix, quorum, max_ttl: settings.max_ttl, trust_all: false })
    }
}

fn node(text: &str, database: u32, shown: &dyn Fn(&str) -> String) -> Result<Node, Invalid> {
    let (words, host) = text.rsplit_once('@').unwrap_or(("", text));
    let (user, password) = credentials(words)?;
    let refuse = |cure: &str| Invalid::new("store", shown(host), cure);
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or("6379")),
        None => host.split_once(':').unwrap_or((host, "6379")),
    };
    if name.is_empty() {
        return Err(refuse("name a host, as in redis://HOST:PORT"));
    }
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| refuse("a port is a number, 1 to 65535"))?;
    Ok(Node { address: Address::Tcp { host: decoded(name)?, port }, tls: None, user, password, database })
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
            ("redis", "//a?password_file=/does/not/exist"),
        ] {
            let error = Config::parse(scheme, rest).expect_err(rest).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
