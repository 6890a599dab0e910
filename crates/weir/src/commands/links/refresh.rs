//! `weir refresh`: imports what changed in a linked bucket, all of it or what events name.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use weir_engine::{BucketUrl, LinkView};
use weir_types::{ErrorKind, FsError, Result};

use super::describe::LinksReport;
use super::events::{self, Changes};
use super::importing::{imported, judge, last};
use crate::api::{ListLinks, RefreshLink};
use crate::cli::RefreshArgs;
use crate::progress::{self, Waited};
use crate::targets::{Finder, Mounted};
use crate::{render, targets};

/// Keys asked for at once.
const KEYS_AT_ONCE: usize = 1_000;

pub(crate) async fn refresh(args: RefreshArgs) -> Result<ExitCode> {
    let (mount, link) = link_of(&args.path).await?;
    let mut keys = args.key.clone();
    if let Some(events) = &args.events {
        let changes = events::read(&text_of(events)?)?;
        keys.extend(ours(changes, &link.options.url)?);
    }
    keys.sort();
    keys.dedup();
    let view = match args.key.is_empty() && args.events.is_none() {
        true => match whole(&mount, &link, &args).await? {
            Waited::Ended(view) => view,
            Waited::Left => {
                let at = args.path.display();
                return Ok(progress::left(&format!("the import goes on: see `weir links {at}`")));
            }
        },
        false => {
            let mut view = link;
            for some in keys.chunks(KEYS_AT_ONCE) {
                let keys = Some(some.to_vec());
                let call = RefreshLink { link: view.id, keys, confirm: false };
                view = mount.client.call(&call).await?;
            }
            view
        }
    };
    let at = args.path.display();
    match (args.json, &view.importing) {
        (true, _) => render::say_json(&LinksReport { mountpoint: mount.mountpoint, link: &view })?,
        (false, _) if !args.key.is_empty() || args.events.is_some() => {
            let count = u64::try_from(keys.len()).unwrap_or(u64::MAX);
            render::say(&format!("looked at {}\n", render::objects(count)))?;
        }
        (false, Some(_)) if !args.wait => {
            render::say(&format!("importing; `weir links {at}` shows how far it is\n"))?;
        }
        (false, _) => render::say(&super::describe::linked(&view, &args.path))?,
    }
    judge(&view)
}

async fn whole(mount: &Mounted, link: &LinkView, args: &RefreshArgs) -> Result<Waited<LinkView>> {
    let call = RefreshLink { link: link.id, keys: None, confirm: args.confirm };
    let view = mount.client.call(&call).await?;
    match args.wait {
        true => progress::or_ctrl_c(imported(&mount.client, &last(link), view)).await,
        false => Ok(Waited::Ended(view)),
    }
}

/// The link at or above `path`.
async fn link_of(path: &Path) -> Result<(Mounted, LinkView)> {
    let mut finder = Finder::default();
    let (mount, target) = finder.locate(path)?;
    let mount = finder.mounts.swap_remove(mount);
    let links = mount.client.call(&ListLinks {}).await?;
    let above = target.real.ancestors().take_while(|at| at.starts_with(&mount.mountpoint));
    for at in above {
        let ino = std::fs::metadata(at).map_err(|e| FsError::local_io(at.display(), e))?.ino();
        if let Some(link) = links.iter().find(|link| link.ino.0 == ino) {
            return Ok((mount, link.clone()));
        }
    }
    let text = format!(
        "{} lies in no linked directory; those of {} are: {}",
        path.display(),
        mount.mountpoint.display(),
        match links.is_empty() {
            true => "none".to_owned(),
            false => {
                let path = |link: &LinkView| targets::above(&mount.mountpoint, &link.path);
                let paths = links.iter().map(|link| path(link).display().to_string());
                paths.collect::<Vec<_>>().join(", ")
            }
        }
    );
    Err(FsError::new(ErrorKind::NotFound, text))
}

fn text_of(file: &Path) -> Result<String> {
    let failed = |e| FsError::local_io(format!("--events {}", file.display()), e);
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(failed)
}

/// The keys that are of the link at `url`, below it. Says how many others there were.
fn ours(changes: Changes, url: &str) -> Result<Vec<String>> {
    let url: BucketUrl = url.parse()?;
    let inside = match url.prefix() {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    };
    let (mut keys, mut others) = (Vec::new(), 0);
    for (bucket, key) in changes.objects {
        let below = key.strip_prefix(&inside).filter(|key| !key.is_empty());
        match below.filter(|_| bucket == url.bucket()) {
            Some(key) => keys.push(key.to_owned()),
            None => others += 1,
        }
    }
    if others > 0 {
        render::tell(&format!("weir: {others} events are of other buckets or prefixes\n"));
    }
    if changes.unreadable > 0 {
        render::tell(&format!(
            "weir: {} events have keys that are no UTF-8: `weir refresh` without --events finds \
             them\n",
            changes.unreadable
        ));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_links_are_left_out() {
        let pair = |(bucket, key): (&str, &str)| (bucket.to_owned(), key.to_owned());
        let objects = [("b", "p/x"), ("b", "p/a/b"), ("b", "px"), ("c", "p/x"), ("b", "p/")];
        let changes = || Changes { objects: objects.map(pair).to_vec(), unreadable: 0 };
        assert_eq!(ours(changes(), "s3://b/p").expect("keys"), ["x", "a/b"]);
        assert_eq!(ours(changes(), "s3://b").expect("keys"), ["p/x", "p/a/b", "px", "p/"]);
    }
}
