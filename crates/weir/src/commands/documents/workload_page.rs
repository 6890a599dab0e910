//! `weir-workload(5)`: the file that `weir advise` reads, from the type that it becomes.

use std::fmt::Write;

use schemars::schema_for;
use serde_json::Value;
use weir_cost::Workload;

use super::roff::roff;

const EXAMPLE: &str = include_str!("../../../../../docs/examples/blast.toml");

/// The page, for `man`.
pub(super) fn page() -> String {
    let schema = schema_for!(Workload).to_value();
    let (mut fields, none) = (String::new(), serde_json::Map::new());
    let mut properties: Vec<_> = schema["properties"].as_object().unwrap_or(&none).iter().collect();
    // As people write them.
    properties.sort_by_key(|(name, _)| EXAMPLE.find(&format!("\n{name} = ")));
    for (name, field) in properties {
        let left_out = match &field["default"] {
            Value::Null => "must be there".to_owned(),
            Value::String(text) => format!("default \"{text}\""),
            other => format!("default {other}"),
        };
        let text = field["description"].as_str().unwrap_or_default();
        let kind = match field["type"].as_str() {
            Some("integer") => "natural number",
            Some("boolean") => "true or false",
            other => other.unwrap_or_default(),
        };
        let is = format!("{kind}, {left_out}");
        let _ = writeln!(fields, ".TP\n\\fB{name}\\fR ({})\n{}", roff(&is), roff(text));
    }
    format!(
        ".TH weir\\-workload 5\n\
         .SH NAME\nweir\\-workload \\- a job that runs again and again over a data set\n\
         .SH SYNOPSIS\n\\fBweir advise\\fR \\fIWORKLOAD.toml\\fR\n\
         .SH DESCRIPTION\nWhat \\fBweir advise\\fR reads, in TOML: a line \\fINAME\\fR = \\fIVALUE\\fR for each field. Sizes \
         are in bytes. Another field is an error. \\fBweir advise \\-\\-record\\fR \\fIDIR\\fR writes one from what a \
         mount did.\n\
         .SH FIELDS\n{fields}\
         .SH EXAMPLE\n.nf\n{}.fi\n\
         .SH SEE ALSO\n\\fBweir\\-advise\\fR(1)\n",
        EXAMPLE.lines().map(|line| format!("{}\n", roff(line))).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_there_as_it_may_be_written() {
        let page = page();
        for line in [
            "\\fBdata_set_bytes\\fR (natural number, must be there)\nBytes of the data set",
            "\\fBio_bytes\\fR (natural number, default 1048576)\nBytes of one read or write.",
            "\\fBrandom\\fR (true or false, default false)\n",
            "\\fBname\\fR (string, default \"\")\n",
            "\\fBregion\\fR (string, must be there)\nThe region, such as `us\\-east\\-1`.",
        ] {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
        let written: Workload = toml::from_str(EXAMPLE).expect("the example is one");
        let fields = serde_json::to_value(&written).expect("json");
        for name in fields.as_object().expect("fields").keys() {
            assert!(page.contains(&format!("\\fB{name}\\fR (")), "{name} has no entry");
            assert!(page.contains(&format!("\n{name} = ")), "{name} is not in the example");
        }
    }
}
