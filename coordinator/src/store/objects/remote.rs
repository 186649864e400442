//! A bucket of S3, Google Cloud Storage or Azure. Each request has a time limit and a limited number of retries.

use super::bucket::Listed;
use super::error::ObjectError;
use super::upload::Upload;
use super::url::{ObjectsUrl, Provider};
use crate::store::background::Background;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Name;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Size of a part of an upload or download, in bytes. An upload has at most 10,000 parts.
const PART_BYTES: u64 = 8 << 20;
/// Parts that are on their way at a time.
const PARTS_AT_ONCE: usize = 4;
/// Time limit of one request.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
/// Retries of one request.
const RETRIES_MAX: usize = 4;
/// Time after which a request is not tried again.
const RETRY_WITHIN: Duration = Duration::from_secs(20);
/// Time limit of one operation: a request, its retries, and the wait for earlier parts.
const OPERATION_WITHIN: Duration = Duration::from_secs(90);

/// A bucket.
pub(super) struct Remote {
    store: Arc<dyn ObjectStore>,
    multipart: Arc<dyn MultipartStore>,
    prefix: String,
    background: Background,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its settings have secrets.
        f.debug_struct("Remote").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Remote {
    /// Prepares access. Connects to it later.
    pub(super) fn open(
        url: &ObjectsUrl,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ObjectError> {
        let ObjectsUrl::Bucket { provider, bucket, prefix } = url else { unreachable!("it is a directory") };
        let access = |source: Box<dyn std::error::Error + Send + Sync>| ObjectError::Access {
            url: url.to_string(),
            source,
        };
        // An error means that the process has one already.
        let _known = rustls::crypto::ring::default_provider().install_default();
        let background = Background::new("objects").map_err(|error| access(error.into()))?;
        let (store, multipart) = background
            .wait(OPERATION_WITHIN, async { connect(*provider, bucket, environment) })
            .expect("it does not wait")
            .map_err(|error| access(error.into()))?;
        Ok(Self { store, multipart, prefix: prefix.clone(), background })
    }

    /// Ends each request that waits for an answer, and each later one, with an error.
    pub(super) fn close(&self) {
        self.background.close();
    }

    fn name(&self, name: &str) -> Name {
        Name::from_iter(self.prefix.split('/').chain(name.split('/')).filter(|part| !part.is_empty()))
    }

    fn wait<T>(
        &self,
        (doing, name): (&'static str, &str),
        future: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectError> {
        match self.background.wait(OPERATION_WITHIN, future) {
            Some(result) => result.map_err(ObjectError::store(doing, name)),
            None => Err(ObjectError::store(doing, name)(format!(
                "no answer within {} s",
                OPERATION_WITHIN.as_secs()
            ))),
        }
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), ObjectError> {
        let payload = PutPayload::from(bytes.to_vec());
        self.wait(("store", name), self.store.put(&self.name(name), payload)).map(drop)
    }

    /// Stores a file, a longer one in parts. Returns the name of the object.
    pub(super) fn put_file(&self, name: String, path: &Path, upload: &Upload) -> Result<String, ObjectError> {
        let file = File::open(path).map_err(ObjectError::file("open", path))?;
        if upload.bytes <= PART_BYTES {
            let bytes = part(&file, 0, upload.bytes).map_err(ObjectError::file("read", path))?;
            return self.wait(("store", &name), self.store.put(&self.name(&name), bytes)).map(|_| name);
        }
        match self.put_parts(&name, &file, upload) {
            // The store forgets an upload that is not complete, for example by a rule of the bucket.
            Err(ObjectError::Store { source, .. }) if is_unknown(&*source) && upload.path.exists() => {
                upload.forget();
                self.put_parts(&name, &file, upload)
            }
            stored => stored,
        }
    }

    fn put_parts(&self, name: &str, file: &File, upload: &Upload) -> Result<String, ObjectError> {
        let mut progress = match upload.known() {
            Some(progress) => progress,
            None => {
                let id = self.wait(("begin", name), self.multipart.create_multipart(&self.name(name)))?;
                upload.begun(name.to_owned(), id)
            }
        };
        upload.note(&progress)?;
        let (place, id, name) = (self.name(&progress.name), progress.id.clone(), progress.name.clone());
        let first = progress.parts.len();
        let count = usize::try_from(upload.bytes.div_ceil(PART_BYTES)).unwrap_or(usize::MAX);
        let mut parts = stream::iter(first..count)
            .map(|index| {
                let start = index as u64 * PART_BYTES;
                let bytes = part(file, start, (upload.bytes - start).min(PART_BYTES));
                let (place, id) = (&place, &id);
                async move {
                    let bytes = bytes.map_err(|source| object_store::Error::Generic {
                        store: "file",
                        source: Box::new(source),
                    })?;
                    self.multipart.put_part(place, id, index, bytes).await
                }
            })
            .buffered(PARTS_AT_ONCE);
        while let Some(part) =
            self.wait(("store a part of", &name), async { parts.next().await.transpose() })?
        {
            progress.parts.push(part.content_id);
            upload.note(&progress)?;
        }
        let ids = progress.parts.iter().map(|id| PartId { content_id: id.clone() }).collect();
        self.wait(("complete", &name), self.multipart.complete_multipart(&place, &id, ids))?;
        Ok(name)
    }

    pub(super) fn read(
        &self,
        name: &str,
        length: u64,
        to: &mut (dyn Write + Send),
    ) -> Result<(), ObjectError> {
        let place = self.name(name);
        let count = length.div_ceil(PART_BYTES);
        let mut parts = stream::iter(0..count)
            .map(|index| {
                let start = index * PART_BYTES;
                self.store.get_range(&place, start..(start + PART_BYTES).min(length))
            })
            .buffered(PARTS_AT_ONCE);
        while let Some(bytes) = self.wait(("read", name), async { parts.next().await.transpose() })? {
            to.write_all(&bytes).map_err(ObjectError::store("be copied to this machine:", name))?;
        }
        Ok(())
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), ObjectError> {
        let place = self.name(name);
        let removed = async {
            match self.store.delete(&place).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                removed => removed,
            }
        };
        self.wait(("remove", name), removed)
    }

    pub(super) fn list(&self, each: &mut (dyn FnMut(Listed) + Send)) -> Result<(), ObjectError> {
        let prefix = (!self.prefix.is_empty()).then(|| self.name(""));
        let mut objects = self.store.list(prefix.as_ref());
        while let Some(object) = self.wait(("list", &self.prefix), objects.try_next())? {
            let name = object.location.as_ref();
            let name = name.strip_prefix(self.prefix.as_str()).unwrap_or(name).trim_start_matches('/');
            each(Listed { name: name.to_owned(), changed_ms: object.last_modified.timestamp_millis() });
        }
        Ok(())
    }
}

fn part(file: &File, start: u64, length: u64) -> std::io::Result<PutPayload> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, start)?;
    Ok(PutPayload::from(bytes))
}

/// Returns true if the store does not know the upload.
fn is_unknown(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(error.downcast_ref::<object_store::Error>(), Some(object_store::Error::NotFound { .. }))
}

type Connected = (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>);

fn connect(
    provider: Provider,
    bucket: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> object_store::Result<Connected> {
    let options = ClientOptions::new()
        .with_timeout(REQUEST_WITHIN)
        .with_connect_timeout(Duration::from_secs(5))
        .with_allow_http(false);
    let retries = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_WITHIN,
    };
    // Keys in lower case, as the crate names its settings.
    let environment = environment.map(|(key, value)| (key.to_ascii_lowercase(), value));
    Ok(match provider {
        Provider::S3 => {
            let mut builder = AmazonS3Builder::new().with_region("us-east-1").with_client_options(options);
            for (key, value) in environment.filter(|(key, _)| key.starts_with("aws_")) {
                if let Ok(key) = key.parse() {
                    builder = builder.with_config(key, value);
                }
            }
            let store = Arc::new(builder.with_bucket_name(bucket).with_retry(retries).build()?);
            (store.clone(), store)
        }
        Provider::Gcs => {
            let mut builder = GoogleCloudStorageBuilder::new().with_client_options(options);
            for (key, value) in environment.filter(|(key, _)| key.starts_with("google_")) {
                // The name of the variable that Google's own programs read.
                let key =
                    if key == "google_application_credentials" { "application_credentials" } else { &key };
                if let Ok(key) = key.parse() {
                    builder = builder.with_config(key, value);
                }
            }
            let store = Arc::new(builder.with_bucket_name(bucket).with_retry(retries).build()?);
            (store.clone(), store)
        }
        Provider::Azure => {
            let mut builder = MicrosoftAzureBuilder::new().with_client_options(options);
            for (key, value) in environment.filter(|(key, _)| key.starts_with("azure_")) {
                if let Ok(key) = key.parse() {
                    builder = builder.with_config(key, value);
                }
            }
            let store = Arc::new(builder.with_container_name(bucket).with_retry(retries).build()?);
            (store.clone(), store)
        }
    })
}
