//! `weir-csi`: volumes of Weir for the pods of a Kubernetes cluster, by the Container Storage
//! Interface.
//!
//! It mounts by the program `weir`, and knows no inside of the file system. What is mounted outlives
//! it: it may be ended and started again at any time.

mod bind;
mod capability;
mod controller;
mod directories;
mod driver;
mod fault;
mod identity;
mod node;
mod node_service;
mod proto;
mod server;
mod shared;
mod source;
mod table;
mod weir;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::driver::Driver;
use crate::server::Faces;
use crate::shared::MountedVolumes;
use crate::weir::Weir;

/// Volumes of Weir for Kubernetes, by the Container Storage Interface
#[derive(Debug, Parser)]
#[command(name = "weir-csi", version)]
struct Args {
    /// Socket to serve the interface on
    #[arg(long, value_name = "unix:PATH", env = "CSI_ENDPOINT")]
    endpoint: String,

    /// The node's name in the cluster
    #[arg(long, value_name = "NAME", env = "NODE_NAME", default_value = "")]
    node_id: String,

    /// Be a controller, which makes and removes volumes [default: this and --node]
    #[arg(long)]
    controller: bool,

    /// Be a node, which shows volumes to pods
    #[arg(long)]
    node: bool,

    /// The program that mounts; with --on-host, its place there
    #[arg(long, value_name = "FILE", default_value = "weir", env = "WEIR")]
    weir: PathBuf,

    /// Run that program on the host of this container, in scopes of its systemd: volumes stay mounted
    /// when the container ends
    #[arg(long)]
    on_host: bool,

    /// Directory of this driver's mounts, which has the same path on the host
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/plugins/csi.weir/volumes")]
    state: PathBuf,

    /// Directory on a local disk for tiers, on the host
    #[arg(long, value_name = "DIR", default_value = "/var/lib/weir/csi")]
    tier: PathBuf,

    /// Allow volumes that are directories of a node: for tests
    #[arg(long)]
    file_urls: bool,
}

impl Args {
    fn driver(&self, faces: Faces) -> Result<Driver, String> {
        if faces.node && self.node_id.is_empty() {
            return Err("a node has a name in the cluster: say --node-id NAME".to_owned());
        }
        std::fs::create_dir_all(&self.state)
            .map_err(|e| format!("make {}: {e}", self.state.display()))?;
        // As the kernel's table of mounts has it.
        let state = self.state.canonicalize();
        let state = state.map_err(|e| format!("look at {}: {e}", self.state.display()))?;
        Ok(Driver {
            shared: MountedVolumes {
                weir: Weir::new(self.weir.clone(), self.on_host),
                state,
                tier: self.tier.clone(),
                files_too: self.file_urls,
            },
            node_id: self.node_id.clone(),
            with_controller: faces.controller,
        })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let filter = EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    log.with_writer(std::io::stderr).init();
    let both = args.controller == args.node;
    let faces = Faces { controller: args.controller || both, node: args.node || both };
    let served = match args.driver(faces) {
        Ok(driver) => server::serve(driver, faces, &args.endpoint).await,
        Err(text) => Err(text),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            tracing::error!("{text}");
            ExitCode::FAILURE
        }
    }
}
