//! What a URL says: which replicas, and as whom.

use fencepost_core::Invalid;
use fencepost_core::store::{password_from, percent_decoded};

/// Where a service listens unless the URL says otherwise.
const PORT: u16 = 7117;
/// The most replicas in a URL.
const REPLICAS_MAX: usize = 9;

/// Everything a URL says. It has a credential in it, so it is not for printing.
#[derive(Clone)]
pub(crate) struct Settings {
    /// `HOST:PORT` each.
    pub(crate) replicas: Vec<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) tls: bool,
    /// Files in PEM.
    pub(crate) ca_file: Option<String>,
    pub(crate) cert_file: Option<String>,
    pub(crate) key_file: Option<String>,
}

impl Settings {
    /// Reads a URL: the part before `:` and the part after it. No error repeats a credential.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<Self, Invalid> {
        let cure = "write fencepost+http://HOST:PORT";
        let rest = rest.strip_prefix("//").ok_or_else(|| Invalid::new("store", scheme, cure))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if place.contains('@') {
            let cure = "a credential in a URL is seen by others: name a file in api_key_file or FENCEPOST_API_KEY_FILE";
            return Err(Invalid::new("store", scheme, cure));
        }
        let place = place.strip_suffix('/').unwrap_or(place);
        let replicas: Vec<String> = place.split(',').map(replica).collect::<Result<_, _>>()?;
        if replicas.len() > REPLICAS_MAX {
            return Err(Invalid::new(
                "store",
                replicas.len().to_string(),
                format!("name at most {REPLICAS_MAX} replicas"),
            ));
        }
        let tls = scheme.ends_with("+https");
        let mut settings = Self { replicas, api_key: None, tls, ca_file: None, cert_file: None, key_file: None };
        let mut key_file = std::env::var("FENCEPOST_API_KEY_FILE").ok().filter(|path| !path.is_empty());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let unreadable = || Invalid::new("store", key, "percent-encode its value");
            let value = percent_decoded(value).ok_or_else(unreadable)?;
            match key {
                "api_key_file" => key_file = Some(value),
                "ca_file" => settings.ca_file = Some(value),
                "cert_file" => settings.cert_file = Some(value),
                "key_file" => settings.key_file = Some(value),
                _ => {
                    let cure = "settings are api_key_file, ca_file, cert_file, key_file";
                    return Err(Invalid::new("store", key, cure));
                }
            }
        }
        let files =
            [("ca_file", &settings.ca_file), ("cert_file", &settings.cert_file), ("key_file", &settings.key_file)];
        if let (false, Some((field, Some(file)))) = (tls, files.iter().find(|(_, file)| file.is_some())) {
            return Err(Invalid::new(field, file.as_str(), "it is for TLS: write fencepost+https://"));
        }
        settings.api_key = key_file.map(|path| password_from(&path)).transpose()?;
        Ok(settings)
    }
}

/// `HOST:PORT`, with the usual port if none is said.
fn replica(text: &str) -> Result<String, Invalid> {
    let cure = "write HOST:PORT, several separated by commas";
    let has_port = text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let full = if has_port { text.to_owned() } else { format!("{text}:{PORT}") };
    let authority: http::uri::Authority = full.parse().map_err(|_| Invalid::new("store", text, cure))?;
    if authority.host().is_empty() || authority.port_u16().is_none() {
        return Err(Invalid::new("store", text, cure));
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_have_ports_and_credentials_come_from_files() {
        let settings = Settings::parse("fencepost+http", "//a,b:9,[::1],[::1]:8/").expect("valid");
        assert_eq!(settings.replicas, ["a:7117", "b:9", "[::1]:7117", "[::1]:8"]);
        assert!(!settings.tls);
        for bad in ["a", "//", "//a:b", "//a,,b", "//a?x=1", "//a?ca_file=x", "//secret@a"] {
            let invalid = Settings::parse("fencepost+http", bad).err().expect("refused");
            assert!(!invalid.to_string().contains("secret"), "{invalid}");
        }
    }
}
