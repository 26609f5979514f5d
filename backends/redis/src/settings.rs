//! What stands behind the `?` of a URL.

use std::time::Duration;

use fencepost_core::Invalid;

/// The longest lease that a quorum may be set to.
const MAX_TTL_MAX: Duration = Duration::from_secs(3600);

/// The settings of a URL, with their defaults.
pub(crate) struct Settings {
    pub(crate) prefix: String,
    pub(crate) database: u32,
    pub(crate) max_ttl: Duration,
    pub(crate) tls: TlsFiles,
    password_file: Option<String>,
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
        let mut settings = Self { prefix: "lock:".into(), database: 0, max_ttl, tls, password_file: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            settings.set(key, decoded(value)?, shown)?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: String, shown: &dyn Fn(&str) -> String) -> Result<(), Invalid> {
        match key {
            "prefix" if value.starts_with("fp:") => {
                let cure = "`fp:` is where Fencepost keeps what belongs to its locks";
                return Err(Invalid::new("prefix", value, cure));
            }
            "prefix" => self.prefix = value,
            "db" => {
                let number =
                    value.parse().map_err(|_| Invalid::new("db", shown(&value), "the number of a database"))?;
                self.database = number;
            }
            "max_ttl_ms" => self.max_ttl = max_ttl_of(&value)?,
            "password_file" => self.password_file = Some(value),
            "ca_file" => self.tls.ca_file = Some(value),
            "cert_file" => self.tls.cert_file = Some(value),
            "key_file" => self.tls.key_file = Some(value),
            "server_name" => self.tls.server_name = Some(value),
            "insecure" => {
                let cure = "true, to believe whoever answers, or false";
                self.tls.insecure = value.parse().map_err(|_| Invalid::new("insecure", shown(&value), cure))?;
            }
            _ => {
                let cure = "a Redis URL takes prefix, db, max_ttl_ms and password_file; with TLS also ca_file, \
                            cert_file, key_file, server_name and insecure";
                return Err(Invalid::new("store", format!("?{}=…", shown(key)), cure));
            }
        }
        Ok(())
    }

    /// From a file or from the environment, so that it need not stand in a URL.
    pub(crate) fn password(&self) -> Result<Option<String>, Invalid> {
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

/// Undoes percent-encoding.
pub(crate) fn decoded(text: &str) -> Result<String, Invalid> {
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
