//! Who sent the browser: a page of another site must not drive a service that asks for no credentials.

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether the request was meant for this machine: names that others can point at us (DNS rebinding) are refused.
pub(crate) fn is_for_this_machine(uri: &Uri, headers: &HeaderMap) -> bool {
    host(uri, headers).is_some_and(|host| is_loopback(without_port(host)))
}

/// Whether a page of another origin made a browser send this. Programs send no such headers.
pub(crate) fn is_cross_site(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(FETCH_SITE).iter();
    if sites.any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none")) {
        return true;
    }
    let ours = host(uri, headers);
    headers.get_all(ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.is_none_or(|(scheme, from)| !matches!(scheme, "http" | "https") || ours != Some(from))
    })
}

/// The one host that the request names; `None` if it names none, or two.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut named = headers.get_all(HOST).iter();
    let (first, second) = (named.next().map(HeaderValue::to_str), named.next());
    match (uri.authority(), first, second) {
        (_, _, Some(_)) => None,
        (Some(authority), None, None) => Some(authority.as_str()),
        (Some(authority), Some(Ok(host)), None) => (authority.as_str() == host).then_some(host),
        (None, Some(Ok(host)), None) => Some(host),
        _ => None,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_taken() {
        let path = Uri::from_static("/v1/locks");
        for good in ["localhost", "localhost:7117", "127.0.0.1:7117", "127.0.0.2", "[::1]", "[::1]:7117", "LOCALHOST:1"]
        {
            assert!(is_for_this_machine(&path, &headers(&[("host", good)])), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:7117",
            "localhost.evil.example",
            "10.0.0.1:7117",
            "127.0.0.1.nip.io",
            "0.0.0.0",
            "::1:x",
            "localhost:x",
            "[::1",
            "evil@localhost",
        ] {
            assert!(!is_for_this_machine(&path, &headers(&[("host", bad)])), "{bad}");
        }
        assert!(!is_for_this_machine(&path, &headers(&[])));
        assert!(!is_for_this_machine(&path, &headers(&[("host", "localhost"), ("host", "evil.example")])));
        let absolute = Uri::from_static("http://evil.example/v1/locks");
        assert!(!is_for_this_machine(&absolute, &headers(&[("host", "localhost")])));
        assert!(is_for_this_machine(&Uri::from_static("http://localhost:1/"), &headers(&[])));
    }

    #[test]
    fn a_page_of_another_site_is_seen() {
        let path = Uri::from_static("/v1/locks");
        let from = |pairs: &[(&'static str, &str)]| {
            let mut all = headers(&[("host", "localhost:7117")]);
            all.extend(headers(pairs));
            is_cross_site(&path, &all)
        };
        assert!(!from(&[]));
        assert!(!from(&[("origin", "http://localhost:7117"), ("sec-fetch-site", "same-origin")]));
        assert!(!from(&[("sec-fetch-site", "none")]));
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost",
            "http://localhost:3000",
            "file://",
            "ftp://localhost:7117",
        ] {
            assert!(from(&[("origin", origin)]), "{origin}");
        }
        assert!(from(&[("origin", "http://localhost:7117"), ("origin", "http://evil.example")]));
        assert!(from(&[("sec-fetch-site", "cross-site")]) && from(&[("sec-fetch-site", "same-site")]));
    }
}
