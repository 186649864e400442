//! Artifacts that are pictures, as image content of an answer: so an agent sees a screenshot.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use buildpool_client::artifacts::{self, Executables};
use buildpool_client::{Client, chain};
use buildpool_protocol::report::{ArtifactEntry, JobResult};
use rmcp::model::ContentBlock;
use tokio::time::Instant;

/// Largest picture, in bytes. A larger one is listed with the other artifacts only.
const PICTURE_BYTES_MAX: u64 = 1 << 20;
/// Most pictures of one answer.
const PICTURES_MAX: usize = 4;

/// A picture of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Picture {
    media: &'static str,
    base64: String,
}

/// A picture as the protocol has it.
pub(crate) fn block(picture: Picture) -> ContentBlock {
    ContentBlock::image(picture.base64, picture.media)
}

/// The first pictures among the artifacts of some jobs, as far as they come in time. The answer lists all artifacts, so a
/// picture that does not come is not lost.
pub(crate) async fn of(client: &Client, results: &[JobResult], until: Instant) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for result in results {
        for entry in &result.artifacts {
            if !may_be_picture(entry) {
                continue;
            }
            if pictures.len() >= PICTURES_MAX {
                return pictures;
            }
            let job = result.job_id.as_str();
            match tokio::time::timeout_at(until, fetch(client, job, entry)).await {
                Ok(Ok(bytes)) => pictures.extend(picture(&bytes)),
                Ok(Err(error)) => tracing::info!(job, path = entry.path, error, "a picture can't be fetched"),
                Err(_) => return pictures,
            }
        }
    }
    pictures
}

async fn fetch(client: &Client, job: &str, entry: &ArtifactEntry) -> Result<Vec<u8>, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = artifacts::fetch(client, job, entry, directory.path(), Executables::Clear).await;
    let file = file.map_err(|error| chain(&error))?;
    std::fs::read(file).map_err(|error| error.to_string())
}

fn may_be_picture(entry: &ArtifactEntry) -> bool {
    let extension = entry.path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let is_named_so = matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg" | "webp"));
    is_named_so && (1..=PICTURE_BYTES_MAX).contains(&entry.bytes)
}

/// A picture by its first bytes: a client refuses an answer with an image that is not one. Signatures: PNG (W3C PNG 3,
/// section 5.2), JPEG (ITU-T T.81, B.1.1.3), WebP (RFC 9649, section 2.4).
fn picture(bytes: &[u8]) -> Option<Picture> {
    let media = match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return None,
    };
    Some(Picture { media, base64: BASE64_STANDARD.encode(bytes) })
}

#[cfg(test)]
mod tests {
    use super::{PICTURE_BYTES_MAX, may_be_picture, picture};
    use buildpool_protocol::report::ArtifactEntry;

    #[test]
    fn a_picture_is_known_by_its_name_its_size_and_its_first_bytes() {
        let entry =
            |path: &str, bytes: u64| ArtifactEntry { path: path.into(), bytes, ..ArtifactEntry::default() };
        for (path, bytes, expected) in [
            ("shots/home.PNG", 10, true),
            ("a.webp", PICTURE_BYTES_MAX, true),
            ("a.jpeg", PICTURE_BYTES_MAX + 1, false),
            ("a.png", 0, false),
            ("a.svg", 10, false),
            ("png", 10, false),
        ] {
            assert_eq!(may_be_picture(&entry(path, bytes)), expected, "{path} of {bytes} bytes");
        }
        for (bytes, media) in [
            (b"\x89PNG\r\n\x1a\n...".as_slice(), Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0WAVE", None),
            (b"<html>", None),
            (b"", None),
        ] {
            assert_eq!(picture(bytes).map(|picture| picture.media), media, "{bytes:?}");
        }
    }
}
