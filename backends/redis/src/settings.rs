//! What stands behind the `?` of a URL.

use std::time::Duration;

use fencepost_core::Invalid;
use fencepost_core::store::percent_decoded;

use crate::keys::Layout;
use crate::replicas::Replicas;
use crate::url::Kind;

/// The most replicas that can be waited for, and the longest wait: a server that is silent for 2 s gets a new link.
const REPLICAS_MAX: u32 = 100;
const REPLICAS_WITHIN_MAX: Duration = Duration::from_millis(1000);

/// The longest that an answer may be waited for.
const ANSWER_WITHIN_MAX: Duration = Duration::from_secs(60);

/// The longest lease that a quorum may be set to.
const MAX_TTL_MAX: Duration = Duration::from_secs(3600);

/// The settings of a URL, with their defaults.
pub(crate) struct Settings {
    prefix: Option<String>,
    pub(crate) layout: Layout,
    pub(crate) database: u32,
    pub(crate) max_ttl: Duration,
    pub(crate) tls: TlsFiles,
    password_file: Option<String>,
    pub(crate) sentinel_user: Option<String>,
    sentinel_password_file: Option<String>,
    replicas: Option<u32>,
    replicas_within: Option<Duration>,
    /// A failover counts as loss of memory.
    pub(crate) waits_after_failover: Option<bool>,
    /// The servers that are to take over, as they stand in the URL.
    pub(crate) next: Option<String>,
    /// How long one answer of one node may take.
    pub(crate) answer_within: Option<Duration>,
    /// Where the servers are reached, if elsewhere than they say.
    pub(crate) via: Option<String>,
}

/// What a URL says about TLS.
#[derive(Default)]
pub(crate) struct TlsFiles {
    /// Whom we trust, in PEM. Default: whom the system trusts.
    pub(crate) ca_file: Option<String>,
    /// Who we are, in PEM, and the key to it.
    pub(crate) cert_file: Option<String>,
    pub(crate) key_file: Option<String>,
    /// The name in the server's certificate. Default: the host of the URL.
    pub(crate) server_name: Option<String>,
    /// Believes whoever answers.
    pub(crate) insecure: bool,
}

impl TlsFiles {
    /// The first setting that was made.
    pub(crate) fn named(&self) -> Option<&'static str> {
        let texts = [
            ("ca_file", &self.ca_file),
            ("cert_file", &self.cert_file),
            ("key_file", &self.key_file),
            ("server_name", &self.server_name),
        ];
        let text = texts.into_iter().find(|(_, value)| value.is_some()).map(|(name, _)| name);
        text.or(self.insecure.then_some("insecure"))
    }
}

impl Settings {
    /// Reads them. `shown` is what may be repeated of a text in an error.
    pub(crate) fn parse(query: &str, shown: &dyn Fn(&str) -> String) -> Result<Self, Invalid> {
        let max_ttl = Duration::from_secs(60);
        let tls = TlsFiles::default();
        let mut settings = Self {
            prefix: None,
            layout: Layout::Fencepost,
            database: 0,
            max_ttl,
            tls,
            password_file: None,
            sentinel_user: None,
            sentinel_password_file: None,
            replicas: None,
            replicas_within: None,
            waits_after_failover: None,
            next: None,
            answer_within: None,
            via: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                // A list of servers, of which each part is encoded by itself.
                "next" => settings.next = Some(value.to_owned()),
                _ => settings.set(key, decoded(value)?, shown)?,
            }
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: String, shown: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
        match key {
            "prefix" if value.starts_with("fp:") => {
                let cure = "`fp:` is where Fencepost keeps what belongs to its locks";
                return Err(Invalid::new("prefix", value, cure));
            }
            "prefix" => self.prefix = Some(value),
            "layout" => {
                let cure = "fencepost, a string, or redisson, the hash of Redisson's RLock";
                self.layout = match value.as_str() {
                    "fencepost" => Layout::Fencepost,
                    "redisson" => Layout::Redisson,
                    _ => return Err(Invalid::new("layout", shown(&value), cure)),
                };
            }
            "db" => {
                let number =
                    value.parse().map_err(|_| Invalid::new("db", shown(&value), "the number of a database"))?;
                self.database = number;
            }
            "max_ttl_ms" => self.max_ttl = max_ttl_of(&value)?,
            "answer_within_ms" => {
                let cure = "how long one answer of one server may take, in milliseconds, 1 to 60000";
                let within = value.parse().map(Duration::from_millis).ok();
                let within = within.filter(|within| (Duration::from_millis(1)..=ANSWER_WITHIN_MAX).contains(within));
                let refuse = || Invalid::new("answer_within_ms", shown(&value), cure);
                self.answer_within = Some(within.ok_or_else(refuse)?);
            }
            "password_file" => self.password_file = Some(value),
            "sentinel_user" => self.sentinel_user = Some(value),
            "sentinel_password_file" => self.sentinel_password_file = Some(value),
            "replicas" => {
                let cure = "how many replicas must have a grant before it counts, 1 to 100";
                let count = value.parse().ok().filter(|count| (1..=REPLICAS_MAX).contains(count));
                self.replicas = Some(count.ok_or_else(|| Invalid::new("replicas", shown(&value), cure))?);
            }
            "replicas_within_ms" => {
                let cure = "how long replicas may take to confirm, in milliseconds, 1 to 1000";
                let within = value.parse().map(Duration::from_millis).ok();
                let within = within.filter(|within| (Duration::from_millis(1)..=REPLICAS_WITHIN_MAX).contains(within));
                let refuse = || Invalid::new("replicas_within_ms", shown(&value), cure);
                self.replicas_within = Some(within.ok_or_else(refuse)?);
            }
            "after_failover" => {
                let cure = "go_on, to grant at once, or wait, until every lease that may be forgotten is over";
                self.waits_after_failover = Some(match value.as_str() {
                    "go_on" => false,
                    "wait" => true,
                    _ => return Err(Invalid::new("after_failover", shown(&value), cure)),
                });
            }
            "via" => self.via = Some(value),
            "ca_file" => self.tls.ca_file = Some(value),
            "cert_file" => self.tls.cert_file = Some(value),
            "key_file" => self.tls.key_file = Some(value),
            "server_name" => self.tls.server_name = Some(value),
            "insecure" => {
                let cure = "true, to accept any server, or false";
                self.tls.insecure = value.parse().map_err(|_| Invalid::new("insecure", shown(&value), cure))?;
            }
            _ => {
                let cure = "a Redis URL takes prefix, layout, db, max_ttl_ms, answer_within_ms, next, password_file, replicas, \
                            replicas_within_ms, after_failover and via; with sentinels also sentinel_user and \
                            sentinel_password_file; with TLS \
                            also ca_file, cert_file, key_file, server_name and insecure";
                return Err(Invalid::new("store", format!("?{}=…", shown(key)), cure));
            }
        }
        Ok(())
    }

    /// What stands before every name. Redisson puts nothing there.
    pub(crate) fn prefix(&self) -> &str {
        let default = if self.layout == Layout::Redisson { "" } else { "lock:" };
        self.prefix.as_deref().unwrap_or(default)
    }

    /// From a file or from the environment, so that it need not stand in a URL.
    pub(crate) fn password(&self) -> Result<Option<String>, Invalid> {
        secret("password_file", self.password_file.as_deref(), "FENCEPOST_REDIS_PASSWORD")
    }

    /// The same for sentinels.
    pub(crate) fn sentinel_password(&self) -> Result<Option<String>, Invalid> {
        secret("sentinel_password_file", self.sentinel_password_file.as_deref(), "FENCEPOST_SENTINEL_PASSWORD")
    }

    /// The first setting that only sentinels have a use for.
    fn of_sentinels(&self) -> Option<&'static str> {
        let user = self.sentinel_user.as_ref().map(|_| "sentinel_user");
        user.or(self.sentinel_password_file.as_ref().map(|_| "sentinel_password_file"))
    }

    /// Refuses what has no meaning for such a deployment.
    pub(crate) fn fit(&self, kind: Kind) -> Result<(), Invalid> {
        if kind != Kind::Sentinels
            && let Some(field) = self.of_sentinels()
        {
            return Err(Invalid::new(field, "…", "only redis+sentinel:// and rediss+sentinel:// have sentinels"));
        }
        if kind != Kind::Quorum && self.next.is_some() {
            let cure = "only the servers of redlock:// are replaced one set by another; see `fencepost reconfigure`";
            return Err(Invalid::new("next", "…", cure));
        }
        if kind == Kind::Quorum && self.replicas.is_some() {
            let cure = "the nodes of redlock:// are masters of their own: leave it out";
            return Err(Invalid::new("replicas", "…", cure));
        }
        if matches!(kind, Kind::One | Kind::Quorum) && self.waits_after_failover.is_some() {
            let cure = "only redis+sentinel:// and redis+cluster:// fail over; redlock:// waits by itself";
            return Err(Invalid::new("after_failover", "…", cure));
        }
        if matches!(kind, Kind::Sentinels | Kind::Cluster) && self.via.is_some() {
            let cure = "servers that are found tell where they are; it is for redis:// and redlock://";
            return Err(Invalid::new("via", "…", cure));
        }
        if kind == Kind::Quorum && self.layout == Layout::Redisson {
            let cure = "Redisson's lock lives on one server, behind sentinels or in a cluster: use redis://, \
                        redis+sentinel:// or redis+cluster://, or leave it out for locks of ours alone";
            return Err(Invalid::new("layout", "redisson", cure));
        }
        let encodes = kind == Kind::Cluster && self.layout == Layout::Fencepost;
        if encodes && self.prefix().contains(['{', '}']) {
            let cure = "in a cluster braces choose where a key lives, and Fencepost does: leave them out";
            return Err(Invalid::new("prefix", self.prefix(), cure));
        }
        Ok(())
    }

    /// How many replicas to wait for, if any.
    pub(crate) fn replicas(&self) -> Result<Option<Replicas>, Invalid> {
        match (self.replicas, self.replicas_within) {
            (None, None) => Ok(None),
            (None, Some(within)) => {
                let cure = "say how many with replicas=, or leave it out";
                Err(Invalid::new("replicas_within_ms", within.as_millis().to_string(), cure))
            }
            (Some(count), within) => Ok(Some(Replicas { count, within: within.unwrap_or(Duration::from_millis(200)) })),
        }
    }
}

fn secret(field: &'static str, path: Option<&str>, variable: &str) -> Result<Option<String>, Invalid> {
    let Some(path) = path else { return Ok(std::env::var(variable).ok()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Invalid::new(field, path, format!("it cannot be read: {error}")))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn max_ttl_of(value: &str) -> Result<Duration, Invalid> {
    let max_ttl = value.parse().map(Duration::from_millis).ok();
    max_ttl.filter(|max_ttl| (Duration::from_millis(100)..=MAX_TTL_MAX).contains(max_ttl)).ok_or_else(|| {
        Invalid::new("max_ttl_ms", value, "milliseconds, 100 to 3600000, the same for every client of the cluster")
    })
}

/// Undoes percent-encoding.
pub(crate) fn decoded(text: &str) -> Result<String, Invalid> {
    // What was refused may be a password: the error does not repeat it.
    percent_decoded(text)
        .ok_or_else(|| Invalid::new("store", "…%…", "after % come two hexadecimal digits of a UTF-8 byte"))
}
