//! No circle of modules in any crate, and no import from a lower folder into a higher one, held
//! against the sources.
//!
//! A module is a file; what stands in a `mod x { … }` belongs to its file. A module imports another
//! where a path names it, in `use`, in code, in types or in what a macro is given. `mod x;` alone
//! imports nothing, `pub use x::Name` does. What is `#[cfg(test)]` is not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::{self, Visit};

/// Crates that are built in floors, and the folders of each from the top down: a module imports
/// from its own folder and from those below it.
const FLOORS: &[(&str, &[&str])] =
    &[("weir-engine", &["engine", "services", "names", "data", "volume"])];

/// `["a", "b"]` is `crate::a::b`, and no name at all is the root.
type Module = Vec<String>;

/// That a module imports another one, and where this is said.
#[derive(Debug)]
struct Edge {
    from: Module,
    to: Module,
    file: PathBuf,
    path: String,
}

impl std::fmt::Display for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} uses {}", self.file.display(), self.path)
    }
}

/// A file of a crate. Several may be the same module, each for a `cfg` of its own.
struct Source {
    module: Module,
    file: PathBuf,
    text: syn::File,
}

/// The file of `module` and those of all modules declared beneath it.
fn sources(module: Module, file: PathBuf, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Source> {
    let text = read(&file).unwrap_or_else(|| panic!("there is no {}", file.display()));
    let text = syn::parse_file(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let beside = file.parent().expect("a file is in a folder");
    let stem = file.file_stem().expect("a file has a name");
    let is_folder = module.is_empty() || stem == "mod";
    let folder = if is_folder { beside.to_owned() } else { beside.join(stem) };
    let mut found = Vec::new();
    for item in &text.items {
        let syn::Item::Mod(declared) = item else { continue };
        if declared.content.is_some() || is_test(&declared.attrs) {
            continue;
        }
        let name = declared.ident.to_string();
        let flat = folder.join(&name).with_extension("rs");
        let nested = folder.join(&name).join("mod.rs");
        let there = match elsewhere(&declared.attrs) {
            Some(path) => beside.join(path),
            None if read(&flat).is_some() => flat,
            None => nested,
        };
        found.extend(sources([&module[..], &[name]].concat(), there, read));
    }
    found.push(Source { module, file, text });
    found
}

/// What a `#[path = "…"]` says.
fn elsewhere(attributes: &[syn::Attribute]) -> Option<String> {
    let path = attributes.iter().find(|a| a.path().is_ident("path"))?;
    let syn::Meta::NameValue(said) = &path.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &said.value else {
        return None;
    };
    Some(path.value())
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let cfg = attribute.path().is_ident("cfg");
        cfg && attribute.parse_args::<syn::Ident>().is_ok_and(|what| what == "test")
    })
}

/// All paths that a file names, each with the module that it is written in.
#[derive(Default)]
struct Named {
    here: Module,
    paths: Vec<(Module, Vec<String>)>,
    /// What `use` calls by which name.
    bound: BTreeMap<(Module, String), Vec<String>>,
}

impl Named {
    fn name(&mut self, path: Vec<String>) {
        self.paths.push((self.here.clone(), path));
    }

    fn used(&mut self, mut prefix: Vec<String>, tree: &syn::UseTree) {
        let (name, last) = match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                return self.used(prefix, &path.tree);
            }
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.used(prefix.clone(), tree));
            }
            syn::UseTree::Glob(_) => return self.name([prefix, vec!["*".to_owned()]].concat()),
            syn::UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            syn::UseTree::Rename(name) => (name.rename.to_string(), name.ident.to_string()),
        };
        let of_prefix = last == "self" && !prefix.is_empty();
        let name = if name == "self" { prefix.last().cloned().unwrap_or(name) } else { name };
        prefix.extend((!of_prefix).then_some(last));
        self.bound.insert((self.here.clone(), name), prefix.clone());
        self.name(prefix);
    }

    /// Paths in what is given to a macro, which need not be Rust.
    fn tokens(&mut self, mut at: Cursor<'_>) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        while !at.eof() {
            if let Some((ident, after)) = at.ident() {
                if colons != 2 {
                    self.name(std::mem::take(&mut path));
                }
                path.push(ident.to_string());
                (colons, at) = (0, after);
            } else if let Some((_, after)) = at.punct().filter(|(punct, _)| punct.as_char() == ':')
            {
                (colons, at) = (colons + 1, after);
            } else {
                self.name(std::mem::take(&mut path));
                colons = 0;
                if let Some((inside, _, _, after)) = at.any_group() {
                    self.tokens(inside);
                    at = after;
                } else if let Some((_, after)) = at.token_tree() {
                    at = after;
                }
            }
        }
        self.name(path);
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            self.here.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.here.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) && item.leading_colon.is_none() {
            self.used(Vec::new(), &item.tree);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.name(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    /// `pub(super)` says who may import, and imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        self.tokens(TokenBuffer::new2(called.tokens.clone()).begin());
    }
}

/// Where the names of a crate lead to.
struct Names {
    modules: BTreeSet<Module>,
    bound: BTreeMap<(Module, String), Vec<String>>,
}

impl Names {
    /// The module of our own that a path names: the longest part of it that is one.
    ///
    /// What the root re-exports is followed to where it is from, for the root imports everything.
    /// What the root itself holds is no edge.
    fn module_of(&self, here: &Module, path: &[String]) -> Option<Module> {
        let whole = self.whole(here, path)?;
        let mut parts = (0..=whole.len()).rev().map(|length| &whole[..length]);
        let module = parts.find(|part| self.modules.contains(*part))?;
        if !module.is_empty() {
            return Some(module.to_owned());
        }
        let root = Module::new();
        let exported = self.bound.get(&(root.clone(), whole.first()?.clone()))?;
        let is_itself = exported.len() < 2 || here.is_empty();
        if is_itself { None } else { self.module_of(&root, exported) }
    }

    /// A path from the root on, or none where it leads out of the crate.
    fn whole(&self, here: &Module, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([here, rest].concat()),
            "super" => {
                let above = here.split_last()?.1.to_vec();
                let on = rest.first().is_some_and(|next| next == "super");
                if on { self.whole(&above, rest) } else { Some([&above[..], rest].concat()) }
            }
            // A variable may be called as a module is.
            _ if rest.is_empty() => None,
            _ => {
                let child = [&here[..], std::slice::from_ref(first)].concat();
                if self.modules.contains(&child) {
                    return Some([&child[..], rest].concat());
                }
                let bound = self.bound.get(&(here.clone(), first.clone()))?;
                // What `use url::Url as url` binds leads out of the crate.
                let bound = if bound[0] == *first { None } else { self.whole(here, bound) };
                bound.map(|bound| [&bound[..], rest].concat())
            }
        }
    }
}

/// Who imports whom in the crate with this root.
fn graph(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Edge> {
    let sources = sources(Module::new(), root.to_owned(), read);
    let modules = sources.iter().map(|source| source.module.clone()).collect();
    let mut names = Names { modules, bound: BTreeMap::new() };
    let mut paths = Vec::new();
    for Source { module, file, text } in &sources {
        let mut named = Named { here: module.clone(), ..Named::default() };
        named.visit_file(text);
        names.bound.extend(named.bound);
        paths.extend(named.paths.into_iter().map(|(here, path)| (module, file, here, path)));
    }
    let edges = paths.into_iter().filter_map(|(from, file, here, path)| {
        let to = names.module_of(&here, &path)?;
        let path = path.join("::");
        let counts = !from.is_empty() && to != *from;
        counts.then(|| Edge { from: from.clone(), to, file: file.clone(), path })
    });
    edges.collect()
}

/// The shortest way from `from` to `to`, an edge a step.
fn way<'a>(edges: &'a [Edge], from: &Module, to: &Module) -> Option<Vec<&'a Edge>> {
    let mut ways: Vec<Vec<&Edge>> = vec![Vec::new()];
    let mut seen = BTreeSet::new();
    let mut next = 0;
    while next < ways.len() {
        let here = ways[next].last().map_or(from, |edge| &edge.to).clone();
        for edge in edges.iter().filter(|edge| edge.from == here) {
            let longer = [&ways[next][..], &[edge]].concat();
            if edge.to == *to {
                return Some(longer);
            }
            if seen.insert(&edge.to) {
                ways.push(longer);
            }
        }
        next += 1;
    }
    None
}

/// All circles, a sentence each: modules that import each other, and one way around.
fn circles(edges: &[Edge]) -> Vec<String> {
    let importers: BTreeSet<&Module> = edges.iter().map(|edge| &edge.from).collect();
    let mut found = Vec::new();
    let mut told = BTreeSet::new();
    for from in &importers {
        let Some(circle) = way(edges, from, from).filter(|_| !told.contains(from)) else {
            continue;
        };
        let both = |to: &Module| way(edges, from, to).is_some() && way(edges, to, from).is_some();
        let members: Vec<&Module> = importers.iter().copied().filter(|to| both(to)).collect();
        let names: Vec<String> = members.iter().map(|module| module.join("::")).collect();
        let steps: Vec<String> = circle.iter().map(ToString::to_string).collect();
        found.push(format!("{} import each other: {}", names.join(", "), steps.join("; ")));
        told.extend(members);
    }
    found
}

/// All imports that `floors` do not allow, a sentence each.
fn wrong_way(edges: &[Edge], floors: &[&str]) -> Vec<String> {
    let floor_of = |module: &Module| floors.iter().position(|floor| *floor == module[0]);
    let sentence = |edge: &Edge| {
        let homeless = [&edge.from, &edge.to].into_iter().find(|module| floor_of(module).is_none());
        if let Some(module) = homeless {
            return Some(format!("{} is on no floor: say on which", module.join("::")));
        }
        let up = floor_of(&edge.to) < floor_of(&edge.from);
        up.then(|| format!("{edge}, which is above it"))
    };
    let found: BTreeSet<String> = edges.iter().filter_map(sentence).collect();
    found.into_iter().collect()
}

/// Each crate and the graph of its modules; a program beside a library is a crate of its own.
fn crates() -> Vec<(String, Vec<Edge>)> {
    let mut asked = MetadataCommand::new();
    asked.manifest_path("../../Cargo.toml").no_deps();
    let metadata = asked.exec().expect("cargo metadata");
    let read = |file: &Path| std::fs::read_to_string(file).ok();
    let mut found = Vec::new();
    for package in metadata.packages {
        let built = package.targets.iter().filter(|target| target.is_lib() || target.is_bin());
        let graphs = built.map(|target| graph(target.src_path.as_std_path(), &read));
        found.extend(graphs.map(|graph| (package.name.to_string(), graph)));
    }
    found
}

#[test]
fn no_modules_import_each_other() {
    let crates = crates();
    let edges: usize = crates.iter().map(|(_, edges)| edges.len()).sum();
    assert!(edges > 1000, "found no more than {edges} imports: the sources were not read");
    let found = crates.iter().flat_map(|(name, edges)| {
        circles(edges).into_iter().map(move |circle| format!("{name}: {circle}"))
    });
    assert_eq!(found.collect::<Vec<String>>(), Vec::<String>::new());
}

#[test]
fn no_module_imports_from_a_floor_above() {
    let crates = crates();
    for (name, floors) in FLOORS {
        let edges = crates.iter().find(|(crate_name, _)| crate_name == name);
        let (_, edges) = edges.unwrap_or_else(|| panic!("there is no {name}"));
        assert_eq!(wrong_way(edges, floors), Vec::<String>::new(), "{name}");
    }
}

/// The graph of a crate with these files.
fn invented(files: &[(&str, &str)]) -> Vec<Edge> {
    let read = |wanted: &Path| {
        let found = files.iter().find(|(file, _)| Path::new(file) == wanted);
        found.map(|(_, text)| (*text).to_owned())
    };
    graph(Path::new("lib.rs"), &read)
}

#[test]
fn a_circle_is_found() {
    let edges = invented(&[
        ("lib.rs", "mod bridge; mod house; mod road; pub use road::Road;"),
        // By what the root re-exports, which is the road's.
        ("house.rs", "mod door; pub use door::Door; struct House(crate::Road);"),
        // To its parent, from what a macro is given; and by a name that `use` gave to a module.
        ("house/door.rs", "use crate::bridge as way; fn f() { say!(super::House); way::toll() }"),
        ("road.rs", "pub struct Road; impl Road { fn to(&self) -> crate::house::Door { } }"),
        ("bridge.rs", "pub fn toll() {}"),
    ]);
    assert_eq!(
        circles(&edges),
        ["house, house::door, road import each other: \
          house.rs uses door::Door; house/door.rs uses super::House"]
    );
}

#[test]
fn what_is_no_circle_is_none() {
    let edges = invented(&[
        ("lib.rs", "mod house; mod road; pub use house::House; pub const LANES: u32 = 2;"),
        // What the root holds, who may see something, variables, other crates, and itself.
        ("house.rs", "mod road; use ::road::Stone; fn f(road: crate::house::Door) { road; }"),
        ("house/road.rs", "pub(super) struct Inner(u32); mod part { use super::Inner; }"),
        (
            "road.rs",
            "use crate::LANES; #[cfg(test)] use crate::house::House; \
          #[cfg(test)] mod tests { use crate::house::House; }",
        ),
    ]);
    assert_eq!(circles(&edges), Vec::<String>::new(), "{edges:?}");
    assert!(edges.is_empty(), "{edges:?}");
}

#[test]
fn an_import_from_a_floor_above_is_found() {
    let edges = invented(&[
        ("lib.rs", "mod attic; mod cellar; mod shed;"),
        ("attic/mod.rs", "use crate::cellar::Wine;"),
        ("cellar/mod.rs", "mod shelf;"),
        ("cellar/shelf.rs", "type Box = crate::attic::Box;"),
        ("shed.rs", "use crate::cellar::Wine;"),
    ]);
    assert_eq!(
        wrong_way(&edges, &["attic", "cellar"]),
        [
            "cellar/shelf.rs uses crate::attic::Box, which is above it",
            "shed is on no floor: say on which",
        ]
    );
    assert_eq!(wrong_way(&edges, &["shed", "cellar", "attic"]).len(), 1);
}
