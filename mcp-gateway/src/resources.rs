//! Artifacts as MCP resources. An answer contains only links to them; a client reads an artifact by
//! its link.

use crate::handler::pool_error;
use crate::render::Link;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use buildpool_client::artifacts::{self, Executables};
use buildpool_client::{Client, chain};
use buildpool_protocol::client_link::View;
use buildpool_protocol::spec::Verbosity;
use rmcp::ErrorData as McpError;
use rmcp::model::{ContentBlock, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

/// Maximum size of an artifact that is read over MCP, in bytes, because it goes into a model's
/// context. `buildpool artifacts` has no such limit.
const READ_BYTES_MAX: u64 = 256 << 10;
/// Prefix of an artifact's URI.
const SCHEME: &str = "buildpool://jobs/";
/// Separator between the job id and the path.
const BETWEEN: &str = "/artifacts/";

/// Converts a link into MCP content.
pub(crate) fn block(link: Link) -> ContentBlock {
    ContentBlock::resource_link(Resource::new(link.address, link.name).with_size(link.bytes))
}

/// Returns the URI template of all links.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{SCHEME}{{job_id}}{BETWEEN}{{+path}}"), "artifact")
        .with_description("A file that a job made, as its answer links to it; at most 256 KiB are read here")
}

/// Reads an artifact, as text if it is UTF-8.
///
/// # Errors
/// Invalid parameters if the artifact does not exist, is too large, or the caller may not read it.
pub(crate) async fn read(client: &Client, uri: &str) -> Result<ReadResourceResult, McpError> {
    let wrong = |text: String| McpError::invalid_params(text, Some(json!({"uri": uri})));
    let Some((job, path)) = parse(uri) else {
        return Err(wrong(format!("there is no resource {uri:?}; valid is {SCHEME}JOB{BETWEEN}PATH")));
    };
    let view = View { verbosity: Some(Verbosity::Minimal), ..View::default() };
    let result = client.job(&job, view, Duration::ZERO).await.map_err(|error| pool_error(&error))?;
    let Some(entry) = result.artifacts.iter().find(|entry| entry.path == path) else {
        return Err(wrong(format!("job {} has no artifact {path:?}", result.job_id)));
    };
    if entry.bytes > READ_BYTES_MAX {
        return Err(wrong(format!(
            "the artifact has {} bytes; at most {READ_BYTES_MAX} are read here, `buildpool artifacts {} -o DIR` fetches it",
            entry.bytes, result.job_id
        )));
    }
    let internal = |text: String| McpError::internal_error(text, None);
    let directory =
        tempfile::tempdir().map_err(|error| internal(format!("no temporary directory: {error}")))?;
    let file = artifacts::fetch(client, &result.job_id, entry, directory.path(), Executables::Clear)
        .await
        .map_err(|error| internal(chain(&error)))?;
    let bytes =
        std::fs::read(&file).map_err(|error| internal(format!("reading {}: {error}", file.display())))?;
    let contents = match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => ResourceContents::blob(BASE64_STANDARD.encode(error.as_bytes()), uri),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Returns the URI of an artifact.
pub(crate) fn address(job: &str, path: &str) -> String {
    let mut text = format!("{SCHEME}{job}{BETWEEN}");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Parses the job id and the path from the URI of an artifact.
fn parse(uri: &str) -> Option<(String, String)> {
    let (job, path) = uri.strip_prefix(SCHEME)?.split_once(BETWEEN)?;
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            other => other,
        });
    }
    let path = String::from_utf8(bytes).ok().filter(|path| !path.is_empty())?;
    Some((job.to_owned(), path))
}

#[cfg(test)]
mod tests {
    use super::{address, parse};

    #[test]
    fn an_address_leads_back_to_its_artifact() {
        for path in ["out/a.xml", "a b/\u{e4}%20#?.txt", "..%2f", "x", "odd\u{1b}\n|"] {
            let uri = address("018f", path);
            assert!(uri.is_ascii() && !uri.contains([' ', '#', '?']), "{uri}");
            assert_eq!(parse(&uri), Some(("018f".to_owned(), path.to_owned())), "{uri}");
        }
        for wrong in [
            "",
            "buildpool://jobs/1",
            "buildpool://jobs/1/artifacts/",
            "file:///etc/passwd",
            "buildpool://jobs/1/artifacts/%zz",
            "buildpool://jobs/1/artifacts/%4",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
