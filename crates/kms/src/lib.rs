//! Keys of volumes that AWS KMS opens.
//!
//! A key file may hold, instead of a key, one that is sealed by a KMS key: who is to open the volume asks KMS to open
//! that, by its own identity. Nothing in the file is a secret; who may use it is said in IAM, and each use is in CloudTrail.
//! What is sent has the encryption context `{"weir": "key-file"}`, so that a policy can allow just this.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_kms::Client;
use aws_sdk_kms::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::types::DataKeySpec;
use weir_types::{ErrorKind, FsError, Result};
use zeroize::Zeroizing;

/// How such a key file begins; behind it are the ARN of the KMS key and what it sealed, hexadecimal.
const MARK: &str = "weir-key-kms-1 ";
/// The encryption context.
const CONTEXT: (&str, &str) = ("weir", "key-file");
/// How long one request may take, with all attempts.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Bytes of a volume's key.
const KEY_BYTES: usize = 32;

/// A key that a KMS key sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedKey {
    arn: String,
    sealed: Vec<u8>,
}

impl SealedKey {
    /// A new one, by a KMS key: its id, its ARN, or `alias/…`; and tries whether it can be opened. The region is that of the
    /// ARN, else the one of the environment or of the profile. Two requests.
    ///
    /// # Errors
    /// `Permission` where KMS does not allow it, `NotFound` where there is no such key, `Invalid` where no region is known or the
    /// key is of another kind, `Retry` where KMS is not reached.
    pub async fn new(key_id: &str, profile: Option<&str>) -> Result<Self> {
        let client = client(region_of(key_id), profile).await?;
        let asked = client
            .generate_data_key_without_plaintext()
            .key_id(key_id)
            .key_spec(DataKeySpec::Aes256)
            .encryption_context(CONTEXT.0, CONTEXT.1);
        let made = asked.send().await.map_err(|error| failed(key_id, "make a key", error))?;
        let (Some(arn), Some(sealed)) = (made.key_id, made.ciphertext_blob) else {
            return Err(FsError::new(ErrorKind::Invalid, "KMS answered without a key"));
        };
        if arn.contains(char::is_whitespace) {
            return Err(FsError::new(ErrorKind::Invalid, format!("KMS calls the key `{arn}`")));
        }
        let key = Self { arn, sealed: sealed.into_inner() };
        key.open_by(&client).await?;
        Ok(key)
    }

    /// The text of the file that it is kept in.
    pub fn to_text(&self) -> String {
        format!("{MARK}{} {}\n", self.arn, hex::encode(&self.sealed))
    }

    /// What a file holds; `None` if it is no such file.
    ///
    /// # Errors
    /// `Invalid` where it begins as one, and does not go on as one.
    pub fn parse(text: &[u8]) -> Option<Result<Self>> {
        let rest = text.strip_prefix(MARK.as_bytes())?;
        let bad = || {
            let text = "it begins as a key file of `weir key new --kms`, but an ARN and hexadecimal digits do not follow";
            FsError::new(ErrorKind::Invalid, text)
        };
        let parsed = || {
            let (arn, digits) = std::str::from_utf8(rest).ok()?.trim_end().split_once(' ')?;
            let sealed = hex::decode(digits).ok().filter(|sealed| !sealed.is_empty())?;
            Some(Self { arn: arn.to_owned(), sealed })
        };
        Some(parsed().ok_or_else(bad))
    }

    /// The ARN of the KMS key that opens it.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// Has KMS open it. One request.
    ///
    /// # Errors
    /// As [`SealedKey::new`]; `Corrupt` where it was changed, or sealed for something else.
    pub async fn open(&self, profile: Option<&str>) -> Result<Zeroizing<[u8; KEY_BYTES]>> {
        self.open_by(&client(region_of(&self.arn), profile).await?).await
    }

    async fn open_by(&self, client: &Client) -> Result<Zeroizing<[u8; KEY_BYTES]>> {
        let asked = client
            .decrypt()
            // Said, so that no other key than that of the file is taken.
            .key_id(&self.arn)
            .ciphertext_blob(Blob::new(self.sealed.clone()))
            .encryption_context(CONTEXT.0, CONTEXT.1);
        let opened =
            asked.send().await.map_err(|error| failed(&self.arn, "open a key file", error))?;
        let plain = opened.plaintext.map(|plain| Zeroizing::new(plain.into_inner()));
        let key = plain.and_then(|plain| <[u8; KEY_BYTES]>::try_from(&plain[..]).ok());
        let text = "what KMS opened is no key of a volume";
        key.map(Zeroizing::new).ok_or_else(|| FsError::new(ErrorKind::Corrupt, text))
    }
}

/// The region in an ARN.
fn region_of(key_id: &str) -> Option<String> {
    let mut parts = key_id.strip_prefix("arn:")?.split(':');
    parts.nth(2).filter(|region| !region.is_empty()).map(str::to_owned)
}

async fn client(region: Option<String>, profile: Option<&str>) -> Result<Client> {
    let timeouts = TimeoutConfig::builder().operation_timeout(ANSWER_MAX).build();
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).timeout_config(timeouts);
    if let Some(region) = region {
        loader = loader.region(Region::new(region));
    }
    if let Some(profile) = profile {
        loader = loader.profile_name(profile);
    }
    let config = loader.load().await;
    if config.region().is_none() {
        let text = "no region is known for KMS: give the ARN of the key, or set AWS_REGION";
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    Ok(Client::new(&config))
}

fn failed<E: ProvideErrorMetadata + std::error::Error + 'static>(
    key_id: &str,
    what: &str,
    error: SdkError<E>,
) -> FsError {
    let (kind, advice) = match error.code() {
        Some("NotFoundException") => (ErrorKind::NotFound, "is there such a key in that region?"),
        Some("InvalidCiphertextException") => {
            (ErrorKind::Corrupt, "the key file was changed, or is another service's")
        }
        Some("IncorrectKeyException") => (ErrorKind::Permission, "another key sealed the file"),
        Some("DisabledException" | "KMSInvalidStateException") => {
            (ErrorKind::Permission, "the key is disabled, or about to be deleted")
        }
        Some("InvalidKeyUsageException" | "ValidationException" | "InvalidArnException") => {
            (ErrorKind::Invalid, "it must be a symmetric key that encrypts and decrypts")
        }
        Some("ThrottlingException" | "KMSInternalException" | "DependencyTimeoutException") => {
            (ErrorKind::Retry, "try again")
        }
        Some(_) => (
            ErrorKind::Permission,
            "who makes a key file needs kms:GenerateDataKeyWithoutPlaintext and kms:Decrypt, who opens it kms:Decrypt",
        ),
        None => (ErrorKind::Retry, "is KMS reached from here, and are there credentials?"),
    };
    let why = match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => DisplayErrorContext(&error).to_string(),
    };
    FsError::new(kind, format!("{what} by the KMS key {key_id}: {why}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_read_back_and_others_are_none() {
        let key = SealedKey {
            arn: "arn:aws:kms:eu-west-1:111122223333:key/ab-cd".to_owned(),
            sealed: vec![1, 2, 254],
        };
        let text = key.to_text();
        assert_eq!(text, "weir-key-kms-1 arn:aws:kms:eu-west-1:111122223333:key/ab-cd 0102fe\n");
        assert_eq!(SealedKey::parse(text.as_bytes()).expect("one").expect("sound"), key);
        assert_eq!(region_of(key.arn()).as_deref(), Some("eu-west-1"));
        for id in ["alias/weir", "1234abcd-12ab", "arn:aws:kms"] {
            assert_eq!(region_of(id), None, "{id}");
        }
        assert!(SealedKey::parse(b"weir-key-1 00").is_none());
        assert!(SealedKey::parse(b"five random words").is_none());
        for bad in ["", "arn", "arn xy", "arn ", "arn 012"] {
            let text = format!("{MARK}{bad}\n");
            let error = SealedKey::parse(text.as_bytes()).expect("one").expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }
}
