//! What a URL says: which servers, as whom, under which prefix.

use std::fmt;
use std::time::Duration;

use fencepost_core::Invalid;

/// Where one server is, and who we are there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) address: Address,
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

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}/{})", self.address, self.database)
    }
}

/// Everything a URL says.
#[derive(Clone, PartialEq, Eq, Debug)]
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
/// The longest lease that a quorum may be set to.
const MAX_TTL_MAX: Duration = Duration::from_secs(3600);

impl Config {
    /// Reads a URL: the part before `:` and the part after it.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<Self, Invalid> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let wrong = |value: &str, cure: &str| Invalid::new("store", format!("{scheme}:{value}"), cure);
        let settings = Settings::parse(query)?;
        let nodes = match scheme {
            "redis+unix" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let address = Address::Unix(decoded(path)?);
                vec![Node { address, user: None, password: None, database: settings.database }]
            }
            _ => {
                let rest = rest.strip_prefix("//").ok_or_else(|| wrong("…", "write it as redis://HOST:PORT"))?;
                let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
                let database = match database {
                    "" => settings.database,
                    number => number.parse().map_err(|_| wrong(number, "the path is the number of a database"))?,
                };
                hosts.split(',').map(|host| node(host, database)).collect::<Result<Vec<_>, _>>()?
            }
        };
        let quorum = scheme == "redlock";
        if nodes.len() > 1 && !quorum {
            return Err(wrong("…", "several servers are redlock://A,B,C"));
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
        let nodes = nodes.into_iter().map(|mut node| {
            node.password = node.password.or_else(|| password.clone());
            node
        });
        Ok(Self {
            nodes: nodes.collect(),
            prefix: settings.prefix,
            quorum,
            max_ttl: settings.max_ttl,
            trust_all: false,
        })
    }
}

struct Settings {
    prefix: String,
    database: u32,
    max_ttl: Duration,
    password_file: Option<String>,
}

impl Settings {
    fn parse(query: &str) -> Result<Self, Invalid> {
        let max_ttl = Duration::from_secs(60);
        let mut settings = Self { prefix: "lock:".into(), database: 0, max_ttl, password_file: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            match key {
                "prefix" if value.starts_with("fp:") => {
                    return Err(Invalid::new(
                        "prefix",
                        value,
                        "`fp:` is where Fencepost keeps what belongs to its locks",
                    ));
                }
                "prefix" => settings.prefix = value,
                "db" => {
                    let number = value.parse().map_err(|_| Invalid::new("db", &*value, "the number of a database"))?;
                    settings.database = number;
                }
                "max_ttl_ms" => settings.max_ttl = max_ttl_of(&value)?,
                "password_file" => settings.password_file = Some(value),
                _ => {
                    let cure = "a Redis URL takes prefix, db, max_ttl_ms and password_file";
                    return Err(Invalid::new("store", format!("?{key}=…"), cure));
                }
            }
        }
        Ok(settings)
    }

    /// From a file or from the environment, so that it need not stand in a URL.
    fn password(&self) -> Result<Option<String>, Invalid> {
        let Some(path) = &self.password_file else { return Ok(std::env::var("FENCEPOST_REDIS_PASSWORD").ok()) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Invalid::new("password_file", path.as_str(), format!("it cannot be read: {error}")))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

fn max_ttl_of(value: &str) -> Result<Duration, Invalid> {
    let max_ttl = value.parse().map(Duration::from_millis).ok();
    max_ttl.filter(|max_ttl| (Duration::from_millis(100)..=MAX_TTL_MAX).contains(max_ttl)).ok_or_else(|| {
        Invalid::new("max_ttl_ms", value, "milliseconds, 100 to 3600000, the same for every client of the cluster")
    })
}

fn node(text: &str, database: u32) -> Result<Node, Invalid> {
    let (credentials, host) = text.rsplit_once('@').map_or((None, text), |(before, host)| (Some(before), host));
    let (user, password) = match credentials {
        None => (None, None),
        Some(words) => {
            let (user, password) = words.split_once(':').unwrap_or((words, ""));
            (Some(decoded(user)?).filter(|user| !user.is_empty()), Some(decoded(password)?))
        }
    };
    let refuse = |cure: &str| Invalid::new("store", format!("…{host}"), cure);
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or("6379")),
        None => host.split_once(':').unwrap_or((host, "6379")),
    };
    if name.is_empty() {
        return Err(refuse("name a host: redis://HOST:PORT"));
    }
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| refuse("a port is a number, 1 to 65535"))?;
    Ok(Node { address: Address::Tcp { host: decoded(name)?, port }, user, password, database })
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Result<String, Invalid> {
    // What was refused may be a password: the error does not repeat it.
    let refuse = || Invalid::new("store", "…%…", "after % come two hexadecimal digits of a UTF-8 byte");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(*byte).to_digit(16)).ok_or_else(refuse);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).map_err(|_| refuse())?);
    }
    String::from_utf8(bytes).map_err(|_| refuse())
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
