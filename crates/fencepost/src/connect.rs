//! URL to store: the only list of back ends.

use fencepost_core::store::{self, Memory};
use fencepost_core::{Connect, Invalid};

/// Connects to where a URL says that locks live.
///
/// `connect("sqlite:").await?`, options between: `connect("sqlite:").label("api-3").await?`. A bad URL is reported when
/// the answer is awaited.
///
/// | URL | where locks live |
/// |---|---|
/// | `sqlite:` | a file below the user's state directory, created on first use |
/// | `sqlite:PATH` | that file |
/// | `memory:` | this connection |
pub fn connect(url: impl Into<String>) -> Connect {
    let url = url.into();
    match url.split_once(':') {
        Some(("memory", "")) => store::connect(|opening| Ok(vec![Memory::new(opening.clock)])),
        #[cfg(feature = "sqlite")]
        Some(("sqlite", path)) => fencepost_sqlite::connect(path),
        _ => Connect::invalid(Invalid::new("store", redacted(&url), cure())),
    }
}

fn cure() -> String {
    let known = [("memory:", true), ("sqlite:PATH", cfg!(feature = "sqlite"))];
    let known: Vec<&str> = known.into_iter().filter(|(_, built_in)| *built_in).map(|(url, _)| url).collect();
    format!("this build knows {}", known.join(", "))
}

/// A URL without its credentials, for errors and logs.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => url.to_owned(),
    }
}
