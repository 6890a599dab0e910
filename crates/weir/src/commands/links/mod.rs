//! `weir link`, `unlink`, `links` and `refresh`.

mod describe;
mod events;
mod importing;
mod plan;
mod refresh;

use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use weir_engine::{BucketUrl, LinkOptions, LinkView};
use weir_types::{ErrorKind, FsError, Result};

use crate::api::{ListHidden, ListLinks, ListPending, MakeLink, PlanLink, Unlink};
use crate::cli::{LinkArgs, LinksArgs, UnlinkArgs};
use crate::client::{self, Client};
use crate::progress::{self, Waited};
use crate::render;
use crate::targets::{self, Finder, Mounted, Target};

use describe::LinksReport;
pub(crate) use describe::held_deletions;
use importing::{imported, judge};
use plan::{PricedExports, PricedPlan};
pub(crate) use refresh::refresh;

pub(crate) async fn link(args: LinkArgs) -> Result<ExitCode> {
    let options = options(&args)?;
    if args.plan {
        return planned(&args, &options).await;
    }
    let made = make_directory(&args.path)?;
    let linked = begin(&args.path, &options).await;
    let (mount, view) = match linked {
        Ok(linked) => linked,
        Err(error) => {
            if made {
                // What is not empty was not made by us.
                let _ = std::fs::remove_dir(&args.path);
            }
            return Err(error);
        }
    };
    let view = match args.no_wait {
        true => view,
        false => match progress::or_ctrl_c(imported(&mount.client, &(None, None), view)).await? {
            Waited::Ended(view) => view,
            Waited::Left => {
                let at = args.path.display();
                return Ok(progress::left(&format!(
                    "the import goes on: `weir links {at}` shows it, `weir unlink {at}` ends it"
                )));
            }
        },
    };
    let meant = args.empty || !options.import.is_none() || !options.export.is_none();
    if !meant && is_empty(&view, &args.path)? {
        refuse_empty(&mount, &view, made.then_some(&*args.path)).await?;
    }
    match args.json {
        true => render::say_json(&LinksReport { mountpoint: mount.mountpoint, link: &view })?,
        false => render::say(&describe::linked(&view, &args.path))?,
    }
    judge(&view)
}

/// Whether a whole import found nothing.
fn is_empty(view: &LinkView, path: &Path) -> Result<bool> {
    if view.options.lazy_dirs {
        let mut names =
            std::fs::read_dir(path).map_err(|e| FsError::local_io(path.display(), e))?;
        return Ok(names.next().is_none() && view.hidden == 0);
    }
    Ok(view.imported_unix_ms.is_some() && view.files == 0 && view.hidden == 0)
}

/// A mistyped prefix is as empty as one that will be filled. Where nothing is to come and nothing to
/// go, and nobody said that it is meant, the link is taken away again.
async fn refuse_empty(mount: &Mounted, view: &LinkView, made: Option<&Path>) -> Result<()> {
    mount.client.call(&Unlink { ino: view.ino }).await?;
    if let Some(made) = made {
        let _ = std::fs::remove_dir(made);
    }
    let text = format!(
        "no object lies below {}: is its name right? If nothing is there yet, link it with --empty",
        view.options.url
    );
    Err(FsError::new(ErrorKind::NotFound, text))
}

/// Says what the link would do, and does nothing.
async fn planned(args: &LinkArgs, options: &LinkOptions) -> Result<ExitCode> {
    let mut finder = Finder::default();
    let (mount, _) = finder.locate(&existing(&args.path)?)?;
    let plan = finder.mounts.swap_remove(mount).client.call(&PlanLink(options.clone())).await?;
    let priced = PricedPlan::new(options, plan);
    match args.json {
        true => render::say_json(&priced)?,
        false => render::say(&priced.describe(options, &args.path))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The nearest directory above a path, or itself, that is there.
fn existing(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|e| FsError::local_io(path.display(), e))?;
    let there = absolute.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    Ok(there.to_owned())
}

fn options(args: &LinkArgs) -> Result<LinkOptions> {
    let url: BucketUrl = args.url.parse()?;
    let poll_s = args.poll / 1_000;
    if poll_s == 0 {
        let text = "--poll: a second is the least: each poll lists the whole prefix";
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    Ok(LinkOptions {
        url: url.to_string(),
        import: args.import,
        export: args.export,
        lazy_dirs: args.lazy_dirs,
        attributes: args.attributes,
        poll_s,
        endpoint: args.endpoint.clone(),
        region: args.region.clone(),
        profile: args.profile.clone(),
        anonymous: args.anonymous,
    })
}

/// Makes the directory if it is absent; only in a mount. True if it was made.
fn make_directory(path: &Path) -> Result<bool> {
    let at = |error| FsError::local_io(path.display(), error);
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == Io::NotFound => {}
        found => return found.map(|_| false).map_err(at),
    }
    Finder::default().locate(&existing(path)?)?;
    std::fs::create_dir_all(path).map_err(at)?;
    Ok(true)
}

async fn begin(path: &Path, options: &LinkOptions) -> Result<(Mounted, LinkView)> {
    let mut mounts = targets::find(&[path.to_owned()], true)?;
    let (Some(mount), 1) = (mounts.pop(), mounts.len() + 1) else {
        return Err(FsError::new(ErrorKind::Bug, "one path lies in one mount"));
    };
    let view = match &mount.roots()[..] {
        [root] => {
            let (ino, path, options) = (root.ino, root.path.clone(), options.clone());
            mount.client.call(&MakeLink { ino, path, options }).await?
        }
        _ => return Err(FsError::new(ErrorKind::Bug, "one path is one root")),
    };
    Ok((mount, view))
}

pub(crate) async fn unlink(args: UnlinkArgs) -> Result<ExitCode> {
    let mut finder = Finder::default();
    let (mount, target) = finder.locate(&args.path)?;
    let mount = finder.mounts.swap_remove(mount);
    let view = mount.client.call(&Unlink { ino: weir_types::Ino(target.ino) }).await?;
    match args.json {
        true => render::say_json(&LinksReport { mountpoint: mount.mountpoint, link: &view })?,
        false => render::say(&format!(
            "{} is no longer linked to {}; the bucket is as it was\n",
            args.path.display(),
            view.options.url
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn list(args: LinksArgs) -> Result<ExitCode> {
    let found = wanted(args.path.as_deref()).await?;
    if args.hidden {
        for (client, of) in &found {
            hidden(client, of, args.json).await?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.pending {
        return pending(&found, args.json).await;
    }
    let found: Vec<_> = found.into_iter().map(|(_, of)| of).collect();
    match args.json {
        true => render::say_json_rows(&found)?,
        false if found.is_empty() => render::say("No bucket is linked here.\n")?,
        false => {
            let texts = found.iter().map(|of| describe::link(&of.link, &of.mountpoint));
            render::say(&texts.collect::<Vec<_>>().join("\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The link whose directory is `path`; for any other path, all of its mount; for none, all.
async fn wanted(path: Option<&Path>) -> Result<Vec<(Client, LinksReport<LinkView>)>> {
    let mut found = Vec::new();
    for (client, mountpoint, links) in client::ask_mounts(path, &ListLinks {}).await? {
        for link in links {
            found.push((client.clone(), LinksReport { mountpoint: mountpoint.clone(), link }));
        }
    }
    if let Some(path) = path {
        let (_, Target { ino, .. }) = Finder::default().locate(path)?;
        if found.iter().any(|(_, of)| of.link.ino.0 == ino) {
            found.retain(|(_, of)| of.link.ino.0 == ino);
        }
    }
    Ok(found)
}

/// What waits for its export.
async fn pending(found: &[(Client, LinksReport<LinkView>)], as_json: bool) -> Result<ExitCode> {
    let mut all = Vec::new();
    for (client, of) in found {
        let exports = PricedExports::new(
            &of.link.options,
            client.call(&ListPending { link: of.link.id, limit: None }).await?,
        );
        let mountpoint = of.mountpoint.clone();
        let path = targets::above(&mountpoint, &of.link.path);
        all.push((exports.describe(&path), LinksReport { mountpoint, link: exports }));
    }
    match as_json {
        true => render::say_json_rows(all.iter().map(|(_, of)| of))?,
        false => {
            render::say(&all.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join("\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The objects that cannot show, a page at a time; in JSON an object a line.
async fn hidden(client: &Client, of: &LinksReport<LinkView>, as_json: bool) -> Result<()> {
    let mut after: Option<String> = None;
    loop {
        let page = client
            .call(&ListHidden { link: of.link.id, after: after.clone(), limit: None })
            .await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        let mut text = String::new();
        for object in &page {
            if as_json {
                let url = &of.link.options.url;
                let line = json!({ "link": of.link.id, "url": url, "key": object.key,
                                   "reason": object.reason });
                text.push_str(&format!("{line}\n"));
            } else {
                text.push_str(&format!("{}\t{}\n", object.key, object.reason));
            }
        }
        render::say(&text)?;
        after = Some(last.key.clone());
    }
}
