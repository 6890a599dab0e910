//! URLs, passwords and services.

use std::collections::BTreeMap;

use super::*;

fn url(text: &str) -> PostgresUrl {
    PostgresUrl::parse(text).unwrap()
}

#[test]
fn a_url_shows_all_but_its_password() {
    let full = "postgres://me:s%40cret@h1:5433,[::1],%2Frun%2Fpg/my%20db?sslmode=verify-ca\
                &sslrootcert=/a/b&target_session_attrs=read-write";
    let full = url(full);
    let shown = "postgres://me@h1:5433,[::1],%2Frun%2Fpg/my%20db?sslmode=verify-ca&\
                 sslrootcert=%2Fa%2Fb";
    assert_eq!((full.to_string(), format!("{full:?}")), (shown.into(), shown.into()));
    assert!(full.has_password() && !url(shown).has_password());
    assert_eq!(url(shown).to_string(), shown);
    assert_eq!(full.password.as_deref(), Some("s@cret"));
    assert_eq!(full.servers()[2], Server { host: "/run/pg".into(), port: 5432 });
    assert_eq!(url("postgresql://h").to_string(), "postgres://h/");
}

#[test]
fn a_bad_url_is_refused_without_its_password() {
    for (text, why) in [
        ("mysql://me:hidden@h/d", "does not start"),
        ("postgres://me:hidden@h:x/d", "no port"),
        ("postgres://me:hidden@h/d?sslmode=prefer", "without encryption"),
        ("postgres://me:hidden@h/d?ssl=yes", "not known"),
        ("postgres://me:hidden@h/d?target_session_attrs=any", "read-write"),
        ("postgres://me:hidden%ff@h/d", "UTF-8"),
    ] {
        let error = PostgresUrl::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
}

#[test]
fn tls_is_asked_for_unless_nobody_is_on_the_way() {
    let none = |_: &str| None;
    for (text, mode) in [
        ("postgres://me@db.example/d", SslMode::VerifyFull),
        ("postgres://me@db.example/d?sslmode=require", SslMode::Require),
        ("postgres://me@127.0.0.1/d", SslMode::Disable),
        ("postgres://me@localhost/d?sslmode=verify-full", SslMode::VerifyFull),
        ("postgres://me@%2Frun/d?sslmode=verify-full", SslMode::Disable),
    ] {
        let login = Login::of(&url(text), &none).unwrap();
        assert_eq!(login.sslmode(&login.servers[0]), mode, "{text}");
    }
}

#[test]
fn passwords_are_found_where_psql_finds_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.into_os_string()
    };
    let lines = "# comment\nh1:5432:d:me:one\nh\\:2:*:*:me:t\\:wo:o\nlocalhost:*:*:*:sock\n";
    let mut have = BTreeMap::from([("PGPASSFILE", file("pass", lines, 0o600))]);
    let password = |have: &BTreeMap<&str, OsString>, text: &str| {
        let env = |name: &str| have.get(name).cloned();
        Login::of(&url(text), &env)
            .map(|login| login.password(&login.servers[0]).map(str::to_owned))
    };
    let found = |have: &_, text| password(have, text).unwrap().unwrap_or_default();
    assert_eq!(found(&have, "postgres://me@h1/d"), "one");
    assert_eq!(found(&have, "postgres://me@h1:1/d"), "");
    assert_eq!(found(&have, "postgres://me@h%3A2/d"), "t:wo:o");
    assert_eq!(found(&have, "postgres://me@%2Frun/d"), "sock");
    assert_eq!(found(&have, "postgres://me:url@h1/d"), "url");
    have.insert("PGPASSFILE", file("open", lines, 0o644));
    let error = password(&have, "postgres://me@h1/d").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    have.insert("PGPASSWORD", "env".into());
    assert_eq!(found(&have, "postgres://me@h1/d"), "env");
    let services =
        "[a]\nhost=x\n[b]\n# c\nhost=h1,h2\nport=1,2\nuser=you\npassword=svc\ndbname=e\n";
    have.insert("PGSERVICEFILE", file("services", services, 0o644));
    let env = |name: &str| have.get(name).cloned();
    let login = Login::of(&url("postgres:///?service=b"), &env).unwrap();
    assert_eq!((&login.user[..], &login.database[..]), ("you", "e"));
    assert_eq!(login.servers[1], Server { host: "h2".into(), port: 2 });
    assert_eq!(login.password(&login.servers[1]), Some("svc"));
    let error = Login::of(&url("postgres:///?service=c"), &env).err().unwrap();
    assert!(error.to_string().contains("no service [c]"), "{error}");
}
