//! A volume with an NFS server in a temporary directory, and a client that was written from the RFCs.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its own part")]

pub mod attrs;
pub mod callbacks;
pub mod client;
pub mod codes;
pub mod ops;
pub mod ops_session;
pub mod replies;
pub mod rpc;
pub mod xdr;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_door_nfs::{Export, Identity, NfsOptions, NfsServer, Squash};
pub use weir_engine::testing::noise;
use weir_engine::testing::{World, clock};

use client::Client;
use rpc::Connection;

/// A server of one volume, in which root is root unless a test says otherwise.
pub struct Served {
    server: Option<NfsServer>,
    pub options: NfsOptions,
    pub world: World,
}

impl Served {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With options that a test changes.
    pub fn with(change: impl FnOnce(&mut NfsOptions)) -> Self {
        Self::over(World::new(), change)
    }

    /// The same of this volume.
    pub fn over(world: World, change: impl FnOnce(&mut NfsOptions)) -> Self {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let mut options = NfsOptions::new(listen, clock().now);
        options.exports = vec![open_export()];
        change(&mut options);
        let mut served = Self { server: None, options, world };
        served.start();
        served
    }

    pub fn start(&mut self) {
        let started = NfsServer::start(self.world.engine(), self.options.clone());
        self.server = Some(self.world.run(started).expect("serves"));
    }

    pub fn stop(&mut self) {
        let server = self.server.take().expect("serves");
        self.world.run(server.stop());
    }

    /// Ends the server, and starts another over the same engine.
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// As `kill -9` of a process with the server and the engine, and another process after it.
    pub fn kill(&mut self) {
        drop(self.server.take());
        self.world.kill();
        self.world.mount().expect("mounts");
        self.start();
    }

    /// The machine is gone with its disks; another one serves the volume.
    pub fn lose_machine(&mut self) {
        drop(self.server.take());
        self.world.lose_machine();
        self.world.mount().expect("mounts");
        self.start();
    }

    pub fn server(&self) -> &NfsServer {
        self.server.as_ref().expect("serves")
    }

    pub fn address(&self) -> SocketAddr {
        self.server().address()
    }

    /// A client of root.
    pub fn client(&self, name: &str) -> Client {
        Client::new(self.address(), name)
    }

    /// Lets time pass.
    pub fn wait(&self, ms: u64) {
        self.world.run(async move { tokio::time::sleep(Duration::from_millis(ms)).await });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.server.is_some() && !std::thread::panicking() {
            self.stop();
        }
    }
}

/// A connection from this address of the machine.
pub fn connect_from(address: SocketAddr, from: IpAddr) -> Connection {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let stream = runtime.expect("a runtime").block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(address).await?.into_std()
    });
    let stream = stream.expect("connects");
    stream.set_nonblocking(false).expect("blocks");
    Connection::over(stream)
}

/// All of the volume, with root as root.
pub fn open_export() -> Export {
    Export { squash: Squash::None, ..Export::whole() }
}

/// A user with no more groups.
pub fn identity(uid: u32, gid: u32) -> Identity {
    Identity { uid, gid, groups: Vec::new() }
}

/// A seed for random tests, which is said: the one that is asked for, or any.
pub fn seed() -> u64 {
    let asked = std::env::var("WEIR_SEED").ok();
    let seed = asked.map_or_else(rand::random, |seed| seed.parse().expect("WEIR_SEED is a number"));
    eprintln!("seed {seed}: repeat with WEIR_SEED={seed}");
    seed
}

/// Tells of a result that was none of these.
#[track_caller]
pub fn assert_any(stat: codes::Stat, wanted: &[codes::Stat]) {
    assert!(wanted.contains(&stat), "{stat:?}, wanted one of {wanted:?}");
}
