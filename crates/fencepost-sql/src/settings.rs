//! What a URL says beyond what the driver reads: settings of our own behind the `?`.

use fencepost_core::Invalid;
use fencepost_core::store::{password_from, percent_decoded};

use crate::tables::Tables;

/// Connections for steps, unless the URL says otherwise.
const POOL: usize = 8;
const POOL_MAX: usize = 1000;

/// Our settings, and the URL without them. It may have a password in it, so it is not for printing.
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct Settings {
    /// For the driver.
    pub url: String,
    /// Names of tables.
    pub tables: Tables,
    /// At most so many connections for steps.
    pub pool: usize,
    /// By TLS, with a certificate for the host's name from one whom we trust.
    pub tls: bool,
    /// Whom to trust, in PEM.
    pub ca_file: Option<String>,
    /// The password, if it is in a file.
    pub password: Option<String>,
    /// Whether letters are used where the database carries them.
    pub listen: bool,
}

impl Settings {
    /// Reads `SCHEME:REST`. `quote` is what the dialect puts around names.
    ///
    /// # Errors
    /// A setting that makes no sense. No error repeats a password.
    pub fn parse(scheme: &str, rest: &str, quote: char) -> Result<Self, Invalid> {
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut schema, mut prefix, mut pool, mut tls) = (None, "fencepost".to_owned(), POOL, false);
        let (mut ca_file, mut password, mut listen, mut drivers) = (None, None, true, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(key, value)?;
            match key {
                "schema" => schema = Some(value),
                "tables" => prefix = value,
                "pool" => {
                    let number = value.parse().ok().filter(|number| (1..=POOL_MAX).contains(number));
                    let cure = format!("how many connections, 1 to {POOL_MAX}");
                    pool = number.ok_or_else(|| Invalid::new("pool", value, cure))?;
                }
                "sslmode" => {
                    tls = match value.as_str() {
                        "disable" => false,
                        "require" | "verify-full" => true,
                        _ => return Err(Invalid::new("sslmode", value, "disable, or require, which verifies too")),
                    };
                }
                "ca_file" => ca_file = Some(value),
                "password_file" => password = Some(password_from(&value)?),
                "listen" => {
                    listen = match value.as_str() {
                        "on" => true,
                        "off" => false,
                        _ => return Err(Invalid::new("listen", value, "on or off")),
                    };
                }
                _ => drivers.push(pair),
            }
        }
        let query = if drivers.is_empty() { String::new() } else { format!("?{}", drivers.join("&")) };
        let url = format!("{scheme}:{address}{query}");
        let tables = Tables::new(quote, schema.as_deref(), &prefix)?;
        if ca_file.is_some() && !tls {
            return Err(Invalid::new("ca_file", ca_file.unwrap_or_default(), "it is for TLS: set sslmode=require"));
        }
        Ok(Self { url, tables, pool, tls, ca_file, password, listen })
    }
}

fn decoded(key: &str, text: &str) -> Result<String, Invalid> {
    percent_decoded(text).ok_or_else(|| Invalid::new("store", key, "a setting of the URL is not percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_settings_are_taken_out_and_the_drivers_stay() {
        let rest = "//u:secret@h:1/db?tables=a%20b&connect_timeout=3&pool=2&schema=s&sslmode=require&listen=off";
        let settings = Settings::parse("postgres", rest, '"').expect("good");
        assert_eq!(settings.url, "postgres://u:secret@h:1/db?connect_timeout=3");
        assert_eq!((settings.pool, settings.tls, settings.listen), (2, true, false));
        assert_eq!(settings.tables.fill("{locks}"), r#""s"."a b_locks""#);
    }

    #[test]
    fn bad_settings_are_refused_with_their_field() {
        for (query, field) in [
            ("pool=0", "pool"),
            ("sslmode=maybe", "sslmode"),
            ("tables=", "tables"),
            ("listen=yes", "listen"),
            ("pool=%zz", "store"),
        ] {
            let error = Settings::parse("postgres", &format!("//u:secret@h/db?{query}"), '"').err().expect("refused");
            assert_eq!(error.field, field);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
