//! `weir scrub`: reads every byte of a volume in the daemon that has it.

use std::process::ExitCode;

use weir_engine::ScrubView;
use weir_types::{Bytes, ErrorKind, FsError, Result, UnixTime};

use crate::api::{BeginScrub, EndScrub, GetScrub};
use crate::cli::ScrubArgs;
use crate::client::Client;
use crate::progress::{self, Progress, Unit, Waited};
use crate::{clock, render};

/// Losses that are shown.
const SHOWN_MAX: usize = 20;

pub(crate) async fn run(args: ScrubArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    if args.rate.is_some_and(|rate| rate.0 == 0) {
        return Err(FsError::new(ErrorKind::Invalid, "--rate: more than 0 bytes a second"));
    }
    let max_bytes_per_s = args.rate.map(|rate| rate.0);
    let view = match (args.status, args.stop) {
        (true, _) => client.call(&GetScrub {}).await?,
        (_, true) => client.call(&EndScrub {}).await?,
        _ => client.call(&BeginScrub { max_bytes_per_s }).await?,
    };
    let dir = args.dir.display();
    let view = match args.wait {
        false => view,
        true => match progress::or_ctrl_c(ended(&client, view)).await? {
            Waited::Ended(view) => view,
            Waited::Left => {
                let text = format!(
                    "the scrub goes on: `weir scrub {dir} --status` shows it, `weir scrub {dir} --stop` ends it"
                );
                return Ok(progress::left(&text));
            }
        },
    };
    match args.json {
        true => render::say_json(&view)?,
        false => render::say(&described(&view, (clock::real().now)()))?,
    }
    Ok(if view.lost_pieces == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn ended(client: &Client, mut view: ScrubView) -> Result<ScrubView> {
    let mut progress = Progress::new(Unit::Bytes);
    while view.running {
        let mut beside = format!(
            "{} of {} segments, {} of {}",
            view.segments_done,
            view.segments,
            Bytes(view.bytes_done),
            Bytes(view.bytes)
        );
        if let Some(trouble) = &view.trouble {
            beside.push_str(&format!("; stands still: {trouble}"));
        }
        progress.show(view.bytes_done, Some(view.bytes), &beside);
        tokio::time::sleep(progress.interval()).await;
        view = client.call(&GetScrub {}).await?;
    }
    Ok(view)
}

fn described(view: &ScrubView, now: UnixTime) -> String {
    let Some(started) = view.started else {
        return "this volume was never scrubbed\n".to_owned();
    };
    let since = |from: UnixTime, to: UnixTime| {
        render::seconds((to.0 - from.0).max(0).cast_unsigned() / 1_000_000_000)
    };
    let read = format!(
        "{} of {} in {} of {} segments",
        Bytes(view.bytes_done),
        Bytes(view.bytes),
        view.segments_done,
        view.segments
    );
    let mut text = match (view.running, view.ended) {
        (true, _) => {
            let left = view
                .seconds_left
                .map_or(String::new(), |left| format!(", {} left", render::seconds(left)));
            let rate = view
                .max_bytes_per_s
                .map_or(String::new(), |rate| format!(", at most {}/s", Bytes(rate)));
            format!("reading for {}: {read}{left}{rate}\n", since(started, now))
        }
        (false, ended) => {
            let ended = ended.unwrap_or(now);
            let how = if view.cancelled { "ended before its end" } else { "ended" };
            format!("{how} {} ago, after {}: {read}\n", since(ended, now), since(started, ended))
        }
    };
    if let Some(trouble) = &view.trouble {
        text.push_str(&format!("STANDS STILL: {trouble}\n"));
    }
    text.push_str(&match (view.damaged, view.lost_pieces) {
        (0, _) => "nothing is damaged\n".to_owned(),
        (damaged, 0) => format!(
            "{damaged} segments were damaged in the bucket, and nothing is lost: {} were sent off anew from the \
             tier\n",
            view.repaired
        ),
        (damaged, lost) => format!(
            "{damaged} segments were damaged in the bucket, {} were sent off anew from the tier; LOST: {lost} \
             pieces of files\n",
            view.repaired
        ),
    });
    for lost in view.lost.iter().take(SHOWN_MAX) {
        let path = if lost.path.is_empty() { "(no file of the volume)" } else { &lost.path };
        let (offset, bytes) = (lost.offset, Bytes(lost.bytes));
        text.push_str(&format!("  {path}: {bytes} at {offset}: {}\n", lost.why));
    }
    if view.lost_pieces as usize > SHOWN_MAX {
        text.push_str("  and more: --json has up to 1,000\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_named() {
        let view = ScrubView {
            running: false,
            cancelled: false,
            started: Some(UnixTime(1)),
            ended: Some(UnixTime(60_000_000_001)),
            max_bytes_per_s: None,
            segments_done: 3,
            segments: 3,
            bytes_done: 3 << 20,
            bytes: 3 << 20,
            seconds_left: None,
            damaged: 2,
            repaired: 1,
            lost_pieces: 1,
            lost: vec![weir_engine::Lost {
                path: "/a".to_owned(),
                offset: 4096,
                bytes: 1024,
                why: "it is missing".to_owned(),
            }],
            trouble: None,
        };
        let text = described(&view, UnixTime(120_000_000_001));
        assert!(text.contains("3 MiB of 3 MiB in 3 of 3 segments"), "{text}");
        assert!(text.contains("LOST: 1 pieces") && text.contains("/a: 1 KiB at 4096"), "{text}");
        let never = ScrubView { started: None, ..view };
        assert_eq!(described(&never, UnixTime(0)), "this volume was never scrubbed\n");
    }
}
