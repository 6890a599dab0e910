//! How to reach a bucket, and how to open what is in it.

use std::path::PathBuf;

use clap::Args;

/// How to reach a bucket.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConnectArgs {
    /// Address of an S3 server other than Amazon's, such as http://127.0.0.1:7070
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// Region of the bucket [default: from the environment or ~/.aws, else us-east-1]
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Put the bucket's name into the path, not the host name [default: yes with --endpoint]
    #[arg(long)]
    pub(crate) path_style: bool,
    /// Profile of ~/.aws/config and ~/.aws/credentials
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Sign nothing, whatever keys there are: for buckets that all may read
    #[arg(long, conflicts_with = "profile")]
    pub(crate) anonymous: bool,
    /// Sign the SHA-256 of every body [default: only over plain http to another machine; else the
    /// server checks a CRC-64/NVME, which costs a twentieth]
    #[arg(long)]
    pub(crate) sign_payload: bool,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

/// What opens a volume that is encrypted.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct KeyArgs {
    /// File with the key or passphrase of an encrypted volume; `-` asks for the passphrase [default: WEIR_KEY_FILE, where
    /// that is set]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Shell command that prints the key or passphrase instead [default: WEIR_KEY_COMMAND]
    #[arg(long, value_name = "COMMAND", conflicts_with = "key_file")]
    pub(crate) key_command: Option<String>,
}
