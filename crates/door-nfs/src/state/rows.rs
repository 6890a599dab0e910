//! Rows of clients, where nodes share the volume: each names the node that the client is at.

use bytes::Bytes;
use weir_engine::SessionId as Node;

use super::grace::{CLIENT_ROWS, row_of};

/// The node that a row of a client names, if it names one.
pub(crate) fn node_of(row: &str) -> Option<Node> {
    let (_, node) = row.strip_prefix(CLIENT_ROWS)?.split_once('/')?;
    u64::from_str_radix(node, 16).ok().map(Node)
}

/// The row of a client at a node.
pub(crate) fn row_at(owner: &[u8], node: Node) -> String {
    format!("{}/{node}", row_of(owner))
}

/// What this server goes on with of the rows that are there, and what is to become of them first.
pub(crate) struct Before {
    /// Clients of the server before this one.
    pub(crate) owners: Vec<Bytes>,
    pub(crate) rows: Vec<(String, Option<Bytes>)>,
}

/// Of nodes there are none any more where a server is alone with the volume: their clients are its own.
pub(crate) fn before(rows: Vec<(String, Bytes)>, is_shared: bool) -> Before {
    let (of_nodes, own): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|(row, _)| node_of(row).is_some());
    let mut owners: Vec<Bytes> = own.into_iter().map(|(_, owner)| owner).collect();
    let mut rows = Vec::new();
    if !is_shared {
        for (row, owner) in of_nodes {
            rows.push((row, None));
            rows.push((row_of(&owner), Some(owner.clone())));
            owners.push(owner);
        }
    }
    Before { owners, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_nodes_where_there_are_some() {
        let (one, two) = (Bytes::from_static(b"one"), Bytes::from_static(b"two"));
        let (own, of_node) = (row_of(&one), row_at(&two, Node(0xab)));
        assert_eq!((node_of(&own), node_of(&of_node)), (None, Some(Node(0xab))));
        assert!(of_node.starts_with(&row_of(&two)) && of_node.len() <= 255);
        let rows = || vec![(own.clone(), one.clone()), (of_node.clone(), two.clone())];
        let shared = before(rows(), true);
        assert_eq!((shared.owners, shared.rows), (vec![one.clone()], vec![]));
        let alone = before(rows(), false);
        assert_eq!(alone.owners, [one, two.clone()]);
        assert_eq!(alone.rows, [(of_node, None), (row_of(&two), Some(two))]);
    }
}
