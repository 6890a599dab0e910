use std::collections::HashMap;

use object_store::aws::AmazonS3ConfigKey as Key;

use super::*;

type Env = HashMap<&'static str, String>;

/// A home with profiles `default` and `work`, as environment variables.
fn home(dir: &tempfile::TempDir) -> Env {
    let (config, credentials) = (dir.path().join("config"), dir.path().join("credentials"));
    let text = "[default]\nregion = home\n[profile work]\nregion = office\n\
                endpoint_url = http://office:1\n[profile role]\nrole_arn = x\n";
    std::fs::write(&config, text).expect("config");
    let pair = |name: &str| format!("aws_access_key_id={name}\naws_secret_access_key={name}-s\n");
    let text = format!("[default]\n{}[work]\n{}", pair("default"), pair("work"));
    std::fs::write(&credentials, text).expect("credentials");
    HashMap::from([
        ("AWS_CONFIG_FILE", config.display().to_string()),
        ("AWS_SHARED_CREDENTIALS_FILE", credentials.display().to_string()),
    ])
}

/// What the builder ends up with: key, secret, token, region, endpoint.
fn found(options: &ConnectOptions, env: &Env) -> Result<[String; 5]> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in env {
        if let Ok(key) = name.to_ascii_lowercase().parse::<Key>() {
            builder = builder.with_config(key, value.clone());
        }
    }
    let url: BucketUrl = "s3://bucket/p".parse()?;
    let (builder, _) = configure(&url, options, builder, &|name| env.get(name).cloned())?;
    let keys = [Key::AccessKeyId, Key::SecretAccessKey, Key::Token, Key::Region, Key::S3Endpoint];
    Ok(keys.map(|key| builder.get_config_value(&key).unwrap_or_default()))
}

#[test]
fn the_nearest_keys_win() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut env = home(&dir);
    let plain = ConnectOptions::default();
    let is = |options: &ConnectOptions, env: &Env, want: [&str; 5]| {
        assert_eq!(found(options, env).expect("configured"), want);
    };
    is(&plain, &env, ["default", "default-s", "", "home", ""]);
    env.insert("AWS_PROFILE", "work".to_owned());
    is(&plain, &env, ["work", "work-s", "", "office", "http://office:1"]);
    env.insert("AWS_ACCESS_KEY_ID", "env".to_owned());
    env.insert("AWS_SECRET_ACCESS_KEY", "env-s".to_owned());
    env.insert("AWS_SESSION_TOKEN", "env-t".to_owned());
    env.insert("AWS_REGION", "desert".to_owned());
    env.insert("AWS_ENDPOINT_URL", "http://desert:2/".to_owned());
    is(&plain, &env, ["env", "env-s", "env-t", "desert", "http://desert:2"]);
    env.insert("AWS_ENDPOINT_URL_S3", "http://dune:3".to_owned());
    is(&plain, &env, ["env", "env-s", "env-t", "desert", "http://dune:3"]);
    let named = ConnectOptions { profile: Some("work".to_owned()), ..plain.clone() };
    is(&named, &env, ["work", "work-s", "", "office", "http://office:1"]);
    let explicit = ConnectOptions {
        access_key_id: Some("option".to_owned()),
        secret_access_key: Some("option-s".to_owned()),
        region: Some("here".to_owned()),
        endpoint: Some("https://here".to_owned()),
        ..named
    };
    is(&explicit, &env, ["option", "option-s", "", "here", "https://here"]);
}

#[test]
fn profiles_that_cannot_be_used_are_told() {
    let dir = tempfile::tempdir().expect("temp dir");
    for name in ["nobody", "role"] {
        let options = ConnectOptions { profile: Some(name.to_owned()), ..Default::default() };
        let error = found(&options, &home(&dir)).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn the_bucket_goes_into_the_path_or_the_host() {
    let endpoint = |path_style| {
        let endpoint = Some("https://s3.example.org:9000/".to_owned());
        let options = ConnectOptions { endpoint, path_style, ..Default::default() };
        found(&options, &Env::new()).expect("configured")[4].clone()
    };
    assert_eq!(endpoint(None), "https://s3.example.org:9000");
    assert_eq!(endpoint(Some(true)), "https://s3.example.org:9000");
    assert_eq!(endpoint(Some(false)), "https://bucket.s3.example.org:9000");
}

#[derive(Debug)]
enum Instance {
    Silent,
    Answers(AtomicBool),
}

#[async_trait]
impl CredentialProvider for Instance {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        match self {
            Instance::Silent => std::future::pending().await,
            Instance::Answers(first) if first.swap(false, Ordering::Relaxed) => {
                let (key_id, secret_key) = ("id".to_owned(), "secret".to_owned());
                Ok(Arc::new(AwsCredential { key_id, secret_key, token: None }))
            }
            Instance::Answers(_) => {
                Err(Error::Generic { store: "test", source: "status code: 503".into() })
            }
        }
    }
}

fn keys(instance: Instance, off: bool) -> InstanceKeys {
    InstanceKeys { inner: Arc::new(instance), off, seen: AtomicBool::new(false) }
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_keys_is_told_soon() {
    let start = tokio::time::Instant::now();
    for off in [true, false] {
        let error = keys(Instance::Silent, off).get_credential().await.expect_err("no keys");
        assert!(matches!(error, Error::Unauthenticated { .. }), "{error}");
        let told = tell("x", error);
        assert_eq!(told.kind(), ErrorKind::Permission);
        assert!(told.to_string().contains("AWS_ACCESS_KEY_ID"), "{told}");
    }
    assert_eq!(start.elapsed(), INSTANCE_TIMEOUT);
}

#[tokio::test]
async fn an_instance_that_gave_keys_before_is_asked_again() {
    let keys = keys(Instance::Answers(AtomicBool::new(true)), false);
    keys.get_credential().await.expect("the first time");
    let error = keys.get_credential().await.expect_err("the second time");
    assert!(crate::failure::judge(&error).transient, "{error}");
}

#[test]
fn only_the_last_resort_is_the_instance() {
    assert!(asks_instance(&AmazonS3Builder::new()));
    for (key, value) in [
        (Key::AccessKeyId, "id"),
        (Key::ContainerCredentialsRelativeUri, "/x"),
        (Key::SkipSignature, "true"),
    ] {
        assert!(!asks_instance(&AmazonS3Builder::new().with_config(key, value)), "{key:?}");
    }
}

#[test]
fn bodies_are_signed_only_where_the_network_could_change_them() {
    let signed = |endpoint: &str, sign: Option<bool>, env: &Env| {
        let options = ConnectOptions {
            endpoint: Some(endpoint.to_owned()),
            sign_payload: sign,
            ..ConnectOptions::default()
        };
        let url: BucketUrl = "s3://bucket/p".parse().expect("url");
        let lookup = |name: &str| env.get(name).cloned();
        let (builder, _) =
            configure(&url, &options, AmazonS3Builder::new(), &lookup).expect("configured");
        let get = |key| builder.get_config_value(&key).unwrap_or_default();
        (get(Key::UnsignedPayload) == "false", get(Key::Checksum))
    };
    let none = Env::new();
    let crc = "crc64nvme".to_owned();
    assert_eq!(signed("https://far.example", None, &none), (false, crc.clone()));
    assert_eq!(signed("http://127.0.0.1:9000", None, &none), (false, crc.clone()));
    assert_eq!(signed("http://[::1]:9000", None, &none), (false, crc.clone()));
    assert_eq!(signed("http://far.example", None, &none), (true, crc.clone()));
    assert_eq!(signed("http://10.0.0.5", None, &none), (true, crc.clone()));
    assert_eq!(signed("http://10.0.0.5", Some(false), &none), (false, crc.clone()));
    assert_eq!(signed("https://far.example", Some(true), &none), (true, crc));
}
