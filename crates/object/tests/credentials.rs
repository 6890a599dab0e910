//! Each way of coming by keys, against services of Amazon's that are played here on loopback.
//!
//! What is asked for keys takes the environment of the process. So each case runs in one of its
//! own: this very program, told to run only [`ask_the_bucket`].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use weir_object::{Bucket, BucketUrl, Component, ConnectOptions, Meter};

/// What the child is to do: so many requests, with so many milliseconds between them.
const REQUESTS: &str = "TEST_REQUESTS";
const PAUSE_MS: &str = "TEST_PAUSE_MS";
const PROFILE: &str = "TEST_PROFILE";
const ANONYMOUS: &str = "TEST_ANONYMOUS";

/// Not a test: what the tests run in a process of its own.
#[tokio::test]
#[ignore = "the others run it"]
#[expect(clippy::print_stdout, reason = "it is how it answers")]
async fn ask_the_bucket() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let url: BucketUrl = "s3://bucket/p".parse().expect("url");
    let options = ConnectOptions {
        profile: std::env::var(PROFILE).ok(),
        anonymous: std::env::var(ANONYMOUS).is_ok(),
        timeout_ms: 20_000,
        ..ConnectOptions::default()
    };
    let bucket = match Bucket::connect(&url, &options, &Meter::new()) {
        Ok(bucket) => bucket,
        Err(error) => return println!("\nerror: {error}"),
    };
    for _ in 0..number(REQUESTS).unwrap_or(1) {
        if let Err(error) = bucket.put(Component::Data, "k", "x").await {
            return println!("\nerror: {error}");
        }
        tokio::time::sleep(Duration::from_millis(number(PAUSE_MS).unwrap_or(0))).await;
    }
}

/// All services at one address, and what was asked of them: method, path and what matters.
struct Amazon {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    home: TempDir,
}

struct Request {
    line: String,
    headers: String,
    body: String,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Request> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut headers) = (String::new(), String::new());
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        while !headers.ends_with("\r\n\r\n") && headers != "\r\n" {
            reader.read_line(&mut headers).ok().filter(|n| *n > 0)?;
        }
        let mut request = Request { line, headers, body: String::new() };
        let length = request.header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.headers.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The key that signed it.
    fn signer(&self) -> &str {
        let signed = self.header("authorization").and_then(|text| text.split_once("Credential="));
        signed.and_then(|(_, rest)| rest.split('/').next()).unwrap_or("nobody")
    }
}

/// Keys as the container's and the instance's endpoint give them.
fn keys_json(id: &str) -> String {
    format!(
        r#"{{"Code": "Success", "AccessKeyId": "{id}", "SecretAccessKey": "s", "Token": "t",
             "Expiration": "2100-01-01T00:00:00Z", "Type": "AWS-HMAC",
             "LastUpdated": "2026-01-01T00:00:00Z"}}"#
    )
}

/// Keys as STS gives them.
fn keys_xml(action: &str, id: &str) -> String {
    format!(
        "<{action}Response><{action}Result><Credentials><AccessKeyId>{id}</AccessKeyId>\
         <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
         <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></{action}Result>\
         </{action}Response>"
    )
}

fn answer(request: &Request) -> (u16, String) {
    let mut words = request.line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let metadata = "/latest/meta-data/iam/security-credentials/";
    match (method, path) {
        ("PUT", "/latest/api/token") => (200, "metadata-token".to_owned()),
        // Version 2 only: whoever has no token is not let in.
        ("GET", path) if path.starts_with(metadata) => {
            match (request.header("x-aws-ec2-metadata-token"), &path[metadata.len()..]) {
                (Some("metadata-token"), "") => (200, "role".to_owned()),
                (Some("metadata-token"), "role") => (200, keys_json("INSTANCE")),
                _ => (401, String::new()),
            }
        }
        ("GET", "/container") => match request.header("authorization") {
            Some("pod-token") => (200, keys_json("CONTAINER")),
            _ => (401, String::new()),
        },
        ("POST", "/") if request.body.contains("Action=AssumeRoleWithWebIdentity") => {
            match request.body.contains("WebIdentityToken=jwt") {
                true => (200, keys_xml("AssumeRoleWithWebIdentity", "WEB")),
                false => (400, String::new()),
            }
        }
        ("POST", "/") if request.body.contains("Action=AssumeRole&") => {
            match (request.signer(), request.body.contains("denied")) {
                ("BASE", false) => (200, keys_xml("AssumeRole", "ROLE")),
                _ => (
                    403,
                    "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
                     <Message>may not be assumed</Message></Error></ErrorResponse>"
                        .to_owned(),
                ),
            }
        }
        ("PUT", "/bucket/p/k") => (200, String::new()),
        _ => (404, String::new()),
    }
}

impl Amazon {
    fn start() -> Amazon {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
        let address = listener.local_addr().expect("address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let Some(request) = Request::read(&stream) else { continue };
                let (status, body) = answer(&request);
                let path = request.line.rsplit_once(' ').map_or("", |(path, _)| path);
                log.lock().expect("log").push(format!("{path} {}", request.signer()));
                let length = body.len();
                // A client that gave up is no concern of ours.
                let _ = stream.write_all(
                    format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\netag: \"e\"\r\n\
                         x-aws-ec2-metadata-token-ttl-seconds: 60\r\nconnection: close\r\n\r\n\
                         {body}"
                    )
                    .as_bytes(),
                );
            }
        });
        Amazon { address, asked, home: tempfile::tempdir().expect("home") }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("file");
        path.display().to_string()
    }

    /// A child in an empty environment but for this one; `config` and `credentials` are its files.
    fn child(&self, env: &[(&str, &str)]) -> Command {
        let here = format!("http://{}", self.address);
        let mut child = Command::new(std::env::current_exe().expect("program"));
        child.args(["--exact", "ask_the_bucket", "--ignored", "--nocapture"]).env_clear();
        child.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        child.env("HOME", self.home.path()).env("AWS_ENDPOINT_URL_S3", &here);
        child.env("AWS_ENDPOINT_URL_STS", &here);
        child.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &here);
        child.env("AWS_CONFIG_FILE", self.home.path().join("config"));
        child.env("AWS_SHARED_CREDENTIALS_FILE", self.home.path().join("credentials"));
        child.envs(env.iter().copied());
        child
    }

    /// Runs it; answers who signed the requests for the bucket, in order, and the error, if any.
    fn run(&self, env: &[(&str, &str)]) -> (Vec<String>, String) {
        self.asked.lock().expect("log").clear();
        let output = self.child(env).output().expect("child");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let error = text.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or_default();
        let asked = self.asked.lock().expect("log");
        let signed = asked.iter().filter_map(|line| line.strip_prefix("PUT /bucket/p/k "));
        (signed.map(str::to_owned).collect(), error.to_owned())
    }

    fn signs(&self, env: &[(&str, &str)], who: &[&str]) {
        let (signed, error) = self.run(env);
        assert_eq!(error, "", "{env:?}");
        assert_eq!(signed, who, "{env:?}");
    }

    /// Nobody is asked in the bucket, nor the instance; the error has the words.
    fn refuses(&self, env: &[(&str, &str)], words: &[&str]) {
        let (signed, error) = self.run(env);
        assert!(signed.is_empty(), "{signed:?}");
        for word in words {
            assert!(error.contains(word), "no `{word}`: {error}");
        }
        let asked = self.asked.lock().expect("log");
        assert!(!asked.iter().any(|line| line.contains("/latest/")), "another identity: {asked:?}");
    }
}

#[test]
fn the_machine_gives_keys_where_nobody_else_was_named() {
    let amazon = Amazon::start();
    amazon.signs(&[], &["INSTANCE"]);
    let asked = amazon.asked.lock().expect("log").clone();
    assert!(asked[0].starts_with("PUT /latest/api/token"), "{asked:?}");
    let (container, token) = (format!("http://{}/container", amazon.address), "pod-token");
    let uri = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.as_str());
    amazon.signs(&[uri, ("AWS_CONTAINER_AUTHORIZATION_TOKEN", token)], &["CONTAINER"]);
    // Pod identity hands out its token in a file.
    let file = amazon.file("token", token);
    amazon.signs(&[uri, ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &file)], &["CONTAINER"]);
    let jwt = amazon.file("jwt", "jwt");
    let web = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", jwt.as_str()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/web"),
        uri,
    ];
    amazon.signs(&web, &["WEB"]);
    amazon.signs(&[("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s")], &["ENV"]);
    amazon.signs(&[(ANONYMOUS, "1")], &["nobody"]);
    assert_eq!(amazon.asked.lock().expect("log").len(), 1, "nobody was asked for keys");
    let off = ("AWS_EC2_METADATA_DISABLED", "true");
    amazon.refuses(&[off], &["no AWS keys", "AWS_ACCESS_KEY_ID", "--anonymous"]);
}

#[test]
fn a_token_that_is_refused_makes_nobody_the_instance() {
    let amazon = Amazon::start();
    let jwt = amazon.file("jwt", "stale");
    let web = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", jwt.as_str()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/web"),
    ];
    amazon.refuses(&web, &["no AWS keys"]);
    let gone = amazon.home.path().join("gone").display().to_string();
    amazon.refuses(&[("AWS_WEB_IDENTITY_TOKEN_FILE", &gone), web[1]], &["no AWS keys"]);
}

const PROFILES: &str = "\
[profile plain]\naws_access_key_id = PLAIN\naws_secret_access_key = s\n\
[profile base]\naws_access_key_id = BASE\naws_secret_access_key = s\nregion = eu-north-1\n\
[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n\
[profile machine]\nrole_arn = arn:aws:iam::1:role/denied\ncredential_source = Ec2InstanceMetadata\n\
[profile denied]\nrole_arn = arn:aws:iam::1:role/denied\nsource_profile = base\n\
[profile orphan]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = nowhere\n\
[profile fails]\ncredential_process = /bin/sh -c 'echo locked >&2; exit 3'\n\
[profile sso]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n\
[sso-session s]\nsso_region = us-east-1\nsso_start_url = https://sso.example\n\
[profile place]\nregion = eu-north-1\n";

#[test]
fn a_profile_is_asked_and_nobody_else() {
    let amazon = Amazon::start();
    amazon.file("config", PROFILES);
    let env = [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_SECRET_ACCESS_KEY", "s")];
    for (name, who) in [("plain", "PLAIN"), ("role", "ROLE")] {
        amazon.signs(&[("AWS_PROFILE", name)], &[who]);
        // One that was given by option is meant, whatever the environment has.
        amazon.signs(&[(PROFILE, name), env[0], env[1]], &[who]);
        amazon.signs(&[("AWS_PROFILE", name), env[0], env[1]], &["ENV"]);
    }
    for (name, words) in [
        ("nobody", ["`nobody`", "there are `base`"]),
        ("denied", ["`denied`", "AccessDenied"]),
        ("orphan", ["`orphan`", "nowhere"]),
        ("fails", ["`fails`", "locked"]),
        ("sso", ["`sso`", "aws sso login --profile sso"]),
        ("place", ["`place`", "says nothing of keys"]),
    ] {
        amazon.refuses(&[("AWS_PROFILE", name)], &words);
        amazon.refuses(&[(PROFILE, name)], &words);
    }
    // Asked for by the profile itself.
    let (_, error) = amazon.run(&[("AWS_PROFILE", "machine")]);
    assert!(error.contains("`machine`") && error.contains("AccessDenied"), "{error}");
}

/// A program that gives keys for some seconds, another each time.
fn process(amazon: &Amazon, seconds: u32) {
    let count = amazon.home.path().join("count").display().to_string();
    let script = amazon.file(
        "give",
        &format!(
            "#!/bin/sh\necho x >>{count}\nn=$(wc -l <{count})\n\
             end=$(date -u -d '+{seconds} seconds' +%Y-%m-%dT%H:%M:%SZ)\n\
             echo \"{{\\\"Version\\\": 1, \\\"AccessKeyId\\\": \\\"GIVEN$n\\\", \
             \\\"SecretAccessKey\\\": \\\"s\\\", \\\"SessionToken\\\": \\\"t\\\", \
             \\\"Expiration\\\": \\\"$end\\\"}}\"\n"
        ),
    );
    amazon.file("config", &format!("[profile given]\ncredential_process = sh {script}\n"));
}

#[test]
fn keys_that_end_are_renewed_while_they_are_used() {
    let amazon = Amazon::start();
    process(&amazon, 3);
    let env = [("AWS_PROFILE", "given"), (REQUESTS, "16"), (PAUSE_MS, "250")];
    let (signed, error) = amazon.run(&env);
    assert_eq!((signed.len(), error.as_str()), (16, ""));
    assert_eq!(signed[0], "GIVEN1");
    assert!(signed.is_sorted(), "{signed:?}");
    let mut asked = signed.clone();
    asked.dedup();
    assert!((2..=4).contains(&asked.len()), "4 s of keys that live 3 s: {signed:?}");
}

#[test]
fn keys_that_live_long_are_asked_for_once() {
    let amazon = Amazon::start();
    process(&amazon, 3600);
    amazon.signs(&[("AWS_PROFILE", "given"), (REQUESTS, "5")], &["GIVEN1"; 5]);
}

#[test]
fn keys_that_have_expired_are_not_used() {
    let amazon = Amazon::start();
    process(&amazon, 0);
    amazon.refuses(&[("AWS_PROFILE", "given")], &["`given`", "expired"]);
    assert!(Path::new(&amazon.home.path().join("count")).exists());
}
