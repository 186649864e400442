//! Computes the difference of two trees by comparing pairs of directories. Each pair is compared
//! once, even if it occurs at many paths, so the work depends on distinct objects and not on paths.
//! A tree of few objects that expands to billions of paths is counted and refused before any code
//! walks its paths.

use crate::extent::{Excess, Extent};
use crate::git::{Dialog, Git, GitError, Place};
use crate::limits::STRUCTURE_BYTES_MAX;
use crate::pack::{Kind, Part};
use buildpool_protocol::limits::{SNAPSHOT_DEPTH_MAX, SNAPSHOT_FILES_MAX};
use buildpool_protocol::transfer::{ObjectFormat, ObjectId};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

/// Limit on the entries that one comparison reads: all entries of two trees of maximum size.
const ENTRIES_MAX: u64 = 2 * SNAPSHOT_FILES_MAX;

/// A binary id. A shorter id is padded with zeros.
type Raw = [u8; 32];

/// Two directories at the same path in both trees. `None` if a tree has no directory there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Pair {
    from: Option<Raw>,
    to: Option<Raw>,
}

/// An entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Tree(Raw),
    /// A file or a link.
    Blob(Raw),
    /// A submodule. Its objects are not in the tree.
    Submodule(Raw),
}

/// A difference in a directory.
#[derive(Debug)]
enum Change {
    Directory { name_bytes: u64, pair: Pair },
    File { name_bytes: u64, blob: Option<Raw>, is_new: bool },
}

/// The difference between two trees.
#[derive(Debug)]
pub struct Difference {
    format: ObjectFormat,
    top: Pair,
    changes: HashMap<Pair, Vec<Change>>,
    /// New trees and blobs, each once. The top tree comes first.
    pub parts: Vec<Part>,
    /// Removed blobs. Their sizes are also needed.
    gone: HashSet<Raw>,
}

impl Difference {
    /// Compares two trees. `from` may be absent.
    ///
    /// # Errors
    /// [`GitError::Absent`] if an object is missing; [`GitError::Excess`] if `to` exceeds the
    /// limits of a snapshot, provided that `from` does not.
    pub fn between(
        git: &Git,
        place: &Place,
        from: Option<&ObjectId>,
        to: &ObjectId,
    ) -> Result<Self, GitError> {
        let format = to.format();
        let empty = format.empty_tree();
        let raw = |id: &ObjectId| (*id != empty).then(|| to_raw(id.as_str()));
        let top = Pair { from: from.and_then(raw), to: raw(to) };
        let (changes, parts, gone) = (HashMap::new(), Vec::new(), HashSet::new());
        let mut found = Self { format, top, changes, parts, gone };
        if top.from != top.to {
            let arguments = ["cat-file", "--batch"];
            let dialog = git.run(place).args(arguments).for_bytes(STRUCTURE_BYTES_MAX).dialog()?;
            let reader = Reader { dialog, format, entries: 0 };
            found.compare(reader)?;
        }
        Ok(found)
    }

    fn compare(&mut self, mut reader: Reader) -> Result<(), GitError> {
        let mut seen = HashSet::new();
        let mut level: Vec<(Pair, Vec<u8>)> = vec![(self.top, Vec::new())];
        if let Some(to) = self.top.to {
            seen.insert(to);
            self.parts.push(part(to, self.format, Kind::Tree, Vec::new()));
        }
        let mut depth = 0;
        while !level.is_empty() {
            Excess::check("directories one in another", depth, SNAPSHOT_DEPTH_MAX as u64)
                .map_err(GitError::Excess)?;
            depth += 1;
            let ids = level.iter().flat_map(|(pair, _)| [pair.from, pair.to]).flatten();
            let trees = reader.read(ids.collect::<BTreeSet<_>>())?;
            let mut next = Vec::new();
            for (pair, path) in level {
                let side = |id: Option<Raw>| id.and_then(|id| trees.get(&id)).map_or(&[][..], Vec::as_slice);
                let (from, to) = (side(pair.from), side(pair.to));
                reader.count(from.len() + to.len())?;
                let mut changes = Vec::new();
                for (name, before, after) in differing(from, to) {
                    self.note(&mut changes, name, before, after);
                    let below = || [&path, &b"/"[..usize::from(!path.is_empty())], name].concat();
                    let new = match after {
                        Some(Node::Tree(id)) => Some((id, Kind::Tree)),
                        Some(Node::Blob(id)) => Some((id, Kind::Blob)),
                        Some(Node::Submodule(_)) | None => None,
                    };
                    if let Some((id, kind)) = new.filter(|(id, _)| seen.insert(*id)) {
                        self.parts.push(part(id, self.format, kind, below()));
                    }
                    if let Some(Change::Directory { pair, .. }) = changes.last()
                        && !self.changes.contains_key(pair)
                    {
                        next.push((*pair, below()));
                        self.changes.insert(*pair, Vec::new());
                    }
                }
                self.changes.insert(pair, changes);
            }
            level = next;
        }
        Ok(())
    }

    /// Records an entry that differs. A directory comes last.
    fn note(&mut self, changes: &mut Vec<Change>, name: &[u8], before: Option<Node>, after: Option<Node>) {
        let name_bytes = name.len() as u64;
        let tree = |node| match node {
            Some(Node::Tree(id)) => Some(id),
            _ => None,
        };
        for (node, is_new) in [(before, false), (after, true)] {
            let blob = match node {
                Some(Node::Blob(id)) => Some(id),
                Some(Node::Submodule(_)) => None,
                Some(Node::Tree(_)) | None => continue,
            };
            self.gone.extend(blob.filter(|_| !is_new));
            changes.push(Change::File { name_bytes, blob, is_new });
        }
        let pair = Pair { from: tree(before), to: tree(after) };
        if pair.from.is_some() || pair.to.is_some() {
            changes.push(Change::Directory { name_bytes, pair });
        }
    }

    /// Returns the removed blobs. The caller needs their sizes for [`Difference::extent`].
    pub fn gone(&self) -> Vec<Part> {
        self.gone.iter().map(|id| part(*id, self.format, Kind::Blob, Vec::new())).collect()
    }

    /// Returns the extent of the new tree. `from` is the extent of the old tree, `sizes` has the
    /// sizes of all blobs that differ.
    pub fn extent(&self, from: Extent, sizes: &HashMap<ObjectId, u64>) -> Extent {
        let sizes: HashMap<Raw, u64> = sizes.iter().map(|(id, size)| (to_raw(id.as_str()), *size)).collect();
        let growth = self.growth(&sizes);
        let sum = |before: u64, growth: i128| {
            u64::try_from(i128::from(before).saturating_add(growth).max(0)).unwrap_or(u64::MAX)
        };
        Extent {
            paths: sum(from.paths, growth.paths),
            names: sum(from.names, growth.names),
            bytes: sum(from.bytes, growth.bytes),
            depth: from.depth.max(growth.depth),
        }
    }

    /// Sums up the growth from the innermost pairs, each once.
    fn growth(&self, sizes: &HashMap<Raw, u64>) -> Growth {
        let mut done: HashMap<Pair, Growth> = HashMap::new();
        let mut open = vec![(self.top, false)];
        while let Some((pair, is_ready)) = open.pop() {
            if done.contains_key(&pair) {
                continue;
            }
            let changes = self.changes.get(&pair).map_or(&[][..], Vec::as_slice);
            if is_ready {
                done.insert(
                    pair,
                    changes.iter().fold(Growth::default(), |sum, change| sum.with(change, &done, sizes)),
                );
                continue;
            }
            open.push((pair, true));
            open.extend(changes.iter().filter_map(|change| match change {
                Change::Directory { pair, .. } => Some((*pair, false)),
                Change::File { .. } => None,
            }));
        }
        done.remove(&self.top).unwrap_or_default()
    }
}

/// Growth of a directory. Sums saturate.
#[derive(Clone, Copy, Default)]
struct Growth {
    paths: i128,
    names: i128,
    bytes: i128,
    depth: u64,
}

impl Growth {
    fn with(self, change: &Change, done: &HashMap<Pair, Self>, sizes: &HashMap<Raw, u64>) -> Self {
        let (name_bytes, own, inner, size) = match change {
            Change::File { name_bytes, blob, is_new } => {
                let size = blob.and_then(|blob| sizes.get(&blob)).copied().unwrap_or(0);
                let sign = if *is_new { 1 } else { -1 };
                (*name_bytes, sign, Self::default(), sign * i128::from(size))
            }
            Change::Directory { name_bytes, pair } => {
                let own = i128::from(pair.to.is_some()) - i128::from(pair.from.is_some());
                (*name_bytes, own, done.get(pair).copied().unwrap_or_default(), 0)
            }
        };
        let paths = inner.paths.saturating_add(own);
        let names = paths.saturating_mul(i128::from(name_bytes) + 1).saturating_add(inner.names);
        let is_directory = matches!(change, Change::Directory { pair: Pair { to: Some(_), .. }, .. });
        Self {
            paths: self.paths.saturating_add(paths),
            names: self.names.saturating_add(names),
            bytes: self.bytes.saturating_add(inner.bytes).saturating_add(size),
            depth: self.depth.max(u64::from(is_directory) + inner.depth),
        }
    }
}

/// Reads directories with `cat-file --batch`.
struct Reader {
    dialog: Dialog,
    format: ObjectFormat,
    /// Number of entries compared so far.
    entries: u64,
}

type Entry = (Vec<u8>, Node);

impl Reader {
    fn read(&mut self, ids: impl IntoIterator<Item = Raw>) -> Result<HashMap<Raw, Vec<Entry>>, GitError> {
        let ids: Vec<(Raw, ObjectId)> = ids.into_iter().map(|id| (id, to_id(&id, self.format))).collect();
        self.dialog.ask(ids.iter().flat_map(|(_, id)| [id.as_str().as_bytes(), b"\n"].concat()).collect());
        let mut trees = HashMap::new();
        let mut entries = 0;
        for (raw, id) in ids {
            let line = self.dialog.line()?;
            let columns: Vec<&str> = line.split(' ').collect();
            let length = match columns.as_slice() {
                [_, "missing"] => return Err(GitError::Absent { id }),
                [_, "tree", length] => length.parse::<u64>().map_err(|_| self.dialog.unexpected(&line))?,
                _ => return Err(self.dialog.unexpected(format!("{line}, where a tree was expected"))),
            };
            Excess::check("bytes in one directory", length, STRUCTURE_BYTES_MAX).map_err(GitError::Excess)?;
            let mut content = self.dialog.bytes(length as usize + 1)?;
            content.pop();
            let tree = parse(&content, self.format)
                .ok_or_else(|| self.dialog.unexpected(format!("{id} is not a tree")))?;
            entries += tree.len() as u64;
            Excess::check("paths", entries, ENTRIES_MAX).map_err(GitError::Excess)?;
            trees.insert(raw, tree);
        }
        Ok(trees)
    }

    /// Counts compared entries. A tree that needs more entries than two trees of maximum size
    /// exceeds the limit, because each pair occurs at one path or more.
    fn count(&mut self, entries: usize) -> Result<(), GitError> {
        self.entries += entries as u64;
        Excess::check("paths", self.entries, ENTRIES_MAX).map_err(GitError::Excess)
    }
}

/// Parses the entries of a tree object: mode, space, name, NUL, id.
fn parse(mut content: &[u8], format: ObjectFormat) -> Option<Vec<Entry>> {
    let id_bytes = match format {
        ObjectFormat::Sha1 => 20,
        ObjectFormat::Sha256 => 32,
    };
    let mut entries = Vec::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ')?;
        let (mode, rest) = (&content[..space], &content[space + 1..]);
        let end = rest.iter().position(|byte| *byte == 0)?;
        let id = rest.get(end + 1..end + 1 + id_bytes)?;
        let mut raw = [0; 32];
        raw[..id_bytes].copy_from_slice(id);
        let node = match mode {
            b"40000" | b"040000" => Node::Tree(raw),
            b"160000" => Node::Submodule(raw),
            _ => Node::Blob(raw),
        };
        entries.push((rest[..end].to_vec(), node));
        content = &rest[end + 1 + id_bytes..];
    }
    Some(entries)
}

type Differing<'a> = (&'a [u8], Option<Node>, Option<Node>);

/// Returns the entries that differ between two directories. A duplicate name counts twice.
fn differing<'a>(from: &'a [Entry], to: &'a [Entry]) -> Vec<Differing<'a>> {
    let mut before: HashMap<&[u8], Node> = HashMap::with_capacity(from.len());
    let mut found: Vec<Differing<'_>> = Vec::new();
    for (name, node) in from {
        if before.insert(name, *node).is_some() {
            found.push((name, Some(*node), None));
        }
    }
    for (name, node) in to {
        let old = before.remove(name.as_slice());
        if old != Some(*node) {
            found.push((name, old, Some(*node)));
        }
    }
    let left = from.iter().filter_map(|(name, _)| before.remove_entry(name.as_slice()));
    found.extend(left.map(|(name, node)| (name, Some(node), None)));
    found
}

fn part(id: Raw, format: ObjectFormat, kind: Kind, path: Vec<u8>) -> Part {
    Part { id: to_id(&id, format), kind, path }
}

fn to_raw(id: &str) -> Raw {
    let mut raw = [0; 32];
    for (byte, digits) in raw.iter_mut().zip(id.as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .unwrap_or(0);
    }
    raw
}

fn to_id(raw: &Raw, format: ObjectFormat) -> ObjectId {
    let bytes = match format {
        ObjectFormat::Sha1 => 20,
        ObjectFormat::Sha256 => 32,
    };
    let mut text = String::with_capacity(2 * bytes);
    for byte in &raw[..bytes] {
        write!(text, "{byte:02x}").expect("a string takes all");
    }
    text.parse().expect("these are the digits of an id")
}
