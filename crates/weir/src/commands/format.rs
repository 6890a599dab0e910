//! `weir format`: makes a volume.

use std::process::ExitCode;

use rustix::process::{getegid, geteuid};
use weir_engine::{BucketUrl, ConnectOptions, FormatOptions};
use weir_types::{Bytes, Result};

use crate::cli::FormatArgs;
use crate::{buckets, clock, render, secrets};

/// Somebody waits at the terminal, and the address may be wrong: no minute of attempts here.
const TIMEOUT_MS: u64 = 15_000;

pub(crate) async fn run(args: FormatArgs) -> Result<ExitCode> {
    let url: BucketUrl = args.url.parse()?;
    if args.encrypt {
        secrets::ask_for_new(&args.connect)?;
    }
    let connect =
        ConnectOptions { timeout_ms: TIMEOUT_MS, ..buckets::connect_options(&args.connect) };
    let stripe = args.stripe.iter().map(|text| text.parse());
    let options = FormatOptions {
        url: url.clone(),
        stripe: stripe.collect::<Result<Vec<BucketUrl>>>()?,
        connector: buckets::volume_connector(&args.connect, connect)?,
        record_bytes: args.record_size.0,
        segment_bytes: args.segment_size.0,
        codec: args.codec,
        root: (0o755, geteuid().as_raw(), getegid().as_raw()),
        now: clock::now(),
        metadata: Some(args.meta.clone()),
        encrypt: args.encrypt.then(|| args.key_name.clone()),
    };
    let made = buckets::make_directories(std::iter::once(&url).chain(&options.stripe))?;
    let formatted = weir_engine::format(options).await;
    if formatted.is_err() {
        // What is not empty was not made by us.
        made.iter().for_each(|directory| drop(std::fs::remove_dir(directory)));
    }
    let format = formatted?;
    if args.json {
        render::say_json(&format)?;
    } else {
        let (record, segment) = (Bytes(format.record_bytes), Bytes(format.segment_bytes));
        let buckets = match format.stripe_set.len() {
            1 => String::new(),
            more => format!(", spread over {more} buckets"),
        };
        let metadata = format.metadata.as_deref();
        let metadata = metadata.map_or(String::new(), |url| format!(", metadata in {url}"));
        let (a, keep, key) = match &format.encryption {
            None => ("a", "", ""),
            Some(_) => (
                "an encrypted",
                "Nobody can read it without its key or passphrase, you neither: keep it in two places, none of them the \
                 bucket.\n",
                named(&args),
            ),
        };
        render::say(&format!(
            "{url} is {a} volume now: {}, records of {record} in segments of \
             {segment}{buckets}{metadata}.\n\
             {keep}Mount it:  weir mount {url} DIR --tier LOCAL_DIR{key}\n",
            format.id
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How the command line names what opens the volume.
fn named(args: &FormatArgs) -> &'static str {
    match (&args.connect.key.key_file, &args.connect.key.key_command) {
        (Some(_), _) => " --key-file FILE",
        (None, Some(_)) => " --key-command COMMAND",
        (None, None) => "",
    }
}
