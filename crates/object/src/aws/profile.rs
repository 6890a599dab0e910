//! A profile of `~/.aws/config` and `~/.aws/credentials`, read as Amazon's own programs read it.

use std::collections::HashMap;

use futures::FutureExt;
use weir_types::{ErrorKind, FsError, Result};

/// Where the files are, and what names a profile.
const VARIABLES: [&str; 4] =
    ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "HOME"];
/// A setting of these says how a profile comes by keys.
const KEYS: [&str; 9] = [
    PLAIN,
    "credential_process",
    "credential_source",
    "login_session",
    "role_arn",
    "sso_account_id",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
];
const PLAIN: &str = "aws_access_key_id";

/// What must be known of a profile before it is asked for keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) region: Option<String>,
    pub(super) endpoint_url: Option<String>,
    /// It says how to come by keys.
    pub(super) gives_keys: bool,
    /// They stand in the file itself.
    pub(super) plain: bool,
}

/// The profiles that there are.
pub(super) struct Profiles {
    found: HashMap<String, Profile>,
    /// Why the files cannot be read.
    trouble: Option<String>,
}

impl Profiles {
    /// Reads the files that `env` names, or those in the home directory. Files that are not there
    /// count as empty.
    pub(super) fn load(env: &dyn Fn(&str) -> Option<String>) -> Profiles {
        let known = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), env(name)?)));
        let known: HashMap<String, String> = known.collect();
        let (found, trouble) = (HashMap::new(), None);
        let mut profiles = Profiles { found, trouble };
        // It is ready at once: it reads files without a runtime.
        let loaded = aws_config::profile::load(
            &Default::default(),
            &known.into(),
            &Default::default(),
            Some("default".into()),
        )
        .now_or_never();
        match loaded {
            Some(Ok(set)) => {
                for name in set.profiles() {
                    let get = |key: &str| {
                        let value = set.get_profile(name)?.get(key)?.trim();
                        (!value.is_empty()).then(|| value.to_owned())
                    };
                    let profile = Profile {
                        region: get("region"),
                        endpoint_url: get("endpoint_url"),
                        gives_keys: KEYS.iter().any(|key| get(key).is_some()),
                        plain: KEYS.iter().all(|key| (*key == PLAIN) == get(key).is_some()),
                    };
                    profiles.found.insert(name.to_owned(), profile);
                }
            }
            Some(Err(error)) => profiles.trouble = Some(crate::failure::chain(&error)),
            None => profiles.trouble = Some("they were not read at once".to_owned()),
        }
        profiles
    }

    /// The profile of a name, if there is one.
    pub(super) fn get(&self, name: &str) -> Option<&Profile> {
        self.found.get(name)
    }

    /// Its keys are wanted: `true` if it has any, whatever way it comes by them.
    ///
    /// # Errors
    /// There is no such profile, or the files cannot be read.
    pub(super) fn has_keys(&self, name: &str) -> Result<bool> {
        let invalid = |why: String| Err(FsError::new(ErrorKind::Invalid, why));
        match (self.get(name), &self.trouble) {
            (_, Some(trouble)) => {
                let why = format!(
                    "profile `{name}`: the files of profiles cannot be read: {trouble}; correct \
                     ~/.aws/config and ~/.aws/credentials"
                );
                invalid(why)
            }
            (Some(profile), None) => Ok(profile.gives_keys),
            (None, None) => {
                let mut known: Vec<_> = self.found.keys().map(|name| format!("`{name}`")).collect();
                known.sort();
                let known = match known.is_empty() {
                    true => "there is none at all".to_owned(),
                    false => format!("there are {}", known.join(", ")),
                };
                invalid(format!(
                    "no profile `{name}` in ~/.aws/config or ~/.aws/credentials ({known}): correct \
                     --profile or AWS_PROFILE, or add a section [profile {name}] to ~/.aws/config"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_make_one_profile() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (config, credentials) = (dir.path().join("config"), dir.path().join("credentials"));
        let text = "[default]\nregion = r1\n[profile work]\nregion=r2\ns3 =\n  region = no\n\
                    endpoint_url = http://e\n# region = r3\n[profile role]\nrole_arn = x\n\
                    aws_access_key_id = y\n";
        std::fs::write(&config, text).expect("config");
        let text = "[work]\naws_access_key_id = id\naws_secret_access_key = s=e/c\n";
        std::fs::write(&credentials, text).expect("credentials");
        let env = |name: &str| match name {
            "AWS_CONFIG_FILE" => Some(config.display().to_string()),
            "AWS_SHARED_CREDENTIALS_FILE" => Some(credentials.display().to_string()),
            _ => None,
        };
        let text = |text: &str| Some(text.to_owned());
        let work = Profile {
            region: text("r2"),
            endpoint_url: text("http://e"),
            gives_keys: true,
            plain: true,
        };
        let profiles = Profiles::load(&env);
        assert_eq!(profiles.get("work"), Some(&work));
        let plain = Profile { region: text("r1"), ..Profile::default() };
        assert_eq!(profiles.get("default"), Some(&plain));
        let role = Profile { gives_keys: true, ..Profile::default() };
        assert_eq!(profiles.get("role"), Some(&role));
        assert_eq!(profiles.get("nobody"), None);
        let error = profiles.has_keys("nobody").expect_err("nobody").to_string();
        assert!(error.contains("`nobody`") && error.contains("`work`"), "{error}");
        assert_eq!(Profiles::load(&|_| None).get("default"), None);
    }

    #[test]
    fn files_that_make_no_sense_are_told_of_where_a_profile_is_wanted() {
        let dir = tempfile::tempdir().expect("temp dir");
        let config = dir.path().join("config");
        std::fs::write(&config, "[profile work\nregion = r").expect("config");
        let env = |name: &str| match name {
            "AWS_CONFIG_FILE" => Some(config.display().to_string()),
            _ => None,
        };
        let error = Profiles::load(&env).has_keys("work").expect_err("broken").to_string();
        assert!(error.contains("`work`") && error.contains("cannot be read"), "{error}");
    }
}
