//! The dashboard: a page that shows what the interface tells, embedded in the program.
//!
//! The page itself tells nothing about locks, so anybody may have it. What it shows it asks for like any other client,
//! with the credential of whoever looks at it.

use std::sync::{Arc, LazyLock};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderName};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::problem::Problem;

/// Only what comes from here runs or is loaded; nobody puts the page into a frame, and no text becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
/// What the page says when the service asks everybody who they are, so that it asks for a key before it asks for data.
const ASKS: (&str, &str) = ("data-asks-who=\"no\"", "data-asks-who=\"yes\"");

/// A file, and what tells its versions apart.
struct File {
    name: &'static str,
    kind: &'static str,
    text: String,
    tag: String,
}

impl File {
    fn new(name: &'static str, kind: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        let tag = format!("\"{:.32}\"", format!("{:x}", Sha256::digest(&text)));
        Self { name, kind, text, tag }
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let mut known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
        let about = [
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            // A new version of the service must not run beside scripts of the old one.
            (header::CACHE_CONTROL, "no-cache"),
            (header::ETAG, &self.tag),
        ];
        if known.any(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == self.tag)) {
            return (StatusCode::NOT_MODIFIED, about).into_response();
        }
        (about, [(header::CONTENT_TYPE, self.kind)], self.text.clone()).into_response()
    }
}

const PAGE: &str = include_str!("../dashboard/index.html");

/// For who is asked who they are, and for who is not.
static PAGES: LazyLock<[File; 2]> =
    LazyLock::new(|| [File::new("", HTML, PAGE), File::new("", HTML, PAGE.replace(ASKS.0, ASKS.1))]);

static ASSETS: LazyLock<Vec<File>> = LazyLock::new(|| {
    macro_rules! files {
        ($($name:literal: $kind:expr,)*) => {
            vec![$(File::new($name, $kind, include_str!(concat!("../dashboard/", $name))),)*]
        };
    }
    files! {
        "style.css": CSS,
        "views.css": CSS,
        "icon.svg": IMAGE,
        "main.js": SCRIPT,
        "api.js": SCRIPT,
        "book.js": SCRIPT,
        "charts.js": SCRIPT,
        "dialogs.js": SCRIPT,
        "dom.js": SCRIPT,
        "elections.js": SCRIPT,
        "lock.js": SCRIPT,
        "nodes.js": SCRIPT,
        "deadlocks.js": SCRIPT,
        "rows.js": SCRIPT,
        "table.js": SCRIPT,
        "theme.js": SCRIPT,
        "view.js": SCRIPT,
    }
});

/// The page.
pub(crate) async fn page(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    PAGES[usize::from(app.settings.asks_who())].answer(&headers)
}

/// What the page is made of.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|file| file.name == name) {
        Some(file) => file.answer(&headers),
        None => Problem::no_route().into_response(),
    }
}
