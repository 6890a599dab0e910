use std::collections::HashMap;

use object_store::aws::AmazonS3ConfigKey as Key;

use super::*;

type Env = HashMap<&'static str, String>;

/// A home with profiles `default` and `work`, as environment variables.
fn home(dir: &tempfile::TempDir) -> Env {
    let (config, credentials) = (dir.path().join("config"), dir.path().join("credentials"));
    let text = "[default]\nregion = home\n[profile work]\nregion = office\n\
                endpoint_url = http://office:1\n[profile role]\nrole_arn = x\n\
                [profile place]\nregion = moon\n";
    std::fs::write(&config, text).expect("config");
    let pair = |name: &str| format!("aws_access_key_id={name}\naws_secret_access_key={name}-s\n");
    let text = format!("[default]\n{}[work]\n{}", pair("default"), pair("work"));
    std::fs::write(&credentials, text).expect("credentials");
    HashMap::from([
        ("AWS_CONFIG_FILE", config.display().to_string()),
        ("AWS_SHARED_CREDENTIALS_FILE", credentials.display().to_string()),
    ])
}

fn configured(options: &ConnectOptions, env: &Env) -> Result<(AmazonS3Builder, Source)> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in env {
        if let Ok(key) = name.to_ascii_lowercase().parse::<Key>() {
            builder = builder.with_config(key, value.clone());
        }
    }
    let url: BucketUrl = "s3://bucket/p".parse()?;
    let (builder, _, source) = configure(&url, options, builder, &|name| env.get(name).cloned())?;
    Ok((builder, source))
}

/// Who is asked for keys, region, endpoint.
fn found(options: &ConnectOptions, env: &Env) -> Result<[String; 3]> {
    let (builder, source) = configured(options, env)?;
    let who = match source {
        Source::Given(keys, owner) => {
            let AwsCredential { key_id, secret_key, token } = keys;
            assert_eq!(secret_key, format!("{key_id}-s"));
            format!("{key_id} {} of {owner}", token.unwrap_or_default())
        }
        Source::Profile { name, plain } => format!("{name}{}", if plain { "" } else { " asks" }),
        other => format!("{other:?}"),
    };
    let get = |key| builder.get_config_value(&key).unwrap_or_default();
    Ok([who, get(Key::Region), get(Key::S3Endpoint)])
}

#[test]
fn the_nearest_keys_win() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut env = home(&dir);
    let plain = ConnectOptions::default();
    let is = |options: &ConnectOptions, env: &Env, want: [&str; 3]| {
        assert_eq!(found(options, env).expect("configured"), want);
    };
    is(&plain, &env, ["default", "home", ""]);
    env.insert("AWS_PROFILE", "work".to_owned());
    is(&plain, &env, ["work", "office", "http://office:1"]);
    env.insert("AWS_ACCESS_KEY_ID", "env".to_owned());
    env.insert("AWS_SECRET_ACCESS_KEY", "env-s".to_owned());
    env.insert("AWS_SESSION_TOKEN", "env-t".to_owned());
    env.insert("AWS_REGION", "desert".to_owned());
    env.insert("AWS_ENDPOINT_URL", "http://desert:2/".to_owned());
    is(&plain, &env, ["env env-t of the environment", "desert", "http://desert:2"]);
    env.insert("AWS_ENDPOINT_URL_S3", "http://dune:3".to_owned());
    is(&plain, &env, ["env env-t of the environment", "desert", "http://dune:3"]);
    let named = ConnectOptions { profile: Some("work".to_owned()), ..plain.clone() };
    is(&named, &env, ["work", "office", "http://office:1"]);
    let role = ConnectOptions { profile: Some("role".to_owned()), ..plain.clone() };
    is(&role, &env, ["role asks", "desert", "http://dune:3"]);
    let place = ConnectOptions { profile: Some("place".to_owned()), ..plain.clone() };
    is(&place, &env, ["env env-t of the environment", "moon", "http://dune:3"]);
    let anonymous = ConnectOptions { anonymous: true, ..named.clone() };
    is(&anonymous, &env, ["Nobody", "office", "http://office:1"]);
    let explicit = ConnectOptions {
        access_key_id: Some("option".to_owned()),
        secret_access_key: Some("option-s".to_owned()),
        region: Some("here".to_owned()),
        endpoint: Some("https://here".to_owned()),
        ..named
    };
    is(&explicit, &env, ["option  of the options", "here", "https://here"]);
    env.insert("AWS_SKIP_SIGNATURE", "true".to_owned());
    is(&plain, &env, ["Nobody", "desert", "http://dune:3"]);
}

#[test]
fn only_where_nobody_was_named_the_machine_is_asked() {
    is_machine(&Env::new());
    let dir = tempfile::tempdir().expect("temp dir");
    let mut env = home(&dir);
    std::fs::write(&env["AWS_SHARED_CREDENTIALS_FILE"], "").expect("credentials");
    is_machine(&env);
    for name in ["nobody", "place"] {
        env.insert("AWS_PROFILE", name.to_owned());
        let by_option = ConnectOptions { profile: Some(name.to_owned()), ..Default::default() };
        for options in [&ConnectOptions::default(), &by_option] {
            let error = configured(options, &env).map(|(_, who)| who).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
    }
    // Half a pair is a slip, and nobody else's keys are meant.
    let half = Env::from([("AWS_ACCESS_KEY_ID", "id".to_owned())]);
    let error = configured(&ConnectOptions::default(), &half).map(|(_, who)| who);
    assert!(error.expect_err("half").to_string().contains("without its secret"));
}

fn is_machine(env: &Env) {
    let (_, who) = configured(&ConnectOptions::default(), env).expect("configured");
    assert_eq!(who, Source::Machine);
}

#[test]
fn the_bucket_goes_into_the_path_or_the_host() {
    let endpoint = |path_style| {
        let endpoint = Some("https://s3.example.org:9000/".to_owned());
        let options = ConnectOptions { endpoint, path_style, ..Default::default() };
        found(&options, &Env::new()).expect("configured")[2].clone()
    };
    assert_eq!(endpoint(None), "https://s3.example.org:9000");
    assert_eq!(endpoint(Some(true)), "https://s3.example.org:9000");
    assert_eq!(endpoint(Some(false)), "https://bucket.s3.example.org:9000");
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
        let (builder, ..) =
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
