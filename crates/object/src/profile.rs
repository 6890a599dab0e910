//! The little of `~/.aws/credentials` and `~/.aws/config` that reaching a bucket needs.
//!
//! Plain keys only: profiles that assume roles or run programs are not followed.

use std::path::PathBuf;

/// Settings of one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) access_key_id: Option<String>,
    pub(crate) secret_access_key: Option<String>,
    pub(crate) session_token: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) endpoint_url: Option<String>,
}

impl Profile {
    /// Reads profile `name` from the files that `env` names, or from those in the home directory.
    /// Files that are not there count as empty.
    pub(crate) fn load(name: &str, env: &dyn Fn(&str) -> Option<String>) -> Profile {
        let home = env("HOME").map(PathBuf::from).unwrap_or_default();
        let file = |variable: &str, default: &str| {
            let path = env(variable).map_or_else(|| home.join(".aws").join(default), PathBuf::from);
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let mut profile = Profile::default();
        // Keys in the credentials file win over keys in the config file.
        profile.read(&file("AWS_CONFIG_FILE", "config"), name);
        profile.read(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name);
        profile
    }

    fn read(&mut self, ini: &str, name: &str) {
        let mut here = false;
        for line in ini.lines() {
            let text = line.trim();
            if let Some(section) = text.strip_prefix('[').and_then(|s| s.split(']').next()) {
                let section = section.trim();
                here = section.strip_prefix("profile ").unwrap_or(section).trim() == name;
                continue;
            }
            // Indented lines belong to a nested table (`s3 =`, …), not to the profile.
            let nested = line.starts_with([' ', '\t']);
            if !here || nested || text.starts_with(['#', ';']) {
                continue;
            }
            let Some((key, value)) = text.split_once('=') else {
                continue;
            };
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match key.trim() {
                "aws_access_key_id" => self.access_key_id = value,
                "aws_secret_access_key" => self.secret_access_key = value,
                "aws_session_token" => self.session_token = value,
                "region" => self.region = value,
                "endpoint_url" => self.endpoint_url = value,
                _ => {}
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
                    endpoint_url = http://e\n# region = r3\n";
        std::fs::write(&config, text).expect("config");
        let text = "[work]\naws_access_key_id = id\naws_secret_access_key = s=e/c\n\
                    [other]\naws_access_key_id = no\n";
        std::fs::write(&credentials, text).expect("credentials");
        let env = |name: &str| match name {
            "AWS_CONFIG_FILE" => Some(config.display().to_string()),
            "AWS_SHARED_CREDENTIALS_FILE" => Some(credentials.display().to_string()),
            _ => None,
        };
        let text = |text: &str| Some(text.to_owned());
        let work = Profile {
            access_key_id: text("id"),
            secret_access_key: text("s=e/c"),
            session_token: None,
            region: text("r2"),
            endpoint_url: text("http://e"),
        };
        assert_eq!(Profile::load("work", &env), work);
        assert_eq!(Profile::load("default", &env).region, text("r1"));
        assert_eq!(Profile::load("nobody", &env), Profile::default());
        assert_eq!(Profile::load("default", &|_| None), Profile::default());
    }
}
