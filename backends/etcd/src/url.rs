//! What a URL says: which servers, as whom, under which prefix.

use fencepost_core::Invalid;
use fencepost_core::store::{password_from, percent_decoded};

/// Where a server listens unless the URL says otherwise.
const PORT: u16 = 2379;
/// Before every key, unless the URL says otherwise.
pub(crate) const PREFIX: &str = "fencepost/";
/// The most servers in a URL.
const SERVERS_MAX: usize = 9;

/// Everything a URL says. It has a password in it, so it is not for printing.
#[derive(Clone)]
pub(crate) struct Settings {
    /// `HOST:PORT` each.
    pub(crate) servers: Vec<String>,
    pub(crate) user: Option<(String, String)>,
    pub(crate) prefix: String,
    pub(crate) tls: bool,
    /// Files in PEM.
    pub(crate) ca_file: Option<String>,
    pub(crate) cert_file: Option<String>,
    pub(crate) key_file: Option<String>,
}

impl Settings {
    /// Reads a URL: the part before `:` and the part after it. No error repeats a password.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<Self, Invalid> {
        let rest = rest.strip_prefix("//").ok_or_else(|| Invalid::new("store", scheme, "write etcd://HOST:PORT"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        let servers: Vec<String> = place.split(',').map(server).collect::<Result<_, _>>()?;
        if servers.len() > SERVERS_MAX {
            let cure = format!("name at most {SERVERS_MAX} members of the cluster");
            return Err(Invalid::new("store", servers.len().to_string(), cure));
        }
        let tls = scheme.ends_with("+tls");
        let mut settings = Self {
            servers,
            user: None,
            prefix: PREFIX.to_owned(),
            tls,
            ca_file: None,
            cert_file: None,
            key_file: None,
        };
        let mut password = std::env::var("FENCEPOST_ETCD_PASSWORD").ok();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(key, value)?;
            match key {
                "prefix" => settings.prefix = value,
                "ca_file" => settings.ca_file = Some(value),
                "cert_file" => settings.cert_file = Some(value),
                "key_file" => settings.key_file = Some(value),
                "password_file" => password = Some(password_from(&value)?),
                _ => {
                    return Err(Invalid::new(
                        "store",
                        key,
                        "settings are prefix, ca_file, cert_file, key_file, password_file",
                    ));
                }
            }
        }
        settings.check_files()?;
        if settings.prefix.contains('~') {
            return Err(Invalid::new("prefix", &settings.prefix, "leave out the `~`"));
        }
        if let Some(user) = user {
            let (name, inline) = user.split_once(':').map_or((user, None), |(name, word)| (name, Some(word)));
            let name = decoded("user", name)?;
            let inline = inline.map(|word| decoded("password", word)).transpose()?;
            let cure = "write USER:PASSWORD@, or name a password_file, or set FENCEPOST_ETCD_PASSWORD";
            let word = inline.or(password).ok_or_else(|| Invalid::new("password", &name, cure))?;
            settings.user = Some((name, word));
        }
        Ok(settings)
    }

    fn check_files(&self) -> Result<(), Invalid> {
        let files = [("ca_file", &self.ca_file), ("cert_file", &self.cert_file), ("key_file", &self.key_file)];
        if let (false, Some((field, Some(file)))) = (self.tls, files.iter().find(|(_, file)| file.is_some())) {
            return Err(Invalid::new(field, file.as_str(), "it is for TLS: write etcd+tls://"));
        }
        if self.cert_file.is_some() != self.key_file.is_some() {
            return Err(Invalid::new("cert_file", "", "a certificate needs its key: cert_file and key_file"));
        }
        Ok(())
    }

    /// How people know it.
    pub(crate) fn label(&self) -> String {
        format!("etcd {}", self.servers.join(","))
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

fn decoded(key: &str, text: &str) -> Result<String, Invalid> {
    percent_decoded(text).ok_or_else(|| Invalid::new("store", key, "this part of the URL is not percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_a_user_and_a_prefix() {
        let settings = Settings::parse("etcd", "//me:s%40t@a,b:1,[::1]:2?prefix=jobs%2F").expect("good");
        assert_eq!(settings.servers, ["a:2379", "b:1", "[::1]:2"]);
        assert_eq!(settings.user, Some(("me".to_owned(), "s@t".to_owned())));
        assert_eq!((settings.prefix.as_str(), settings.tls), ("jobs/", false));
        let plain = Settings::parse("etcd+tls", "//a/").expect("good");
        assert_eq!((plain.prefix.as_str(), plain.tls, plain.user), ("fencepost/", true, None));
    }

    #[test]
    fn bad_urls_are_refused_with_their_field_and_without_the_password() {
        for (url, field) in [
            ("//me:secret@", "store"),
            ("//me:secret@a:b", "store"),
            ("//me:secret@a?prefix=~", "prefix"),
            ("//me:secret@a?prefix=%zz", "store"),
            ("//me:secret@a?colour=red", "store"),
            ("//me:secret@a?ca_file=x", "ca_file"),
            ("//me@a?password_file=/nowhere", "password_file"),
        ] {
            let error = Settings::parse("etcd", url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert_eq!(error.field, field, "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert_eq!(Settings::parse("etcd+tls", "//a?cert_file=x").err().map(|error| error.field), Some("cert_file"));
    }
}
