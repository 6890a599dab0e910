//! Exports and clients of NFS.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_door_nfs::{ClientView, Export, Identity, Network, NfsCounts, Squash, UseView};

use super::call::call;

/// What of the volume NFS clients may mount.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListExports {}
call!(Get "/v1/exports", ListExports => Vec<Export>);

/// Exports a directory under a name, in place of what had it. Holds from the next request of any client on.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetExport {
    /// The directory, below the volume's root.
    pub(crate) path: String,
    /// What clients mount it as: `host:/NAME`; empty for `host:/`.
    pub(crate) name: String,
    pub(crate) read_only: bool,
    pub(crate) squash: Squash,
    /// Who everybody is that is squashed.
    pub(crate) anonymous: Identity,
    /// Who everybody is, whoever they say they are.
    pub(crate) forced: Option<Identity>,
    /// From where it may be mounted; empty: from everywhere.
    pub(crate) allow: Vec<Network>,
    /// Changes of names and attributes are answered before they are durable.
    pub(crate) asynchronous: bool,
    /// Only by TLS.
    pub(crate) needs_tls: bool,
    /// Make the directory if it is not there, with this mode and the owner that everybody is forced to be.
    pub(crate) make_mode: Option<u32>,
    /// Refuse where the name is taken.
    pub(crate) only_new: bool,
    /// What all that is done in the directory may move, by whatever door: its throughput rule is changed.
    #[serde(default)]
    pub(crate) limit: Option<ExportLimit>,
}
call!(Post "/v1/exports/set", SetExport => Export);

/// The throughput rule of an export's directory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportLimit {
    /// So many MiB a second, as EFS provisions them: reads count a third.
    MibPerS(f64),
    /// No limit.
    None,
}

/// Ends an export. Clients that have it mounted get errors.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveExport {
    pub(crate) name: String,
}
call!(Post "/v1/exports/remove", RemoveExport => Export);

/// Who has the volume mounted by NFS.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListClients {}
call!(Get "/v1/nfs/clients", ListClients => Vec<ClientView>);

/// What was done by NFS, by address and export, also by those that are gone. Empty where there is no NFS.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListNfsUses {}
call!(Get "/v1/nfs/uses", ListNfsUses => Vec<UseView>);

/// How the NFS door stands.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NfsStatus {
    #[schemars(with = "String")]
    pub(crate) address: SocketAddr,
    /// Whether clients may use TLS.
    pub(crate) tls: bool,
    /// Clients that are known.
    pub(crate) clients: u64,
    /// Clients of before the start are waited for: nobody else opens or locks files until they have claimed what
    /// they had.
    pub(crate) claiming: bool,
    /// Whether clients are answered: not where another machine may have the volume by now.
    pub(crate) answers: bool,
    pub(crate) counts: NfsCounts,
}
