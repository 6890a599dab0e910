//! The command line of `weir migrate`.

use clap::Args;

use super::connect::ConnectArgs;

pub(super) const MIGRATE_EXAMPLES: &str = "\
Examples:
  weir migrate s3://my-bucket/genomes --to postgres://weir@db/weir
  weir migrate s3://my-bucket/genomes --to postgres://weir@db/weir --remove-old
  weir migrate s3://my-bucket/genomes --to slate                      back into the bucket
  weir migrate s3://my-bucket/genomes --to slate --meta postgres://weir@db/weir --remove-old

The volume must be unmounted, after a clean end. All rows are copied and read back, both sides are
compared, and then volume.json says in one step where they are; until that step the volume is as it
was, also if this is killed, and the same command begins anew. The old metadata stays until it is
removed with --remove-old, at once or by the same command later; from the switch on it is of the
past. Mounts that only read must be made anew. Between two databases only the address changes: copy
the database with PostgreSQL's own tools first.";

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// The volume
    pub(crate) url: String,
    /// Where its metadata is to be: `slate`, in the bucket; or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "WHERE")]
    pub(crate) to: String,
    /// Where the database is reached that has or had the metadata, if not where volume.json says
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Remove the metadata where it was
    #[arg(long)]
    pub(crate) remove_old: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
