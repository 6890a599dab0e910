//! Opens the store behind a URL, and says clearly why it cannot.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use parking_lot::Mutex;
use weir_types::{ErrorKind, FsError, Result};

use crate::extended::Extended;
use crate::local::LocalStore;
#[cfg(any(feature = "gcp", feature = "azure"))]
use crate::options::no_retries;
use crate::{BucketUrl, ConnectOptions, Scheme, aws};

/// The stores of `memory://`, by name, for as long as the process lives.
static MEMORY: Mutex<Option<HashMap<String, InMemory>>> = Mutex::new(None);

/// The bare store of a URL's whole bucket: nothing counted, nothing retried. For decorators that
/// belong below both; all else wants [`crate::Bucket::connect`]. Makes no request.
///
/// # Errors
/// As [`crate::Bucket::connect`].
pub fn open_store(url: &BucketUrl, options: &ConnectOptions) -> Result<Arc<dyn ObjectStore>> {
    match url.scheme() {
        Scheme::S3 => aws::open(url, options),
        Scheme::Gcs => gcs(url),
        Scheme::Azure => azure(url),
        Scheme::File => {
            let directory = url.directory().unwrap_or(Path::new("/"));
            is_directory(directory)?;
            Ok(Arc::new(LocalStore::open(directory, options.shared)?))
        }
        Scheme::Memory => {
            let mut stores = MEMORY.lock();
            let stores = stores.get_or_insert_default();
            let store = stores.entry(url.bucket().to_owned()).or_default().clone();
            Ok(Arc::new(Extended::new(store, None)))
        }
    }
}

#[cfg(feature = "gcp")]
fn gcs(url: &BucketUrl) -> Result<Arc<dyn ObjectStore>> {
    let builder = object_store::gcp::GoogleCloudStorageBuilder::from_env();
    let builder = builder.with_bucket_name(url.bucket()).with_retry(no_retries());
    let built = builder.build().map_err(|e| crate::failure::tell(&format!("opening {url}"), e))?;
    Ok(Arc::new(Extended::new(built, None)))
}

#[cfg(not(feature = "gcp"))]
fn gcs(url: &BucketUrl) -> Result<Arc<dyn ObjectStore>> {
    Err(not_built(url, "gcp"))
}

#[cfg(feature = "azure")]
fn azure(url: &BucketUrl) -> Result<Arc<dyn ObjectStore>> {
    let builder = object_store::azure::MicrosoftAzureBuilder::from_env();
    let builder = builder.with_container_name(url.bucket()).with_retry(no_retries());
    let built = builder.build().map_err(|e| crate::failure::tell(&format!("opening {url}"), e))?;
    Ok(Arc::new(Extended::new(built, None)))
}

#[cfg(not(feature = "azure"))]
fn azure(url: &BucketUrl) -> Result<Arc<dyn ObjectStore>> {
    Err(not_built(url, "azure"))
}

#[cfg(not(all(feature = "gcp", feature = "azure")))]
fn not_built(url: &BucketUrl, feature: &str) -> FsError {
    let scheme = url.scheme().as_str();
    let why = format!("{url}: this build cannot reach {scheme}://; build with feature `{feature}`");
    FsError::new(ErrorKind::Unsupported, why)
}

fn is_directory(directory: &Path) -> Result<()> {
    let shown = directory.display();
    let meta = std::fs::metadata(directory).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let hint = format!("make it first: mkdir -p {shown}");
            FsError::new(ErrorKind::NotFound, format!("no directory file://{shown}: {hint}"))
        }
        std::io::ErrorKind::NotADirectory => not_a_directory(directory),
        _ => FsError::local_io(format!("looking at file://{shown}"), error),
    })?;
    if meta.is_dir() { Ok(()) } else { Err(not_a_directory(directory)) }
}

fn not_a_directory(directory: &Path) -> FsError {
    let why = format!("file://{} is not a directory: name one", directory.display());
    FsError::new(ErrorKind::Invalid, why)
}

/// Whether `directory` is there and can be written.
pub(crate) fn check_directory(directory: &Path) -> Result<()> {
    is_directory(directory)?;
    // A name that listings leave out, should it stay behind.
    let probe = directory.join(format!(".probe-{:x}#0", rand::random::<u64>()));
    let written = std::fs::File::create_new(&probe).and_then(|_| std::fs::remove_file(&probe));
    written.map_err(|error| {
        let shown = directory.display();
        FsError::local_io(format!("writing to file://{shown} (check its owner and mode)"), error)
    })
}
