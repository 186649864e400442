//! Where objects are: the value of `store.objects`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A place for objects. It contains no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectsUrl {
    /// A directory that all coordinators share.
    Directory(PathBuf),
    /// A bucket of a cloud provider, or of a server with the same interface.
    Bucket {
        /// Interface of the bucket.
        provider: Provider,
        /// Name of the bucket or container.
        bucket: String,
        /// Prefix of all object names. May be empty.
        prefix: String,
    },
}

/// Interface of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// Amazon S3, and servers with its interface.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Provider {
    const ALL: [(Self, &'static str); 3] = [(Self::S3, "s3"), (Self::Gcs, "gs"), (Self::Azure, "az")];
}

impl FromStr for ObjectsUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{}`: valid are file:///DIRECTORY (shared by all coordinators), s3://BUCKET[/PREFIX], gs://BUCKET[/PREFIX] and az://CONTAINER[/PREFIX]",
                text.escape_debug()
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        if scheme == "file" {
            return Some(rest)
                .filter(|path| path.starts_with('/'))
                .map(|path| Self::Directory(path.into()))
                .ok_or_else(wrong);
        }
        let provider = Provider::ALL.iter().find(|(_, name)| *name == scheme).ok_or_else(wrong)?.0;
        if rest.contains(['@', '?', '#']) {
            // Not the value: it may be a secret.
            return Err("credentials and parameters are not valid in this URL; set the provider's environment variables".to_owned());
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte))
                && !name.contains("//")
        };
        if bucket.is_empty() || !is_name(bucket) || !is_name(prefix) {
            return Err(wrong());
        }
        Ok(Self::Bucket { provider, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for ObjectsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "file://{}", path.display()),
            Self::Bucket { provider, bucket, prefix } => {
                let scheme =
                    Provider::ALL.iter().find(|(known, _)| known == provider).map_or("", |(_, name)| name);
                write!(f, "{scheme}://{bucket}")?;
                if prefix.is_empty() { Ok(()) } else { write!(f, "/{prefix}") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_printed_and_secrets_are_refused() {
        for text in
            ["file:///srv/pool", "s3://bucket", "s3://bucket/a/b", "gs://b.example/x", "az://container/p"]
        {
            assert_eq!(text.parse::<ObjectsUrl>().expect(text).to_string(), text);
        }
        for text in ["", "s3://", "file://x", "ftp://a", "s3://b/a b", "s3://b//x/../y z"] {
            assert!(text.parse::<ObjectsUrl>().is_err(), "{text}");
        }
        let error = "s3://key:secret@bucket".parse::<ObjectsUrl>().expect_err("a secret");
        assert!(!error.contains("secret"), "{error}");
    }
}
