//! The web page of the pool. Its files are part of the program.
//!
//! The page has no data and no access of its own: its scripts send requests to the HTTP API with the user's token.

use crate::app_state::AppState;
use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::{Arc, LazyLock};

/// Content security policy: loads nothing from other origins, sends nothing to them, and forbids
/// scripts in markup and embedding in other pages. Images of artifacts are blobs.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const PROTECTION: [(HeaderName, &str); 3] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// The address of a file contains the hash of all files, so its content never changes.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Compression level; the files are compressed once.
const LEVEL: i32 = 19;

macro_rules! files {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("page/", $name)))),*] };
}

/// The files, except the page itself.
static FILES: [(&str, &str); 27] = files![
    "admin.js",
    "ansi.js",
    "api.js",
    "artifacts.js",
    "app.css",
    "app.js",
    "builds.js",
    "charts.js",
    "components.js",
    "findings.js",
    "folds.js",
    "format.js",
    "help.js",
    "icon.svg",
    "job.js",
    "jobs.js",
    "lines.js",
    "live.js",
    "log.js",
    "overview.js",
    "queue.js",
    "quotas.js",
    "signin.js",
    "tests.js",
    "theme.js",
    "vendor/htm-preact.js",
    "workers.js",
];

/// Files that the page itself names.
const SCRIPTS: [&str; 2] = ["app.js", "theme.js"];

static PAGE: &str = include_str!("page/page.html");

/// A file as it is sent.
struct Sent {
    media_type: &'static str,
    text: String,
    compressed: Vec<u8>,
}

/// The hash of all files, and the files.
struct Assets {
    hash: String,
    page: Sent,
    files: Vec<(&'static str, Sent)>,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| {
    let mut hasher = blake3::Hasher::new();
    for (name, text) in FILES.iter().chain([&("page.html", PAGE)]) {
        hasher.update(name.as_bytes()).update(&[0]).update(text.as_bytes()).update(&[0]);
    }
    let hash = hasher.finalize().to_hex()[..16].to_owned();
    let page = Sent::new(
        "page.html",
        PAGE.replace("{preloads}", &preloads()).replace("{assets}", &format!("assets/{hash}")),
    );
    let files = FILES.iter().map(|(name, text)| (*name, Sent::new(name, (*text).to_owned()))).collect();
    Assets { hash, page, files }
});

/// Names the modules, so that a browser fetches all of them at once and not each after the one that imports it.
fn preloads() -> String {
    let is_module = |name: &&str| name.ends_with(".js") && !SCRIPTS.contains(name);
    let modules = FILES.iter().map(|(name, _)| *name).filter(is_module);
    modules.map(|name| format!("<link rel=\"modulepreload\" href=\"{{assets}}/{name}\">\n")).collect()
}

impl Sent {
    fn new(name: &str, text: String) -> Self {
        let media_type = match name.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        // Compression of bytes in memory can't fail; an empty result means that the uncompressed file is sent.
        let compressed = zstd::encode_all(text.as_bytes(), LEVEL).unwrap_or_default();
        Self { media_type, text, compressed }
    }

    /// Returns the response, compressed if the client accepts that.
    fn response(&self, headers: &HeaderMap, cache: &'static str, tag: &str) -> Response {
        let tag = format!("\"{tag}\"");
        let general = [(header::CACHE_CONTROL, cache), (header::VARY, "accept-encoding")];
        let is_known =
            headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else if accepts_zstd(headers) && !self.compressed.is_empty() {
            ([(header::CONTENT_ENCODING, "zstd")], self.compressed.clone()).into_response()
        } else {
            self.text.clone().into_response()
        };
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        (general, response).into_response()
    }
}

fn accepts_zstd(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|text| text.split(',').any(|one| one.trim() == "zstd"))
}

pub(super) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/", get(page))
        .route("/assets/{hash}/{*name}", get(file))
        .layer(map_response(async |response: Response| (PROTECTION, response).into_response()))
}

async fn page(headers: HeaderMap) -> Response {
    ASSETS.page.response(&headers, "no-cache", &ASSETS.hash)
}

async fn file(headers: HeaderMap, Path((hash, name)): Path<(String, String)>) -> Response {
    let found = ASSETS.files.iter().find(|(known, _)| *known == name && hash == ASSETS.hash);
    match found {
        Some((_, file)) => file.response(&headers, IMMUTABLE, &hash),
        None => (StatusCode::NOT_FOUND, "no such file; load the page again\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ASSETS, FILES};

    /// Limit on all files together, compressed.
    const COMPRESSED_BYTES_MAX: usize = 150 << 10;

    #[test]
    fn the_files_are_small_and_name_each_other() {
        let sizes = ASSETS.files.iter().map(|(_, file)| file.compressed.len());
        let sum: usize = sizes.chain([ASSETS.page.compressed.len()]).sum();
        assert!(sum > 0 && sum <= COMPRESSED_BYTES_MAX, "{sum} bytes");
        for (name, text) in FILES {
            let imports = text.split(" from \"./").skip(1).filter_map(|rest| rest.split('"').next());
            for import in imports {
                assert!(FILES.iter().any(|(known, _)| *known == import), "{name} imports {import}");
            }
        }
    }

    #[test]
    fn no_file_names_another_host() {
        for (name, text) in FILES {
            let own = text.replace("http://www.w3.org/", "");
            assert!(!own.contains("http://") && !own.contains("https://"), "{name}");
        }
    }
}
