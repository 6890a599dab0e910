//! How to reach a bucket.

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
}
