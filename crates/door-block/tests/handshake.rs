//! The handshake: options, names, TLS, and clients that do it wrong.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::client::{
    ACK, Client, ERR_INVALID, ERR_POLICY, ERR_TLS_REQD, ERR_TOO_BIG, ERR_UNKNOWN, ERR_UNSUP, INFO,
    SERVER, Style, info, meta,
};
use common::{World, noise};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use weir_door_block::{NbdOptions, NbdServer, ServerFiles};
use weir_engine::DiskCache;

const SIZE: u64 = 64 << 20;

#[test]
fn options_are_answered() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        world.create("b", 1 << 20, DiskCache::Tier).await;
        world.engine().snapshot_disk("a", "s").await.expect("a snapshot");
        let server = world.serve().await;
        let mut client = Client::connect(&server).await;
        let name =
            |name: &str| (SERVER, [&(name.len() as u32).to_be_bytes(), name.as_bytes()].concat());
        let all = [name("a"), name("a@s"), name("b"), (ACK, Vec::new())];
        assert_eq!(client.option(3, b"").await, all);
        assert_eq!(client.option_kind(3, b"data").await, ERR_INVALID);
        assert_eq!(client.option_kind(4, b"what is that").await, ERR_UNSUP);
        assert_eq!(client.option_kind(5, b"").await, ERR_POLICY);
        assert_eq!(client.option_kind(6, b"\xff\xff\xff\xff").await, ERR_INVALID);
        assert_eq!(client.option_kind(6, &info("a\0", &[])).await, ERR_INVALID);
        assert_eq!(client.option_kind(6, &vec![0; 70_000]).await, ERR_TOO_BIG);
        assert_eq!(client.option_kind(10, &meta("a", &["base:allocation"])).await, ERR_INVALID);

        let answers = client.option(6, &info("a", &[1, 2, 3, 9])).await;
        let flags = 0b1001_0110_1101u16.to_be_bytes();
        assert_eq!(answers[0].1, [&[0, 0][..], &SIZE.to_be_bytes(), &flags].concat());
        assert_eq!(answers[1].1, b"\0\x01a");
        assert_eq!(answers[2].1, b"\0\x02disk of 64 MiB in records of 1 MiB");
        assert_eq!(answers[3].1, [0, 3, 0, 0, 0, 1, 0, 0x10, 0, 0, 2, 0, 0, 0]);
        assert_eq!(answers[4], (ACK, Vec::new()));
        assert!(answers[..4].iter().all(|answer| answer.0 == INFO));

        assert_eq!(client.option_kind(8, b"").await, ACK);
        let context = |id: u8| (4, [&[0, 0, 0, id], &b"base:allocation"[..]].concat());
        let done = (ACK, Vec::new());
        assert_eq!(client.option(9, &meta("a", &[])).await, [context(0), done.clone()]);
        assert_eq!(client.option(9, &meta("a", &["base:"])).await, [context(0), done.clone()]);
        assert_eq!(client.option(9, &meta("a", &["qemu:x"])).await, std::slice::from_ref(&done));
        assert_eq!(client.option(10, &meta("a", &["base:"])).await, std::slice::from_ref(&done));
        assert_eq!(client.option_kind(9, &meta("nope", &[])).await, ERR_UNKNOWN);
        assert_eq!(client.option_kind(11, b"").await, ACK);
        assert_eq!(client.option_kind(8, b"").await, 1 << 31 | 10);
        client.send_option(2, b"bye").await;
        assert_eq!(client.answer(2).await.0, ACK);
        client.assert_closed().await;
        assert_eq!(server.counts().connections_total, 0);
        server.stop().await;
    });
}

#[test]
fn names_are_found_or_said_to_be_wrong() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        world.engine().snapshot_disk("a", "s").await.expect("a snapshot");
        let mut client = Client::connect(&server).await;
        let answers = client.option(7, &info("nope", &[])).await;
        assert_eq!(answers[0].0, ERR_UNKNOWN);
        let text = String::from_utf8_lossy(&answers[0].1).into_owned();
        assert!(text.contains("`nope`") && text.contains("weir disk list"), "{text}");
        assert_eq!(client.go("").await.0, SIZE, "the only disk");
        assert_eq!(client.read(0, 1).await, [0]);

        world.create("b", 1 << 20, DiskCache::Tier).await;
        let mut client = Client::connect(&server).await;
        assert_eq!(client.option_kind(7, &info("", &[])).await, ERR_UNKNOWN, "one of two");
        // An old client: its option has no answer but the disk itself, or the end.
        client.send_option(1, b"b").await;
        let mut answer = [0; 10];
        client.stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(answer[..8], (1u64 << 20).to_be_bytes());
        assert_eq!(client.read(0, 1).await, [0]);
        let mut client = Client::connect(&server).await;
        client.send_option(1, b"nope").await;
        client.assert_closed().await;
        server.stop().await;
    });
}

#[test]
fn contexts_are_of_the_disk_that_they_were_chosen_for() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        world.create("b", 1 << 20, DiskCache::Tier).await;
        let server = world.serve().await;
        let mut client = Client::connect(&server).await;
        client.style = Style::Structured;
        assert_eq!(client.option_kind(8, b"").await, ACK);
        assert_eq!(client.option(10, &meta("b", &["base:allocation"])).await.len(), 2);
        client.go("a").await;
        assert_eq!(client.call(7, 0, 0, 4096).await.error, 22);
        server.stop().await;
    });
}

#[test]
fn nonsense_ends_a_handshake() {
    let world = World::with_disk("a", DiskCache::None);
    world.run(async {
        let server = world.serve().await;
        let garbage = noise(1, 64);
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 4], &garbage] {
            let stream = TcpStream::connect(server.address().expect("listens")).await;
            let mut client = Client::over(stream.expect("connects"));
            client.stream.read_exact(&mut [0; 18]).await.expect("is greeted");
            client.send(bytes).await;
            client.assert_closed().await;
        }
        let mut client = Client::connect(&server).await;
        client.send(&[b"IHAVEOPT", &[0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff][..]].concat()).await;
        client.assert_closed().await;
        let mut client = Client::connect(&server).await;
        client.send(&[b"IHAVENOT", &[0; 8][..]].concat()).await;
        client.assert_closed().await;
        assert_eq!(Client::connect(&server).await.go("a").await.0, SIZE);
        server.stop().await;
    });
}

#[test]
fn a_unix_socket_is_taken_over_from_the_dead_only_and_goes_with_its_server() {
    let world = World::with_disk("a", DiskCache::None);
    let path = world.path().join("nbd.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a dead server's socket"));
    world.run(async {
        let options = NbdOptions { unix: Some(path.clone()), ..NbdOptions::default() };
        let server = NbdServer::start(world.engine(), options.clone()).await.expect("serves");
        assert_eq!(server.address(), None);
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "for its owner alone");
        let second = NbdServer::start(world.engine(), options.clone()).await;
        let error = second.err().expect("refused").to_string();
        assert!(error.contains("another server"), "{error}");
        let mut client = Client::over(UnixStream::connect(&path).await.expect("connects"));
        client.stream.read_exact(&mut [0; 18]).await.expect("is greeted");
        client.send(&[0, 0, 0, 1]).await;
        assert_eq!(client.go("a").await.0, SIZE);
        server.stop().await;
        client.assert_closed().await;
        assert!(!path.exists());

        std::fs::write(&path, "precious").expect("a file");
        let refused = NbdServer::start(world.engine(), options).await;
        assert!(refused.err().expect("refused").to_string().contains("no socket"));
        assert!(path.exists());
    });
}

#[test]
fn with_tls_nothing_else_is_answered() {
    let world = World::with_disk("a", DiskCache::None);
    let certificates = Certificates::make(world.path());
    world.run(async {
        let tls = Some(certificates.server(false));
        let server = world.serve_with(NbdOptions { tls, ..NbdOptions::default() }).await;
        let mut client = Client::connect(&server).await;
        for number in [3, 6, 7, 8, 9, 10, 11, 99] {
            assert_eq!(client.option_kind(number, b"").await, ERR_TLS_REQD, "option {number}");
        }
        let mut within = certificates.begin(client, false).await.expect("TLS");
        assert_eq!(within.option_kind(5, b"").await, ERR_INVALID, "once is enough");
        within.agree("a", Style::Structured).await;
        let data = noise(8, 3 << 20);
        assert_eq!(within.write(0, 4096, &data).await.error, 0);
        assert!(within.read(4096, 3 << 20).await == data, "3 MiB differ");

        let mut client = Client::connect(&server).await;
        client.send_option(1, b"a").await;
        client.assert_closed().await;
        server.stop().await;
        within.assert_closed().await;
    });
}

#[test]
fn clients_show_a_certificate_where_one_is_asked_for() {
    let world = World::with_disk("a", DiskCache::None);
    let certificates = Certificates::make(world.path());
    world.run(async {
        let tls = Some(certificates.server(true));
        let server = world.serve_with(NbdOptions { tls, ..NbdOptions::default() }).await;
        let known = certificates.begin(Client::connect(&server).await, true).await;
        assert_eq!(known.expect("TLS").go("a").await.0, SIZE);
        // TLS 1.3 tells the refusal with the first bytes that are read.
        let unknown = certificates.begin(Client::connect(&server).await, false).await;
        if let Some(unknown) = unknown {
            unknown.assert_closed().await;
        }
        server.stop().await;

        let wrong = ServerFiles { key: world.path().join("absent"), ..certificates.server(false) };
        let options = NbdOptions { tls: Some(wrong), ..NbdOptions::default() };
        let error = NbdServer::start(world.engine(), options).await.err().expect("refused");
        assert!(error.to_string().contains("absent"), "{error}");
    });
}

/// An authority, and certificates of a server and a client that it signed.
struct Certificates<'a> {
    dir: &'a Path,
}

impl<'a> Certificates<'a> {
    fn make(dir: &'a Path) -> Self {
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
        Self { dir }
    }

    fn server(&self, clients: bool) -> ServerFiles {
        ServerFiles {
            certificate: self.dir.join("server.pem"),
            key: self.dir.join("server.key"),
            client_authority: clients.then(|| self.dir.join("ca.pem")),
        }
    }

    /// Begins TLS, with the client's own certificate or without; `None` if the server refuses.
    async fn begin(
        &self,
        mut client: Client<TcpStream>,
        own: bool,
    ) -> Option<Client<tokio_rustls::client::TlsStream<TcpStream>>> {
        let pem = |name: &str| CertificateDer::from_pem_file(self.dir.join(name)).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(pem("ca.pem")).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match own {
            false => builder.with_no_client_auth(),
            true => {
                let key = PrivateKeyDer::from_pem_file(self.dir.join("client.key")).expect("PEM");
                builder.with_client_auth_cert(vec![pem("client.pem")], key).expect("a certificate")
            }
        };
        assert_eq!(client.option_kind(5, b"").await, ACK);
        let name = ServerName::try_from("localhost").expect("a name");
        let stream =
            TlsConnector::from(Arc::new(config)).connect(name, client.stream).await.ok()?;
        Some(Client::over(stream))
    }
}
