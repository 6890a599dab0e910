//! One room for each command: arguments in, an answer on standard output and an exit code out.

mod actions;
mod advise;
mod attach;
mod backtest;
mod backup;
mod bench;
mod bill;
mod clone;
mod df;
mod disks;
mod doctor;
mod documents;
mod du;
mod explain;
mod file_states;
mod flush;
mod format;
mod fsck;
mod keys;
mod lifecycle;
mod links;
mod locks;
mod metrics;
mod migrate;
mod mount;
mod nfs;
mod nodes;
mod prices;
mod quota;
mod record;
mod recover;
mod residency;
mod scrub;
mod snapshots;
mod state;
mod status;
mod sync;
mod temporary_mount;
mod throughput;
mod top;
mod umount;
mod upgrade;

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use weir_types::{FsError, Result};

use crate::cli::{Cli, Command};
use crate::daemon::Work;
use crate::{lfs, log};

/// Names the reports that commands print of themselves, for docs/api.md.
#[cfg(test)]
pub(crate) fn describe(page: &mut crate::api::page::Page) {
    page.prints::<weir_cost::Advice>("weir advise --json");
    page.prints::<weir_cost::backtest::Report>("weir advise --backtest --json");
    page.prints::<weir_bench::report::Report>("weir bench --json FILE");
    page.prints::<weir_bench::compare::Comparison>("weir bench compare --json");
    page.prints::<Vec<bench::Listed>>("weir bench suites --json");
    page.prints::<crate::bill::Report>("weir bill --json");
    page.prints::<df::Report>("weir df --json");
    page.prints::<doctor::Report>("weir doctor --json");
    page.prints::<du::Report<'_>>("weir du --json");
    page.prints::<weir_types::VolumeFormat>("weir format --json");
    page.prints::<weir_engine::FsckReport>("weir fsck --json");
    page.prints::<weir_types::Encryption>("weir key list --json");
    page.prints::<Vec<weir_engine::LockView>>("weir locks --json");
    page.prints::<weir_engine::MigrateReport>("weir migrate --json");
    page.prints::<Vec<weir_engine::NodeView>>("weir nodes --json");
    page.prints::<weir_engine::NodeView>("weir nodes evict --json");
    page.prints::<Vec<weir_cost::PriceRow>>("weir prices --json");
    page.prints::<prices::update::Report<'_>>("weir prices update --json");
    page.prints::<Vec<residency::ResidencyReport>>("weir residency --json");
    page.prints::<weir_engine::BackupReport>("weir backup --json");
    page.prints::<Vec<weir_engine::BackupView>>("weir backups --json");
    page.prints::<weir_engine::DeletedBackups>("weir backups --delete --json");
    page.prints::<weir_engine::RestoredVolume>("weir restore-volume --json");
    page.prints::<weir_engine::ClonedVolume>("weir clone --json");
    page.prints::<weir_engine::ScrubView>("weir scrub --json");
    page.prints::<weir_engine::LifecycleView>("weir lifecycle show --json");
    page.prints::<lifecycle::Told<'_>>("weir lifecycle set --json");
    page.prints::<sync::Told<'_>>("weir sync --json");
    page.prints::<snapshots::restore::Told<'_>>("weir restore --json");
}

/// Runs what the command line asks for.
pub(crate) fn run(cli: Cli, argv: &[OsString]) -> Result<ExitCode> {
    let log_args = cli.log;
    // A daemon has a log of its own.
    if !matches!(cli.command, Command::Mount(_) | Command::Serve(_)) {
        log::start(&log_args, &log::Writer::Command("warn"))?;
    }
    match cli.command {
        Command::Mount(args) => mount::run(Work::Mount(args), &log_args, argv),
        Command::Serve(args) => mount::run(Work::Serve(args), &log_args, argv),
        Command::Format(args) => wait(format::run(args)),
        Command::Umount(args) => wait(umount::run(args)),
        Command::Remount(args) => {
            weir_door_fuse::remount(&args.dir, &args.options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Upgrade(args) => wait(upgrade::run(args)),
        Command::CanTakeOver => upgrade::can_take_over(),
        Command::Stop(args) => wait(umount::stop(args)),
        Command::Disk(args) => wait(disks::run(args.command)),
        Command::Snapshot(args) => wait(snapshots::run(args.command)),
        Command::Scrub(args) => wait(scrub::run(args)),
        Command::Lifecycle(args) => wait(lifecycle::run(args.command)),
        Command::Backup(args) => wait(backup::backup(*args)),
        Command::Backups(args) => wait(backup::backups(*args)),
        Command::Clone(args) => wait(clone::run(*args)),
        Command::RestoreVolume(args) => wait(backup::restore_volume(*args)),
        Command::Restore(args) => wait(snapshots::restore::run(args)),
        Command::Attach(args) => wait(attach::attach(args)),
        Command::Detach(args) => wait(attach::detach(args)),
        Command::Doctor(args) => wait(doctor::run(args)),
        Command::Status(args) => wait(status::run(args)),
        Command::Top(args) => wait(top::run(args)),
        Command::Metrics(args) => wait(metrics::run(args)),
        Command::Prices(args) => wait(prices::run(args)),
        Command::Advise(args) => wait(advise::run(args)),
        Command::Flush(args) => wait(flush::run(args)),
        Command::Df(args) => wait(df::run(args)),
        Command::Du(args) => wait(du::run(args)),
        Command::Fsck(args) => wait(fsck::run(args, log_args.verbose > 0)),
        Command::Migrate(args) => wait(migrate::run(args)),
        Command::Export(args) => wait(nfs::export(args.command)),
        Command::AccessPoint(args) => wait(nfs::access_point(args.command)),
        Command::Clients(args) => wait(nfs::clients(args)),
        Command::Key(args) => wait(keys::run(args.command)),
        Command::Nodes(args) => wait(nodes::run(args)),
        Command::Locks(args) => wait(locks::run(args)),
        Command::Residency(args) => wait(residency::run(args)),
        Command::Recover(args) => wait(recover::run(args)),
        Command::Link(args) => wait(links::link(args)),
        Command::Unlink(args) => wait(links::unlink(args)),
        Command::Links(args) => wait(links::list(args)),
        Command::Refresh(args) => wait(links::refresh(args)),
        Command::Hydrate(args) => wait(actions::hydrate(args)),
        Command::Release(args) => wait(actions::release(args)),
        Command::Archive(args) => wait(actions::archive(args)),
        Command::State(args) => wait(state::run(args)),
        Command::Actions(args) => wait(actions::list(args)),
        Command::Cancel(args) => wait(actions::cancel(args)),
        Command::Pin(args) => wait(actions::pin(args, true)),
        Command::Unpin(args) => wait(actions::pin(args, false)),
        Command::Sync(args) => wait(sync::run(*args)),
        Command::Quota(args) => wait(quota::run(args.command)),
        Command::Throughput(args) => wait(throughput::run(args)),
        Command::Bill(args) => wait(bill::run(args)),
        Command::Bench(args) => wait(bench::run(args)),
        Command::Lfs(args) => Ok(lfs::run(&args.words)),
        Command::Explain(args) => explain::run(&args),
        Command::Completions(args) => documents::completions(args.shell),
        Command::Man(args) => documents::man(args.dir.as_deref()),
        Command::Version => documents::version(),
    }
}

fn wait(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| FsError::local_io("start the runtime's threads", e))?;
    runtime.block_on(work)
}
