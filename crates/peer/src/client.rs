//! The side that asks: a connection to each node that it asks, made when it is needed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::ask::{Answer, Ask};
use crate::backoff::pause;
use crate::connection::{Connection, Lost};
use crate::identity::{Fingerprint, Identity};
use crate::tls;

/// A node that can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its key's.
    pub fingerprint: Fingerprint,
    /// Host and port.
    pub address: String,
}

/// Why there is no answer. The caller does what it would have done alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It cannot be reached, or is not who it should be; it is tried again after a pause.
    Away,
    /// The connection broke before the answer came, or said what makes no sense.
    Broken,
}

/// Asks nodes. Dropping it ends all its connections.
pub struct Client {
    identity: Identity,
    links: Mutex<HashMap<Fingerprint, Link>>,
}

type Opened = watch::Receiver<Option<Result<Arc<Connection>, Failure>>>;

/// What is known of the way to a node.
struct Link {
    address: String,
    failures: u32,
    state: State,
}

enum State {
    Down { not_before: Option<Instant> },
    Opening(Opened),
    Up(Arc<Connection>),
}

impl Client {
    /// Asks as this one.
    pub fn new(identity: Identity) -> Self {
        Self { identity, links: Mutex::default() }
    }

    /// Asks a node, once fewer than 32 questions to it are under way. It may take as long as the other
    /// side is silent, 20 s; who has waited for long enough
    /// drops the future, and a connection that was being made for it is made all the same.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask(self: &Arc<Self>, node: &Node, ask: &Ask) -> Result<Answer, Failure> {
        let body = ask.encode().ok_or(Failure::Broken)?;
        let connection = match self.connection(node)? {
            Way::Up(connection) => connection,
            Way::Opening(mut opened) => match opened.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().unwrap_or(Err(Failure::Away))?,
                Err(_) => return Err(Failure::Away),
            },
        };
        connection.ask(&body).await.map_err(|Lost| Failure::Broken)
    }

    /// Lets the ways go to all nodes but these.
    pub fn keep(&self, nodes: &[Node]) {
        self.links.lock().retain(|who, _| nodes.iter().any(|node| node.fingerprint == *who));
    }

    fn connection(self: &Arc<Self>, node: &Node) -> Result<Way, Failure> {
        let mut links = self.links.lock();
        let link = links.entry(node.fingerprint).or_insert_with(|| Link {
            address: node.address.clone(),
            failures: 0,
            state: State::Down { not_before: None },
        });
        if link.address != node.address {
            link.address.clone_from(&node.address);
            (link.failures, link.state) = (0, State::Down { not_before: None });
        }
        match &link.state {
            State::Up(connection) if !connection.is_lost() => {
                return Ok(Way::Up(connection.clone()));
            }
            State::Opening(opened) => return Ok(Way::Opening(opened.clone())),
            State::Down { not_before: Some(at) } if Instant::now() < *at => {
                return Err(Failure::Away);
            }
            State::Up(_) | State::Down { .. } => {}
        }
        let tls = tls::client(&self.identity, node.fingerprint).map_err(|_| Failure::Away)?;
        let (sender, opened) = watch::channel(None);
        link.state = State::Opening(opened.clone());
        let (client, node) = (Arc::downgrade(self), node.clone());
        tokio::spawn(async move {
            let result = Connection::open(&node.address, tls).await.map(Arc::new);
            let result = result.map_err(|error| {
                tracing::debug!(address = node.address, %error, "another node cannot be reached");
                Failure::Away
            });
            if let Some(client) = client.upgrade() {
                client.opened(&node, &result);
            }
            let _ = sender.send(Some(result));
        });
        Ok(Way::Opening(opened))
    }

    fn opened(&self, node: &Node, result: &Result<Arc<Connection>, Failure>) {
        let mut links = self.links.lock();
        let Some(link) = links.get_mut(&node.fingerprint) else { return };
        if link.address != node.address {
            return;
        }
        link.state = match result {
            Ok(connection) => {
                link.failures = 0;
                State::Up(connection.clone())
            }
            Err(_) => {
                link.failures = link.failures.saturating_add(1);
                State::Down { not_before: Some(Instant::now() + pause(link.failures)) }
            }
        };
    }
}

enum Way {
    Up(Arc<Connection>),
    Opening(Opened),
}
