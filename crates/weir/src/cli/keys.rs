//! The command line of `weir key`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::connect::ConnectArgs;

pub(super) const KEY_EXAMPLES: &str = "\
Examples:
  weir key new /etc/weir/genomes.key                           a file with a key by chance
  weir key new /etc/weir/genomes.key --kms alias/weir          the same, sealed by AWS KMS, which opens it for who may ask
  weir format s3://my-bucket/genomes --encrypt --key-file /etc/weir/genomes.key
  weir key list s3://my-bucket/genomes
  weir key add s3://my-bucket/genomes escrow --new-key-file words --key-file /etc/weir/genomes.key
  weir key remove s3://my-bucket/genomes escrow --key-file /etc/weir/genomes.key
  weir key rotate s3://my-bucket/genomes --stays words --key-file /etc/weir/genomes.key

A key file has a key that `weir key new` made, as it is or sealed by AWS KMS, or one line that is a passphrase. Any key of a volume opens it: give each
machine or team its own, and keep one where no fire reaches both. Mounts go on with what they have; after `rotate` what
they write is sealed by the new key once they are mounted anew. Without any of its keys a volume is lost.";

#[derive(Args, Debug)]
pub(crate) struct KeyCommandArgs {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum KeyCommand {
    /// Make a file with a key by chance, which only its owner can read
    New {
        /// The file, which must not be there
        file: PathBuf,
        /// Have the key sealed by a key of AWS KMS (its ARN, id or `alias/…`): who may use that opens it, and the file is no secret
        #[arg(long, value_name = "KEY")]
        kms: Option<String>,
        /// Profile of ~/.aws/config by which KMS is asked
        #[arg(long, requires = "kms")]
        profile: Option<String>,
    },
    /// What opens a volume: names, not the keys
    List(KeyListArgs),
    /// Let one more key or passphrase open a volume
    Add(KeyAddArgs),
    /// Let a key or passphrase open a volume no more; the one that is given stays
    Remove(KeyRemoveArgs),
    /// Seal what is written from the next mount on by a new key, which only those that are given open
    Rotate(KeyRotateArgs),
}

#[derive(Args, Debug)]
pub(crate) struct KeyListArgs {
    /// The volume
    pub(crate) url: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct KeyAddArgs {
    /// The volume
    pub(crate) url: String,
    /// What the new one is to be called
    pub(crate) name: String,
    /// File with the new key or passphrase; `-` asks for the passphrase
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct KeyRemoveArgs {
    /// The volume
    pub(crate) url: String,
    /// What it is called
    pub(crate) name: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct KeyRotateArgs {
    /// The volume
    pub(crate) url: String,
    /// File with another key or passphrase that goes on opening it; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) stays: Vec<PathBuf>,
    /// Let those go that are not given
    #[arg(long)]
    pub(crate) drop_others: bool,
    /// Where the metadata's database is reached, if not where `weir format` was told
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
