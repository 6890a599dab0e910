//! docs/api.md, from the types of the API.

use std::fmt::Write;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{Call, Method, Refusal};

const HEAD: &str = "# The admin API

What `weir` asks of a daemon, others can ask, too: HTTP with JSON on the Unix socket of the mount, which only
the daemon's user may open (`$WEIR_RUN_DIR`, else `/run/weir` for root and `$XDG_RUNTIME_DIR/weir` for others):

    curl --unix-socket /run/weir/SOCKET http://weir/v1/status

`GET` calls change nothing and take their fields as a query; `POST` calls take them as a body in JSON. A field
that may be `null` may be left out. What `weir COMMAND --json` prints of a daemon are these answers, with the mount
point beside them where there may be several. An error is an HTTP status of 4xx or 5xx and a [Refusal](#refusal). With `--admin-listen` a loopback port answers
`GET` of `/v1/status`, `/v1/throughput`, `/v1/used`, `/v1/history`, `/v1/actions`, `/v1/links`, `/v1/prices`, `/v1/bill`, `/v1/survey`, `/metrics` (docs/metrics.md),
`/healthz`, `/readyz`, and `/`, a page for browsers (docs/web.md), to who asks by an IP address or as `localhost`; with `--admin-token-file` also
`POST` of `/v1/actions/cancel`, to who sends the token of that file as `Authorization: Bearer TOKEN`; nothing else.

The first part of a path is the version: within it fields may be added, none goes or changes its meaning.

";

const COMMANDS: &str = "
## What commands print

Commands that ask a daemon print its answers with `--json`. These print reports of their own, each with a
`schema_version` beside its fields (`schema` in that of `weir bench`), which rises when one goes or changes its meaning.

| command | prints |
|---|---|
";

/// The page as far as it is written.
#[derive(Default)]
pub(crate) struct Page {
    generator: SchemaGenerator,
    calls: Vec<Described>,
    printed: Vec<Printed>,
}

/// A command, and what it prints.
struct Printed {
    command: &'static str,
    report: Value,
}

struct Described {
    method: Method,
    path: &'static str,
    call: Value,
    answer: Value,
}

impl Page {
    pub(crate) fn add<C: Call>(&mut self) {
        self.calls.push(Described {
            method: C::METHOD,
            path: C::PATH,
            call: self.generator.subschema_for::<C>().to_value(),
            answer: self.generator.subschema_for::<C::Answer>().to_value(),
        });
    }

    /// A command that prints a report of its own.
    pub(crate) fn prints<R: JsonSchema>(&mut self, command: &'static str) {
        let report = self.generator.subschema_for::<R>().to_value();
        self.printed.push(Printed { command, report });
    }

    pub(crate) fn text(mut self) -> String {
        self.generator.subschema_for::<Refusal>();
        let mut types = self.generator.take_definitions(true);
        let mut page = HEAD.to_owned();
        page.push_str("## Calls\n");
        self.calls.sort_by_key(|described| described.path);
        // What calls take is shown with them; what they share is not.
        let taken = |call: &Value| call["$ref"].as_str().and_then(name_of).map(str::to_owned);
        for described in &self.calls {
            let method = if described.method == Method::Get { "GET" } else { "POST" };
            let taken = taken(&described.call);
            let call = taken.and_then(|name| types.get(&name)).unwrap_or(&described.call);
            let _ = write!(page, "\n### `{method} {}`\n\n{}\n", described.path, doc(call));
            match fields(call) {
                Some(fields) => page.push_str(&fields),
                None if call.get("$ref").is_some() => {
                    let _ = write!(page, "\nTakes {}.\n", kind(call));
                }
                None => {}
            }
            let _ = write!(page, "\nAnswers {}.\n", kind(&described.answer));
        }
        let shown: Vec<_> = self.calls.iter().filter_map(|d| taken(&d.call)).collect();
        let used = Value::Object(types.clone()).to_string();
        types.retain(|name, _| {
            !shown.contains(name) || used.contains(&format!("\"#/$defs/{name}\""))
        });
        page.push_str(COMMANDS);
        for Printed { command, report } in &self.printed {
            let _ = writeln!(page, "| `{command}` | {} |", kind(report));
        }
        page.push_str("\n## Types\n");
        for (name, schema) in &types {
            let _ = write!(page, "\n### {name}\n\n{}\n", doc(schema));
            page.push_str(&fields(schema).unwrap_or_else(|| format!("\n{}\n", kind(schema))));
        }
        page
    }
}

/// The first sentences of what a type or field says of itself, without the links that rustdoc makes.
fn doc(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("[`", "`").replace("`]", "`").replace("`None`", "`null`").replace('|', "\\|")
}

/// A table of the fields of an object, if it is one that has any.
fn fields(schema: &Value) -> Option<String> {
    let properties = schema["properties"].as_object()?;
    let mut table = "\n| field | is | |\n|---|---|---|\n".to_owned();
    for (name, field) in properties {
        let _ = writeln!(table, "| `{name}` | {} | {} |", kind(field), doc(field));
    }
    Some(table)
}

/// A type in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(name_of) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for words in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[words].as_array() {
            return choices.iter().map(choice).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
    }
    if let Some(word) = schema.get("const") {
        return format!("`{word}`");
    }
    match &schema["type"] {
        Value::String(name) => simple(name, schema),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            names.map(|name| simple(name, schema)).collect::<Vec<_>>().join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

/// One of several: an object with one field is shown as such.
fn choice(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object() else { return kind(schema) };
    let fields = properties.iter().map(|(name, field)| format!("\"{name}\": {}", kind(field)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn simple(name: &str, schema: &Value) -> String {
    match name {
        "array" if schema.get("items").is_some() => format!("list of {}", kind(&schema["items"])),
        "object" if schema["properties"].is_object() => choice(schema),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", kind(&schema["additionalProperties"]))
        }
        "integer" if schema["minimum"] == 0 => "natural number".to_owned(),
        "null" => "`null`".to_owned(),
        other => other.to_owned(),
    }
}

fn name_of(reference: &str) -> Option<&str> {
    reference.strip_prefix("#/$defs/")
}
