//! What a URL says: which servers, as whom, below which node.

use std::time::Duration;

use fencepost_core::Invalid;
use fencepost_core::store::{password_from, percent_decoded};

/// Where a server listens unless the URL says otherwise.
const PORT: u16 = 2181;
/// Where locks are, unless the URL says otherwise.
const ROOT: &str = "/fencepost";
/// The most servers in a URL.
const SERVERS_MAX: usize = 9;
/// What a session lasts longer than what it keeps, at least: servers tell their leader twice per tick whom they have
/// heard, and ticks are 2 s by default.
const SLACK_MIN: Duration = Duration::from_secs(2);
/// What is only remembered is kept for so long.
const REMEMBER: Duration = Duration::from_secs(48 * 3600);

/// Everything a URL says. It has a password in it, so it is not for printing.
#[derive(Clone)]
pub(crate) struct Settings {
    /// `HOST:PORT` each.
    pub(crate) servers: Vec<String>,
    /// Where to begin, so that clients spread.
    pub(crate) first_server: usize,
    pub(crate) user: Option<(String, String)>,
    /// The node below which all locks are; empty: the root.
    pub(crate) root: String,
    slack: Option<Duration>,
    pub(crate) remember: Duration,
}

impl Settings {
    /// Reads a URL: the part before `:` and the part after it. No error repeats a password.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<Self, Invalid> {
        let rest = rest.strip_prefix("//").ok_or_else(|| Invalid::new("store", scheme, "write zk://HOST:PORT"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (servers, path) = place.split_once('/').map_or((place, None), |(servers, path)| (servers, Some(path)));
        let servers: Vec<String> = servers.split(',').map(server).collect::<Result<_, _>>()?;
        if servers.len() > SERVERS_MAX {
            let cure = format!("name at most {SERVERS_MAX} servers of the ensemble");
            return Err(Invalid::new("store", servers.len().to_string(), cure));
        }
        let mut settings = Self {
            first_server: chance(servers.len()),
            servers,
            user: None,
            root: path.filter(|path| !path.is_empty()).map_or(Ok(ROOT.to_owned()), root)?,
            slack: None,
            remember: REMEMBER,
        };
        let mut password = std::env::var("FENCEPOST_ZOOKEEPER_PASSWORD").ok();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(key, value)?;
            match key {
                "slack" => settings.slack = Some(span("slack", &value)?),
                "remember" => settings.remember = span("remember", &value)?,
                "password_file" => password = Some(password_from(&value)?),
                _ => return Err(Invalid::new("store", key, "settings are slack, remember, password_file")),
            }
        }
        if let Some(user) = user {
            let (name, inline) = user.split_once(':').map_or((user, None), |(name, word)| (name, Some(word)));
            let name = decoded("user", name)?;
            let inline = inline.map(|word| decoded("password", word)).transpose()?;
            let cure = "write USER:PASSWORD@, or name a password_file, or set FENCEPOST_ZOOKEEPER_PASSWORD";
            let word = inline.or(password).ok_or_else(|| Invalid::new("password", &name, cure))?;
            if name.is_empty() || name.contains(':') {
                return Err(Invalid::new("user", &name, "a user of ZooKeeper has a name without a colon"));
            }
            settings.user = Some((name, word));
        }
        Ok(settings)
    }

    /// How much longer than this a session is asked to last.
    pub(crate) fn slack_for(&self, kept: Duration) -> Duration {
        self.slack.unwrap_or_else(|| (kept / 3).max(SLACK_MIN))
    }

    /// How much longer than what it keeps it has to last.
    pub(crate) fn slack_min(&self) -> Duration {
        self.slack.unwrap_or(SLACK_MIN)
    }

    /// How people know it.
    pub(crate) fn label(&self) -> String {
        format!("zookeeper {}{}", self.servers.join(","), self.root)
    }
}

fn server(text: &str) -> Result<String, Invalid> {
    let cure = "write HOST:PORT, or several, joined by commas";
    let refuse = || Invalid::new("store", text, cure);
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().map_err(|_| refuse())?),
        _ => (text, PORT),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    if host.is_empty() || !host.bytes().all(plain) {
        return Err(refuse());
    }
    Ok(format!("{host}:{port}"))
}

/// `a/b` as `/a/b`.
fn root(path: &str) -> Result<String, Invalid> {
    let path = decoded("path", path)?;
    let path = path.strip_suffix('/').unwrap_or(&path);
    let is_good = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control);
    if !path.split('/').all(is_good) || path.split('/').next() == Some("zookeeper") {
        let cure = "write the node below which locks shall be, as zk://HOST/NODE or zk://HOST/NODE/NODE";
        return Err(Invalid::new("store", path, cure));
    }
    Ok(format!("/{path}"))
}

/// `10s`, `500ms`, `12h`, `2d`.
fn span(field: &'static str, text: &str) -> Result<Duration, Invalid> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let refuse = || Invalid::new(field, text, "write it as 500ms, 10s, 12h or 2d");
    let number: u64 = number.parse().map_err(|_| refuse())?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(refuse()),
    };
    // Longer than anybody waits, and not too long to be counted.
    Ok(Duration::from_millis(number.saturating_mul(ms).min(86_400_000 * 3650)))
}

/// Any number below this one.
fn chance(below: usize) -> usize {
    let mut bytes = [0; 4];
    // Without random bytes all begin with the first.
    let _ = getrandom::fill(&mut bytes);
    usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(0) % below.max(1)
}

fn decoded(key: &str, text: &str) -> Result<String, Invalid> {
    percent_decoded(text).ok_or_else(|| Invalid::new("store", key, "this part of the URL is not percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_a_user_a_node_and_settings() {
        let settings = Settings::parse("zk", "//me:s%40t@a,b:1,[::1]:2/jobs/eu?slack=10s&remember=12h").expect("good");
        assert_eq!(settings.servers, ["a:2181", "b:1", "[::1]:2"]);
        assert_eq!(settings.user, Some(("me".to_owned(), "s@t".to_owned())));
        assert_eq!((settings.root.as_str(), settings.remember), ("/jobs/eu", Duration::from_secs(12 * 3600)));
        assert_eq!(
            (settings.slack_for(Duration::ZERO), settings.slack_min()),
            (Duration::from_secs(10), Duration::from_secs(10))
        );
        let plain = Settings::parse("zookeeper", "//a/").expect("good");
        assert_eq!((plain.root.as_str(), plain.user.is_none()), ("/fencepost", true));
        assert_eq!(plain.slack_for(Duration::from_secs(30)), Duration::from_secs(10));
        assert_eq!(plain.slack_for(Duration::from_secs(1)), SLACK_MIN);
    }

    #[test]
    fn bad_urls_are_refused_with_their_field_and_without_the_password() {
        for (url, field) in [
            ("//me:secret@", "store"),
            ("//me:secret@a:b", "store"),
            ("//me:secret@a/b//c", "store"),
            ("//me:secret@a/zookeeper/x", "store"),
            ("//me:secret@a/..", "store"),
            ("//me:secret@a?slack=soon", "slack"),
            ("//me:secret@a?remember=2weeks", "remember"),
            ("//me:secret@a?slack=%zz", "store"),
            ("//me:secret@a?colour=red", "store"),
            ("//me@a?password_file=/nowhere", "password_file"),
            ("//:secret@a", "user"),
        ] {
            let error = Settings::parse("zk", url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert_eq!(error.field, field, "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
