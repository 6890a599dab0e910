//! `weir residency`: where the bytes of files are.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use weir_engine::Residency;
use weir_types::{Bytes, FsError, Ino, Result};

use crate::api::GetResidency;
use crate::cli::ResidencyArgs;
use crate::client::Client;
use crate::{render, targets};

/// A file, and where its bytes are.
#[derive(Serialize, JsonSchema)]
pub(super) struct ResidencyReport {
    /// Its path.
    path: PathBuf,
    #[serde(flatten)]
    residency: Residency,
}

pub(crate) async fn run(args: ResidencyArgs) -> Result<ExitCode> {
    let mut found = Vec::new();
    for asked in &args.paths {
        let path = fs::canonicalize(asked).map_err(|e| FsError::local_io(asked.display(), e))?;
        let (client, _) = Client::holding(&path)?;
        let mut files = Vec::new();
        targets::files_below(&path, &mut |path, ino| {
            files.push((path, ino));
            Ok(())
        })?;
        for (path, ino) in files {
            let residency = client.call(&GetResidency { ino: Ino(ino) }).await?;
            found.push(ResidencyReport { path, residency });
        }
    }
    match args.json {
        true => render::say_json_rows(&found)?,
        false => render::say(&describe(&found))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(found: &[ResidencyReport]) -> String {
    let cells = |what: &str, r: Residency| {
        let sizes = [r.hole, r.released, r.resident, r.dirty].map(|n| Bytes(n).to_string());
        std::iter::once(what.to_owned()).chain(sizes).collect::<Vec<_>>()
    };
    let names = ["file", "hole", "released", "resident", "dirty"];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    let mut sum = Residency::default();
    for ResidencyReport { path, residency } in found {
        rows.push(cells(&path.display().to_string(), *residency));
        sum.hole += residency.hole;
        sum.released += residency.released;
        sum.resident += residency.resident;
        sum.dirty += residency.dirty;
    }
    if found.len() > 1 {
        rows.push(cells("all", sum));
    }
    render::table(&rows, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_files_are_summed() {
        let of = |path: &str, resident| ResidencyReport {
            path: path.into(),
            residency: Residency { resident, ..Residency::default() },
        };
        let one = describe(&[of("/a", 4096)]);
        assert_eq!(one.lines().count(), 2);
        let two = describe(&[of("/a", 4096), of("/b", 8192)]);
        assert!(two.lines().last().is_some_and(|l| l.contains("12 KiB")), "{two}");
    }
}
