//! Random operations of two clients beside a model of names and bytes.

use std::collections::{BTreeMap, HashMap};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{
    EXIST, INVAL, ISDIR, NOENT, NOTDIR, NOTEMPTY, OK, PERM, Stat, attr, kind, stable,
};
use crate::common::ops::{Make, Open, StateId, close, commit, link, mkdir, remove, rename};
use crate::common::{Served, seed};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const ROOT: usize = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(Vec<u8>),
    Dir(BTreeMap<String, usize>),
}

/// Names and bytes as they should be.
#[derive(Debug)]
struct Model {
    nodes: HashMap<usize, Node>,
    next: usize,
}

impl Model {
    fn new() -> Self {
        Self { nodes: HashMap::from([(ROOT, Node::Dir(BTreeMap::new()))]), next: 1 }
    }

    fn dir(&mut self, id: usize) -> &mut BTreeMap<String, usize> {
        match self.nodes.get_mut(&id) {
            Some(Node::Dir(names)) => names,
            other => panic!("{id} is no directory: {other:?}"),
        }
    }

    fn find(&mut self, dir: usize, name: &str) -> Option<usize> {
        self.dir(dir).get(name).copied()
    }

    fn is_dir(&self, id: usize) -> bool {
        matches!(self.nodes[&id], Node::Dir(_))
    }

    fn is_empty(&self, id: usize) -> bool {
        matches!(&self.nodes[&id], Node::Dir(names) if names.is_empty())
    }

    fn add(&mut self, dir: usize, name: &str, node: Node) -> usize {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.dir(dir).insert(name.into(), id);
        id
    }

    fn contains(&self, above: usize, below: usize) -> bool {
        above == below
            || match &self.nodes[&above] {
                Node::Dir(names) => names.values().any(|id| self.contains(*id, below)),
                Node::File(_) => false,
            }
    }

    /// All directories that have a name, and the root.
    fn dirs(&self) -> Vec<usize> {
        let mut dirs: Vec<usize> =
            self.nodes.keys().copied().filter(|id| self.is_dir(*id)).collect();
        dirs.retain(|id| self.contains(ROOT, *id));
        dirs.sort_unstable();
        dirs
    }

    /// Does it, or says with which of these it fails.
    fn rename(&mut self, from: (usize, &str), to: (usize, &str)) -> Result<(), &'static [Stat]> {
        let id = self.find(from.0, from.1).ok_or(&[NOENT][..])?;
        if self.is_dir(id) && self.contains(id, to.0) {
            return Err(&[INVAL, EXIST, NOTEMPTY]);
        }
        if let Some(over) = self.find(to.0, to.1) {
            match (self.is_dir(id), self.is_dir(over)) {
                _ if over == id => return Ok(()),
                (true, false) => return Err(&[EXIST, NOTDIR]),
                (false, true) => return Err(&[EXIST, ISDIR, NOTEMPTY]),
                (true, true) if !self.is_empty(over) => return Err(&[EXIST, NOTEMPTY]),
                _ => {}
            }
        }
        self.dir(from.0).remove(from.1);
        self.dir(to.0).insert(to.1.into(), id);
        Ok(())
    }
}

/// The server beside its model.
struct Pair {
    model: Model,
    clients: [Client; 2],
    handles: HashMap<usize, Vec<u8>>,
    random: StdRng,
}

impl Pair {
    fn new(served: &Served, seed: u64) -> Self {
        let mut clients = [served.client("a"), served.client("b")];
        let handles = HashMap::from([(ROOT, clients[0].root())]);
        Self { model: Model::new(), clients, handles, random: StdRng::seed_from_u64(seed) }
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.random_range(0..NAMES.len())]
    }

    fn some_dir(&mut self) -> usize {
        let dirs = self.model.dirs();
        dirs[self.random.random_range(0..dirs.len())]
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        let len = [0, 1, 100, 5_000, 70_000][self.random.random_range(0..5)];
        let mut bytes = vec![0; len];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn step(&mut self) {
        let (dir, name) = (self.some_dir(), self.name());
        let who = self.random.random_range(0..2);
        match self.random.random_range(0..8) {
            0 => self.mkdir(who, dir, name),
            1 => self.remove(who, dir, name),
            2 => self.rename(who, dir, name),
            3 => self.link(who, dir, name),
            4 => self.truncate(who, dir, name),
            5 => self.read(who, dir, name),
            _ => self.write(who, dir, name),
        }
    }

    fn mkdir(&mut self, who: usize, dir: usize, name: &str) {
        let client = &mut self.clients[who];
        let got = client.stat(&self.handles[&dir], mkdir(name, 0o755));
        match self.model.find(dir, name) {
            Some(_) => assert_eq!(got, EXIST),
            None => {
                assert_eq!(got, OK);
                let id = self.model.add(dir, name, Node::Dir(BTreeMap::new()));
                let handle = client.lookup(&self.handles[&dir], name).expect("just made");
                self.handles.insert(id, handle);
            }
        }
    }

    fn remove(&mut self, who: usize, dir: usize, name: &str) {
        let got = self.clients[who].stat(&self.handles[&dir], remove(name));
        match self.model.find(dir, name) {
            None => assert_eq!(got, NOENT),
            Some(id) if self.model.is_dir(id) && !self.model.is_empty(id) => {
                assert_eq!(got, NOTEMPTY);
            }
            Some(_) => {
                assert_eq!(got, OK);
                self.model.dir(dir).remove(name);
            }
        }
    }

    fn rename(&mut self, who: usize, dir: usize, name: &str) {
        let (to_dir, to) = (self.some_dir(), self.name());
        let handles = (&self.handles[&dir], &self.handles[&to_dir]);
        let got = self.clients[who].between(handles.0, handles.1, rename(name, to)).stat;
        match self.model.rename((dir, name), (to_dir, to)) {
            Ok(()) => assert_eq!(got, OK, "{name} to {to}"),
            Err(wanted) => assert!(wanted.contains(&got), "{got:?}, wanted {wanted:?}"),
        }
    }

    fn link(&mut self, who: usize, dir: usize, name: &str) {
        let Some(id) = self.model.find(dir, name) else { return };
        let (to_dir, to) = (self.some_dir(), self.name());
        let handles = (&self.handles[&id], &self.handles[&to_dir]);
        let got = self.clients[who].between(handles.0, handles.1, link(to)).stat;
        match (self.model.is_dir(id), self.model.find(to_dir, to)) {
            (true, _) => assert!([ISDIR, PERM, EXIST].contains(&got), "{got:?}"),
            (false, Some(_)) => assert_eq!(got, EXIST),
            (false, None) => {
                assert_eq!(got, OK);
                self.model.dir(to_dir).insert(to.into(), id);
            }
        }
    }

    fn truncate(&mut self, who: usize, dir: usize, name: &str) {
        let Some(id) = self.model.find(dir, name) else { return };
        let size = [0, 1, 4_096, 50_000, 200_000][self.random.random_range(0..5)];
        let got = self.clients[who].set(&self.handles[&id], &Set::new().size(size));
        match self.model.nodes.get_mut(&id) {
            Some(Node::File(bytes)) => {
                assert_eq!(got, OK);
                bytes.resize(size as usize, 0);
            }
            _ => assert!([ISDIR, INVAL].contains(&got), "{got:?}"),
        }
    }

    fn write(&mut self, who: usize, dir: usize, name: &str) {
        let bytes = self.some_bytes();
        let offset = [0u64, 10, 4_000, 100_000][self.random.random_range(0..4)];
        let guarded = self.random.random_range(0..4) == 0;
        let set = Set::new().mode(0o644);
        let make = if guarded { Make::Guarded(set) } else { Make::Unchecked(set) };
        let client = &mut self.clients[who];
        let opened = client.open(&self.handles[&dir], &Open::both(name).make(make));
        let known = self.model.find(dir, name);
        let id = match known {
            Some(_) if guarded => return assert_eq!(opened.err(), Some(EXIST)),
            Some(id) if self.model.is_dir(id) => return assert_eq!(opened.err(), Some(ISDIR)),
            Some(id) => id,
            None => self.model.add(dir, name, Node::File(Vec::new())),
        };
        let (file, opened) = opened.expect("opens");
        assert_eq!(self.handles.entry(id).or_insert_with(|| file.clone()), &file);
        let written = client.write(&file, opened.id, offset, stable::UNSTABLE, &bytes);
        assert_eq!(written.expect("writes").count as usize, bytes.len());
        assert_eq!(client.stat(&file, close(opened.id)), OK);
        let Some(Node::File(content)) = self.model.nodes.get_mut(&id) else { panic!("no file") };
        if !bytes.is_empty() {
            let end = offset as usize + bytes.len();
            content.resize(content.len().max(end), 0);
            content[offset as usize..end].copy_from_slice(&bytes);
        }
    }

    fn read(&mut self, who: usize, dir: usize, name: &str) {
        let client = &mut self.clients[who];
        let got = client.lookup(&self.handles[&dir], name);
        match self.model.find(dir, name) {
            None => assert_eq!(got.err(), Some(NOENT)),
            Some(id) => {
                assert_eq!(got.expect("looks up"), self.handles[&id], "{name}");
                if let Node::File(bytes) = &self.model.nodes[&id] {
                    let read = client.read(&self.handles[&id], StateId::ANONYMOUS, 3, 60_000);
                    let bytes = bytes.get(3..).unwrap_or_default();
                    let bytes = &bytes[..bytes.len().min(60_000)];
                    assert!(read.expect("reads").0 == bytes, "{name}: the bytes differ");
                }
            }
        }
    }

    /// All of the tree as a client sees it is as the model has it.
    fn compare(&mut self, who: usize) {
        for dir in self.model.dirs() {
            let handle = self.handles[&dir].clone();
            let wanted = self.model.dir(dir).clone();
            let client = &mut self.clients[who];
            let names: Vec<&String> = wanted.keys().collect();
            assert_eq!(client.names(&handle).iter().collect::<Vec<_>>(), names);
            for (name, id) in wanted {
                assert_eq!(client.lookup(&handle, &name).expect("looks up"), self.handles[&id]);
                let attrs = client.attrs(&self.handles[&id], &[attr::TYPE, attr::SIZE]);
                if let Node::File(bytes) = &self.model.nodes[&id] {
                    assert_eq!((attrs.kind(), attrs.size()), (kind::REG, bytes.len() as u64));
                    assert!(client.content(&self.handles[&id]) == *bytes, "{name}: bytes differ");
                } else {
                    assert_eq!(attrs.kind(), kind::DIR);
                }
            }
        }
    }

    /// Makes all bytes durable.
    fn commit(&mut self) {
        for dir in self.model.dirs() {
            for id in self.model.dir(dir).clone().into_values() {
                if !self.model.is_dir(id) {
                    assert_eq!(self.clients[0].stat(&self.handles[&id], commit(0, 0)), OK);
                }
            }
        }
    }
}

#[test]
fn two_clients_see_what_a_model_sees_through_kills_too() {
    for seed in [seed(), 1, 2] {
        let mut served = Served::new();
        let mut pair = Pair::new(&served, seed);
        for round in 0..3 {
            for _ in 0..120 {
                pair.step();
            }
            pair.compare(round % 2);
            pair.commit();
            if round == 2 {
                served.restart();
            } else {
                served.kill();
            }
            pair.clients = [served.client("a"), served.client("b")];
            assert_eq!(pair.clients[0].root(), pair.handles[&ROOT]);
            pair.compare((round + 1) % 2);
        }
        served.stop();
        served.world.unmount().expect("unmounts");
        served.world.fsck();
    }
}
