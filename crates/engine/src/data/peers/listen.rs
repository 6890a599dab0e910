//! Being reached by others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use weir_meta::Leases;
use weir_peer::Server;
use weir_types::{ErrorKind, FsError, Result, Settings};

use super::Peers;
use super::give::{Giver, Rate, packing};

/// Where a mount listens, and where others are told that it does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Nowhere: it neither gives nor takes.
    Off,
    /// Here.
    At {
        /// Port 0 is any free one.
        bind: SocketAddr,
        /// By which address others reach it, at the port that it has then.
        from_others: IpAddr,
        /// Host and port by which others reach it, if not that.
        address: Option<String>,
    },
}

impl Listen {
    /// As settings say; else at any free port of the address by which this machine reaches `database`,
    /// which is `None` for one on this machine.
    ///
    /// # Errors
    /// `Invalid` for an address that is none.
    pub(crate) fn of(settings: &Settings, database: Option<(&str, u16)>) -> Result<Self> {
        let address = settings.peer_address.clone();
        if let Some(address) = &address {
            check_address(address)?;
        }
        let bind = match settings.peer_listen.as_deref() {
            Some("off") => return Ok(Listen::Off),
            Some(text) => text.parse().map_err(|_| {
                let text =
                    format!("--peer-listen {text}: need IP:PORT, as 10.0.0.7:7070, or `off`");
                FsError::new(ErrorKind::Invalid, text)
            })?,
            None => SocketAddr::new(towards(database), 0),
        };
        let bind: SocketAddr = bind;
        // Others cannot call "any address of this machine".
        let any = bind.ip().is_unspecified();
        let from_others = if any { towards(database) } else { bind.ip() };
        Ok(Listen::At { bind, from_others, address })
    }
}

fn check_address(address: &str) -> Result<()> {
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    match port.and_then(|port| port.parse().ok()) {
        Some(1..=u16::MAX) => Ok(()),
        _ => {
            let text = format!("--peer-address {address}: need HOST:PORT, as node7.internal:7070");
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}

/// The address of this machine from which that host is reached. Nothing is sent.
fn towards(host: Option<(&str, u16)>) -> IpAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let Some(host) = host else { return loopback };
    let from = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let found = from.into_iter().find_map(|from| {
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect(host).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    found.unwrap_or(loopback)
}

impl Peers {
    /// Listens, and has the next beat say where. Where that cannot be it is told in the log, and this node
    /// asks the bucket alone. Others may have it look at once who wants its leases.
    pub(crate) async fn listen(&self, listen: Listen, leases: Option<Arc<Leases>>) {
        let Listen::At { bind, from_others, address } = listen else { return };
        let giver = Giver {
            held: self.held.clone(),
            figures: self.figures.clone(),
            rate: Rate::new(self.give_bytes_per_s),
            leases,
            askers: self.askers.clone(),
            tier: self.tier.clone(),
            packing: packing(),
        };
        let members = self.together.clone();
        match Server::listen(bind, &self.identity, members, Arc::new(giver)).await {
            Ok(server) => {
                let bound = SocketAddr::new(from_others, server.address().port());
                let address = address.unwrap_or_else(|| bound.to_string());
                tracing::info!(%address, key = %self.me(), "other nodes of the volume reach this one");
                *self.listening.lock() = Some((server, address));
                if let Some(row) = self.row() {
                    self.together.show(row);
                }
            }
            Err(error) => tracing::warn!(
                %error,
                "this node gives nothing to other nodes and takes nothing from them: name another \
                 address by --peer-listen, or `off`"
            ),
        }
    }
}
