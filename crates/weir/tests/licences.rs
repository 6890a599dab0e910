//! Every dependency's licence fits: the list of deny.toml, held against what cargo says.

use std::collections::BTreeSet;

use cargo_metadata::{CargoOpt, MetadataCommand};

/// The licences that deny.toml allows, and those that it allows to single crates.
#[derive(serde::Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
    exceptions: Vec<Exception>,
}

#[derive(serde::Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

fn licences() -> Licences {
    #[derive(serde::Deserialize)]
    struct Deny {
        licenses: Licences,
    }
    let text = std::fs::read_to_string("../../deny.toml").expect("deny.toml");
    toml::from_str::<Deny>(&text).expect("deny.toml is TOML").licenses
}

/// Whether a licence expression can be met: some alternative of each `AND` part, parentheses kept.
fn fits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    let alternatives = split(&expression, " OR ");
    if alternatives.len() > 1 {
        return alternatives.iter().any(|part| fits(part, allowed));
    }
    let parts = split(&expression, " AND ");
    if parts.len() > 1 {
        return parts.iter().all(|part| fits(part, allowed));
    }
    let name = expression.trim();
    match name.strip_prefix('(').and_then(|n| n.strip_suffix(')')) {
        Some(inner) => fits(inner, allowed),
        None => allowed.contains(name.split_whitespace().collect::<Vec<_>>().join(" ").as_str()),
    }
}

/// Splits at an operator outside parentheses. `OR` binds weaker than `AND`, so it is tried first.
fn split<'a>(text: &'a str, operator: &str) -> Vec<&'a str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && text[at..].starts_with(operator) => {
                parts.push(&text[start..at]);
                start = at + operator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
    for good in ["MIT", "GPL-3.0 OR MIT", "ISC AND (GPL-3.0 OR MIT)", "MIT/Apache-2.0"] {
        assert!(fits(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "ISC AND GPL-3.0", "(GPL-3.0 OR AGPL-3.0) AND MIT", ""] {
        assert!(!fits(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_dependency_has_a_licence_that_fits() {
    let licences = licences();
    let all = CargoOpt::AllFeatures;
    let metadata = MetadataCommand::new().features(all).exec().expect("cargo metadata");
    let of_crate = |name: &str| licences.exceptions.iter().find(|e| e.name == name);
    let bad: Vec<_> = metadata
        .packages
        .iter()
        .filter(|p| {
            let allowed = of_crate(&p.name).map_or(&licences.allow, |e| &e.allow);
            !p.license.as_deref().is_some_and(|licence| fits(licence, allowed))
        })
        .map(|p| format!("{} {}: {:?}", p.name, p.version, p.license))
        .collect();
    assert_eq!(bad, Vec::<String>::new());
}
