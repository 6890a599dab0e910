//! `weir export`, `weir access-point`, `weir clients`: what NFS clients may mount, and who does.

use std::path::Path;
use std::process::ExitCode;

use weir_door_nfs::{ClientView, Export, Identity, Network, Squash, UseView};
use weir_types::{Bytes, Result};

use crate::api::{ListClients, ListExports, ListNfsUses, RemoveExport, SetExport};
use crate::cli::{
    AccessPointCommand, AccessPointCreateArgs, ClientsArgs, ExportAddArgs, ExportCommand, Who,
};
use crate::client::Client;
use crate::render;

pub(crate) async fn export(command: ExportCommand) -> Result<ExitCode> {
    match command {
        ExportCommand::Add(args) => add(args).await,
        ExportCommand::List { place, json } => {
            let exports = Client::at(&place)?.call(&ListExports {}).await?;
            match json {
                true => render::say_json_rows(&exports)?,
                false => render::say(&describe(&exports))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        ExportCommand::Remove { place, name, json } => remove(&place, name, json).await,
    }
}

async fn add(args: ExportAddArgs) -> Result<ExitCode> {
    let (uid, gid) = args.anonymous;
    let call = SetExport {
        path: args.path,
        name: args.name,
        read_only: args.ro,
        squash: match args.squash {
            Who::Root => Squash::Root,
            Who::All => Squash::All,
            Who::None => Squash::None,
        },
        anonymous: Identity { uid, gid, groups: Vec::new() },
        forced: None,
        allow: args.allow,
        asynchronous: args.asynchronous,
        needs_tls: args.tls,
        make_mode: None,
        only_new: false,
        limit: args.mibps,
    };
    set(&args.place, &call, args.json).await
}

async fn set(place: &Path, call: &SetExport, json: bool) -> Result<ExitCode> {
    let export = Client::at(place)?.call(call).await?;
    match json {
        true => render::say_json(&export)?,
        false => render::say(&format!("{} is exported as host:/{}\n", export.path, export.name))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(place: &Path, name: String, json: bool) -> Result<ExitCode> {
    let export = Client::at(place)?.call(&RemoveExport { name }).await?;
    match json {
        true => render::say_json(&export)?,
        false => {
            let text =
                format!("{} is not exported as host:/{} any more\n", export.path, export.name);
            render::say(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn access_point(command: AccessPointCommand) -> Result<ExitCode> {
    match command {
        AccessPointCommand::Create(args) => create(args).await,
        AccessPointCommand::Delete { place, name, json } => remove(&place, name, json).await,
    }
}

async fn create(args: AccessPointCreateArgs) -> Result<ExitCode> {
    let identity = Identity { uid: args.uid, gid: args.gid, groups: args.groups };
    let call = SetExport {
        path: args.path,
        name: args.name,
        read_only: args.ro,
        squash: Squash::All,
        anonymous: identity.clone(),
        forced: Some(identity),
        allow: args.allow,
        asynchronous: false,
        needs_tls: args.tls,
        make_mode: Some(args.mode),
        only_new: true,
        limit: args.mibps,
    };
    set(&args.place, &call, args.json).await
}

pub(crate) async fn clients(args: ClientsArgs) -> Result<ExitCode> {
    let client = Client::at(&args.place)?;
    if args.by_export {
        let uses = client.call(&ListNfsUses {}).await?;
        match args.json {
            true => render::say_json_rows(&uses)?,
            false => render::say(&describe_uses(&uses))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let clients = client.call(&ListClients {}).await?;
    match args.json {
        true => render::say_json_rows(&clients)?,
        false => render::say(&describe_clients(&clients))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(exports: &[Export]) -> String {
    if exports.is_empty() {
        return "Nothing is exported.\n".to_owned();
    }
    let head = ["export", "directory", "access", "root is", "from", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for export in exports {
        let is = |identity: &Identity| format!("{}:{}", identity.uid, identity.gid);
        let root = match (&export.forced, export.squash) {
            (Some(forced), _) => format!("{}, as all", is(forced)),
            (None, Squash::Root) => is(&export.anonymous),
            (None, Squash::All) => format!("{}, as all", is(&export.anonymous)),
            (None, Squash::None) => "root".to_owned(),
        };
        let from: Vec<_> = export.allow.iter().map(Network::to_string).collect();
        let mut more = Vec::new();
        more.extend(export.needs_tls.then_some("TLS"));
        more.extend(export.asynchronous.then_some("async"));
        rows.push(vec![
            format!("/{}", export.name),
            export.path.clone(),
            if export.read_only { "ro" } else { "rw" }.to_owned(),
            root,
            if from.is_empty() { "everywhere".to_owned() } else { from.join(" ") },
            more.join(" "),
        ]);
    }
    render::table(&rows, 6)
}

fn describe_clients(clients: &[ClientView]) -> String {
    if clients.is_empty() {
        return "No NFS client is there.\n".to_owned();
    }
    let head =
        ["address", "silent", "open", "delegated", "locks", "requests", "read", "written", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for client in clients {
        let mut more = Vec::new();
        more.extend(client.tls.then_some("TLS"));
        more.extend(client.expired.then_some("expired"));
        rows.push(vec![
            client.address.clone(),
            format!("{} s", client.silent_ms / 1_000),
            client.opens.to_string(),
            client.delegations.to_string(),
            client.locks.to_string(),
            client.requests.to_string(),
            Bytes(client.bytes_read).to_string(),
            Bytes(client.bytes_written).to_string(),
            more.join(" "),
        ]);
    }
    render::table(&rows, 9)
}

/// What was done by address and export: for `weir clients` and the bill.
pub(super) fn describe_uses(uses: &[UseView]) -> String {
    if uses.is_empty() {
        return "Nothing was done by NFS.\n".to_owned();
    }
    let head = ["address", "export", "requests", "read", "written"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(uses.iter().map(|of| {
        let (address, export) = match of.address {
            Some(address) => (address.to_string(), format!("/{}", of.export)),
            None => ("others".to_owned(), String::new()),
        };
        let bytes = [of.bytes_read, of.bytes_written].map(|bytes| Bytes(bytes).to_string());
        let [read, written] = bytes;
        vec![address, export, of.requests.to_string(), read, written]
    }));
    render::table(&rows, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_say_who_may_do_what() {
        let forced = Identity { uid: 7, gid: 8, groups: vec![] };
        let point = Export {
            id: 1,
            name: "ap1".into(),
            path: "/x".into(),
            read_only: true,
            forced: Some(forced),
            allow: vec!["10.0.0.0/8".parse().expect("a network")],
            needs_tls: true,
            ..Export::whole()
        };
        let text = describe(&[Export::whole(), point]);
        let lines: Vec<_> = text.lines().collect();
        for word in ["/ ", "rw", "65534:65534", "everywhere"] {
            assert!(lines[1].contains(word), "{word}: {text}");
        }
        for word in ["/ap1", "/x", "ro", "7:8, as all", "10.0.0.0/8", "TLS"] {
            assert!(lines[2].contains(word), "{word}: {text}");
        }
        assert_eq!(describe(&[]), "Nothing is exported.\n");
    }
}
