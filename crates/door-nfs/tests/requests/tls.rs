//! TLS (RFC 9289): who asks is told, and goes on within it.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_door_nfs::{Export, NfsServer, ServerFiles, TlsOptions};

use crate::common::client::{Client, FIRST_LIFE, compound};
use crate::common::codes::{ACCESS, NOENT, OK, PERM, WRONGSEC, attr};
use crate::common::ops::{getattr, getfh, lookup, putrootfh};
use crate::common::ops_session::{exchange_id, reclaim_complete};
use crate::common::rpc::{Answer, Connection, Cred, Head, Wire};
use crate::common::{Served, noise, open_export};

/// An authority, and certificates of a server and a client that it signed.
struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    fn make(dir: &Path) -> Self {
        let script = "
            set -e
            key() { openssl ecparam -genkey -name prime256v1 -noout -out $1.key; }
            key ca
            openssl req -x509 -new -key ca.key -subj /CN=weir-test-authority -days 2 -out ca.pem
            for who in server client; do
                key $who
                openssl req -new -key $who.key -subj /CN=$who -out $who.csr
                printf 'subjectAltName=DNS:localhost\\nbasicConstraints=CA:FALSE\\n' > $who.ext
                openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
                    -days 2 -extfile $who.ext -out $who.pem
            done";
        let made = Command::new("sh").args(["-c", script]).current_dir(dir).output();
        let made = made.expect("sh and openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { dir: dir.to_owned() }
    }

    fn server(&self, clients: bool, required: bool) -> TlsOptions {
        TlsOptions {
            files: ServerFiles {
                certificate: self.dir.join("server.pem"),
                key: self.dir.join("server.key"),
                client_authority: clients.then(|| self.dir.join("ca.pem")),
            },
            required,
        }
    }

    fn config(&self, own: bool, protocol: &[u8]) -> ClientConfig {
        let pem = |name: &str| CertificateDer::from_pem_file(self.dir.join(name)).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(pem("ca.pem")).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match own {
            false => builder.with_no_client_auth(),
            true => {
                let key = PrivateKeyDer::from_pem_file(self.dir.join("client.key")).expect("PEM");
                builder.with_client_auth_cert(vec![pem("client.pem")], key).expect("a certificate")
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        config
    }

    /// Begins TLS on a connection; nothing if the server refuses.
    fn begin(&self, mut connection: Connection, own: bool) -> Option<Connection> {
        assert!(probe(&mut connection), "the server has TLS");
        let config = Arc::new(self.config(own, b"sunrpc"));
        connection.wrap(|tcp| shake_hands(config, tcp)).then_some(connection)
    }
}

fn shake_hands(config: Arc<ClientConfig>, mut tcp: TcpStream) -> Option<Box<dyn Wire>> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = ClientConnection::new(config, name).expect("a client");
    while tls.is_handshaking() {
        if let Err(error) = tls.complete_io(&mut tcp) {
            let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!silent, "the server is silent");
            return None;
        }
    }
    Some(Box::new(StreamOwned::new(tls, tcp)))
}

/// Asks whether there is TLS.
fn probe(connection: &mut Connection) -> bool {
    let said = connection.call(&Head::null(Cred::Tls), &[]);
    match said.answer {
        Answer::Done(_) => said.verifier == (0, b"STARTTLS".to_vec()),
        Answer::BadAuth(_) => false,
        other => panic!("{other:?}"),
    }
}

fn with_tls(clients: bool, required: bool) -> (Served, Certificates) {
    let mut served = Served::new();
    let certificates = Certificates::make(served.world.dir.path());
    served.options.tls = Some(certificates.server(clients, required));
    served.restart();
    (served, certificates)
}

#[test]
fn a_server_without_tls_says_so_and_goes_on() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    assert!(!probe(&mut connection));
    let said = connection.call(&Head::null(Cred::root()), &[]);
    assert_eq!(said.answer, Answer::Done(vec![]), "4.1: without TLS");
}

#[test]
fn all_goes_on_within_tls() {
    let (served, certificates) = with_tls(false, false);
    let connection = Connection::open(served.address());
    let connection = certificates.begin(connection, false).expect("TLS");
    let mut client = Client::over(connection, served.address(), "a", FIRST_LIFE);
    client.call(&[reclaim_complete(false)]).ok();
    let root = client.root();
    let bytes = noise(1, 3 << 20);
    let file = client.file(&root, "file", &bytes);
    assert!(client.content(&file) == bytes, "3 MiB differ");
    // TLS within TLS there is none.
    assert!(!probe(&mut client.connection));
    client.call(&[putrootfh()]).ok();
    // It may be left away.
    let mut plain = served.client("plain");
    assert!(plain.content(&file) == bytes);
}

#[test]
fn a_compound_does_not_ask_for_tls() {
    let (served, _) = with_tls(false, false);
    let mut connection = Connection::open(served.address());
    let said = connection.call(&Head::compound(&Cred::Tls), &compound(1, &[]));
    assert!(matches!(said.answer, Answer::BadAuth(_)), "RFC 9289, 4.1: {said:?}");
}

#[test]
fn who_must_use_tls_gets_nothing_without() {
    let (served, certificates) = with_tls(false, true);
    let mut plain = Connection::open(served.address());
    assert_eq!(plain.call(&Head::null(Cred::None), &[]).answer, Answer::Done(vec![]));
    let exchange = exchange_id(FIRST_LIFE, b"plain", 0);
    let said = plain.call(&Head::compound(&Cred::root()), &compound(1, &[exchange]));
    // It may make a session where the server does not refuse the call; it sees no file by it.
    if !matches!(said.answer, Answer::BadAuth(_)) {
        let mut plain = served.client("plain");
        for op in [getattr(&[attr::SIZE]), lookup("file")] {
            let stat = plain.call(&[putrootfh(), op]).stat;
            assert!([WRONGSEC, ACCESS].contains(&stat), "{stat:?}");
        }
    }
    let connection = Connection::open(served.address());
    let connection = certificates.begin(connection, false).expect("TLS");
    let mut client = Client::over(connection, served.address(), "a", FIRST_LIFE);
    client.call(&[putrootfh(), getattr(&[attr::SIZE])]).ok();
}

#[test]
fn clients_show_a_certificate_where_one_is_asked_for() {
    let (served, certificates) = with_tls(true, true);
    let known = certificates.begin(Connection::open(served.address()), true).expect("TLS");
    Client::over(known, served.address(), "a", FIRST_LIFE);
    // TLS 1.3 tells the refusal with the first bytes that are read.
    let unknown = certificates.begin(Connection::open(served.address()), false);
    if let Some(mut unknown) = unknown
        && unknown.send_record(&Head::null(Cred::None).record(5, &[]))
    {
        unknown.assert_closed();
    }
    let mut served = served;
    served.stop();
    let absent = served.world.path("absent");
    let mut tls = certificates.server(false, false);
    tls.files.key = absent;
    let tls = Some(tls);
    let options = weir_door_nfs::NfsOptions { tls, ..served.options.clone() };
    let error = served.world.run(NfsServer::start(served.world.engine(), options));
    let error = error.err().expect("refused").to_string();
    assert!(error.contains("absent"), "{error}");
    served.start();
}

#[test]
fn an_export_that_needs_tls_is_not_there_without() {
    let (served, certificates) = with_tls(false, false);
    let engine = served.world.engine();
    let dir = engine.create(weir_types::Ino::ROOT, b"dir", weir_engine::testing::new_dir());
    let dir = served.world.run(dir).expect("a directory").ino;
    let secret = Export { id: 3, name: "safe".into(), root: dir, needs_tls: true, ..open_export() };
    served.server().set_exports(vec![secret]);
    let mut plain = served.client("plain");
    let seen = plain.call(&[putrootfh(), lookup("safe"), getfh()]).stat;
    assert!([WRONGSEC, ACCESS, PERM, NOENT].contains(&seen), "{seen:?}");
    let connection = Connection::open(served.address());
    let connection = certificates.begin(connection, false).expect("TLS");
    let mut client = Client::over(connection, served.address(), "a", FIRST_LIFE);
    let handle = client.call(&[putrootfh(), lookup("safe"), getfh()]).ok().last().handle();
    // Not by its handle either.
    let stat = plain.stat(&handle, getattr(&[attr::TYPE]));
    assert_ne!(stat, OK);
}

#[test]
fn what_is_no_handshake_ends_the_connection_only() {
    let (served, certificates) = with_tls(false, false);
    for bytes in [&b"this is no handshake at all, whatever it may be"[..], &[0x16; 300], &[0; 64]] {
        let mut connection = Connection::open(served.address());
        assert!(probe(&mut connection));
        connection.send_raw(bytes);
        connection.end_sending();
        while connection.read_some() {}
    }
    // Another protocol than RPC.
    let mut connection = Connection::open(served.address());
    assert!(probe(&mut connection));
    let config = Arc::new(certificates.config(false, b"http/1.1"));
    assert!(!connection.wrap(|tcp| shake_hands(config, tcp)), "RFC 9289, 8.2: sunrpc");
    served.client("a").call(&[putrootfh()]).ok();
}
