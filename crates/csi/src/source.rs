//! What of which Weir volume a Kubernetes volume is: parameters, attributes and ids.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::fault::{Fault, Result};

/// Keys that Kubernetes adds to what people wrote.
const OF_KUBERNETES: [&str; 2] = ["csi.storage.k8s.io/", "storage.kubernetes.io/"];
/// Said to those who look at a volume, not read again.
pub(crate) const SIZE_ENFORCED: &str = "sizeEnforced";
const NAME_CHARS_MAX: usize = 63;

/// A directory of a Weir volume, and how that volume is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Source {
    /// The Weir volume.
    pub(crate) url: String,
    /// The directory: empty for all of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<String>,
    /// Where directories are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<String>,
    /// `true` or `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path_style: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tier_size: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flush_age: Option<String>,
    /// `true` or `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) encrypt_tier: Option<String>,
    /// Permissions of directories that are made, in octal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
}

/// The keys that people may write, to tell them of when they wrote another.
const KEYS: &str = "url, directory, basePath, endpoint, region, pathStyle, tierSize, memory, flushAge, encryptTier and mode";

impl Source {
    /// What a storage class, a volume or a pod says.
    pub(crate) fn from_map(map: &HashMap<String, String>) -> Result<Self> {
        let ours = map.iter().filter(|(key, _)| {
            *key != SIZE_ENFORCED && !OF_KUBERNETES.iter().any(|prefix| key.starts_with(prefix))
        });
        let object = ours.map(|(key, value)| (key.clone(), value.clone().into())).collect();
        let source: Self = serde_json::from_value(serde_json::Value::Object(object))
            .map_err(|e| Fault::invalid(format!("parameters: {e}; there are {KEYS}")))?;
        source.checked()
    }

    /// What a later request says of the same volume.
    pub(crate) fn to_map(&self) -> HashMap<String, String> {
        let Ok(serde_json::Value::Object(object)) = serde_json::to_value(self) else {
            return HashMap::new();
        };
        let texts = object.into_iter();
        texts.filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
    }

    /// Names the volume, and is all that its deletion is told.
    pub(crate) fn to_id(&self) -> Result<String> {
        let where_it_is = Self {
            url: self.url.clone(),
            directory: self.directory.clone(),
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            path_style: self.path_style.clone(),
            ..Self::default()
        };
        serde_urlencoded::to_string(where_it_is)
            .map_err(|e| Fault::internal(format!("encode the id of {}: {e}", self.url)))
    }

    /// The directory of an id, if it is one of a directory of ours.
    pub(crate) fn from_id(id: &str) -> Option<Self> {
        let source: Self = serde_urlencoded::from_str(id).ok()?;
        let source = source.checked().ok()?;
        source.directory.is_some().then_some(source)
    }

    /// Where directories are made: `volumes`, unless something else is said.
    pub(crate) fn base(&self) -> &str {
        self.base_path.as_deref().unwrap_or("volumes").trim_matches('/')
    }

    /// The directory with a name below the base.
    pub(crate) fn below_base(&self, name: &str) -> Self {
        let base = self.base();
        let directory = if base.is_empty() { name.to_owned() } else { format!("{base}/{name}") };
        Self { directory: Some(directory), ..self.clone() }
    }

    /// Permissions of directories that are made.
    pub(crate) fn mode_bits(&self) -> Result<u32> {
        let text = self.mode.as_deref().unwrap_or("0777");
        u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777).ok_or_else(|| {
            Fault::invalid(format!("mode {text} is no permission in octal, such as 0770"))
        })
    }

    pub(crate) fn path_style(&self) -> bool {
        self.path_style.as_deref() == Some("true")
    }

    pub(crate) fn encrypt_tier(&self) -> bool {
        self.encrypt_tier.as_deref() == Some("true")
    }

    fn checked(self) -> Result<Self> {
        if !self.url.contains("://") || self.url.starts_with('-') {
            let text = format!("url is {:?}: name a volume, such as s3://bucket/volume", self.url);
            return Err(Fault::invalid(text));
        }
        for path in [&self.directory, &self.base_path].into_iter().flatten() {
            check_path(path)?;
        }
        for (name, value) in [("pathStyle", &self.path_style), ("encryptTier", &self.encrypt_tier)]
        {
            if let Some(other) = value.as_deref().filter(|s| !matches!(*s, "true" | "false")) {
                return Err(Fault::invalid(format!("{name} is true or false, not {other}")));
            }
        }
        self.mode_bits()?;
        Ok(self)
    }
}

/// Refuses a path that leads elsewhere.
fn check_path(path: &str) -> Result<()> {
    let bad = |part: &str| matches!(part, "." | "..") || part.contains('\0');
    if path.trim_matches('/').split('/').any(bad) {
        return Err(Fault::invalid(format!(
            "{path:?}: a path inside of the volume has no . and .."
        )));
    }
    Ok(())
}

/// The name of a directory for a name that may have anything in it. Different names have different
/// directories.
pub(crate) fn directory_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty()
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(plain)
        && !name.starts_with('.')
    {
        return name.to_owned();
    }
    let kept = name.chars().map(|c| if plain(c) { c } else { '-' }).take(40);
    let kept: String = kept.collect();
    format!("{}-{}", kept.trim_start_matches('.'), digest(&[name.as_bytes()]))
}

/// Half of the SHA-256 of all parts, in hex. Where one ends is part of it.
pub(crate) fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn what_kubernetes_adds_is_no_parameter_and_a_typo_is_told() {
        let said =
            [("url", "s3://b/v"), ("csi.storage.k8s.io/pod.name", "p"), (SIZE_ENFORCED, "false")];
        let source = Source::from_map(&map(&said)).unwrap();
        assert_eq!(source.url, "s3://b/v");
        for (pairs, wanted) in [
            (vec![("url", "s3://b/v"), ("teirSize", "1GiB")], "teirSize"),
            (vec![], "url"),
            (vec![("url", "--help")], "url"),
            (vec![("url", "s3://b/v"), ("directory", "a/../../b")], ".."),
            (vec![("url", "s3://b/v"), ("basePath", "..")], ".."),
            (vec![("url", "s3://b/v"), ("mode", "rwx")], "octal"),
            (vec![("url", "s3://b/v"), ("pathStyle", "yes")], "pathStyle"),
            (vec![("url", "s3://b/v"), ("encryptTier", "yes")], "encryptTier"),
        ] {
            let fault = Source::from_map(&map(&pairs)).unwrap_err();
            assert!(fault.to_string().contains(wanted), "{pairs:?}: {fault}");
            assert_eq!(fault.code(), tonic::Code::InvalidArgument);
        }
    }

    #[test]
    fn an_id_says_where_the_directory_is() {
        let source = Source {
            url: "s3://b/v#1?x&y".into(),
            endpoint: Some("http://127.0.0.1:7070".into()),
            tier_size: Some("1GiB".into()),
            ..Source::default()
        };
        let made = source.below_base("pvc-1");
        let id = made.to_id().unwrap();
        let read = Source::from_id(&id).unwrap();
        assert_eq!((read.url, read.directory), (made.url, Some("volumes/pvc-1".into())));
        assert_eq!((read.endpoint, read.tier_size), (source.endpoint, None));
        for other in ["", "some-volume", "url=s3://b/v", "url=s3://b/v&directory=../x"] {
            assert_eq!(Source::from_id(other), None, "{other}");
        }
    }

    #[test]
    fn names_are_cleaned_and_stay_apart() {
        assert_eq!(directory_name("pvc-0a1b"), "pvc-0a1b");
        let long = "x".repeat(128);
        let names = ["a/b", "a-b", "a b", "..", ".hidden", "", "ü", &long, "../../etc"];
        let cleaned: std::collections::BTreeSet<_> = names.map(directory_name).into();
        assert_eq!(cleaned.len(), names.len());
        for name in cleaned {
            assert!(name.len() <= 80 && !name.contains('/') && !name.starts_with('.'), "{name}");
        }
    }
}
