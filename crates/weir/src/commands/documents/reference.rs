//! docs/reference.md, from the command line.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use crate::cli::Cli;

const HEAD: &str = "# Commands and options

What `weir COMMAND --help` says, all on one page. It is generated: `WEIR_WRITE_DOCS=1 cargo test -p weir reference` writes it
anew, and a test holds it against the program. [commands.md](commands.md) is the overview. Settings that have no option are in
[api.md](api.md#settings), with units and defaults; `weir mount --config FILE` takes them as JSON.

Every command has these:

";

fn page() -> String {
    let mut cli = Cli::command();
    cli.build();
    let global: Vec<&Arg> = cli.get_arguments().filter(|arg| arg.is_global_set()).collect();
    let mut page = format!("{HEAD}{}", table(&global));
    for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
        describe(command, "weir", &mut page);
    }
    page
}

fn describe(command: &Command, above: &str, page: &mut String) {
    if command.is_hide_set() {
        return;
    }
    let name = format!("{above} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let _ = write!(page, "\n## {name}\n\n{about}. `{}`\n", usage.trim_start_matches("Usage: "));
    let own = |arg: &&Arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help";
    let own: Vec<_> = command.get_arguments().filter(own).collect();
    if !own.is_empty() {
        let _ = write!(page, "\n{}", table(&own));
    }
    if let Some(more) = command.get_after_help() {
        page.push('\n');
        for line in more.to_string().lines() {
            let _ = writeln!(page, "{}", format!("    {line}").trim_end());
        }
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        describe(below, &name, page);
    }
}

fn table(arguments: &[&Arg]) -> String {
    let mut table = "| option | |\n|---|---|\n".to_owned();
    for argument in arguments {
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let shown = !argument.is_hide_possible_values_set();
        let takes_value = argument.get_num_args().is_some_and(|n| n.takes_values());
        let listed = |values: Vec<String>| values.join("`, `");
        let values = argument.get_possible_values();
        if shown && takes_value && !values.is_empty() {
            let names = values.iter().filter(|value| !value.is_hide_set());
            let names = names.map(|value| value.get_name().to_owned()).collect();
            let _ = write!(help, " (`{}`)", listed(names));
        }
        let defaults = argument.get_default_values();
        if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
            let defaults = defaults.iter().map(|value| value.to_string_lossy().into_owned());
            let _ = write!(help, ". Default `{}`", listed(defaults.collect()));
        }
        let help = help.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ");
        let _ = writeln!(table, "| `{}` | {help} |", names(argument, takes_value));
    }
    table
}

/// As it is written: `-r, --recursive`, `--tier DIR`, `PATH...`.
fn names(argument: &Arg, takes_value: bool) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let values = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    match (flags.is_empty(), takes_value) {
        (true, _) => values,
        (false, true) => format!("{flags} {values}"),
        (false, false) => flags,
    }
}

#[test]
fn the_reference_is_what_the_command_line_says() {
    let (path, page) = (Path::new("../../docs/reference.md"), page());
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).expect("writes");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "write it anew: WEIR_WRITE_DOCS=1 cargo test -p weir reference");
}
