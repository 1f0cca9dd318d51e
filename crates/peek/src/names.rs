//! What the addresses in a picture are called: subs, files and lines, operations.
//!
//! A statement or a sub lives as long as the code that it belongs to, so their names are known from the last time if what
//! stands at the address is still the same. Only that is read for each picture, in two calls for all frames together.

use std::collections::HashMap;
use std::sync::Arc;

use howdah_wire::PerlLayout;
use serde::Serialize;

use crate::process::{Process, word32, word64};
use crate::stack::Picture;

/// Names that are kept: code that is made anew all the time (string eval) must not fill memory.
const MOST_NAMES: usize = 100_000;
/// Bytes of an operation that are looked at.
const OPERATION: usize = 64;
/// The name of a sub that has none, or is gone.
const UNKNOWN: &str = "(unknown)";
/// Bytes of the head of an SV.
const HEAD: usize = 24;
/// Siblings among which the name of a called sub is looked for.
const MOST_SIBLINGS: usize = 64;

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Frame {
    /// Package and name; of one without a name the place of its beginning, too.
    pub sub: Arc<str>,
    /// The file of the statement that it runs.
    pub file: Arc<str>,
    /// Its line.
    pub line: u32,
}

impl Frame {
    /// Its sub has a name.
    pub(crate) fn is_known(&self) -> bool {
        *self.sub != *UNKNOWN
    }
}

/// The operation that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// As perl calls it: `match`, `entersub`.
    pub name: Arc<str>,
    /// The sub in C that it calls, as far as that can be seen.
    pub xsub: Option<Arc<str>>,
}

/// Operations in which the engine of regular expressions works.
const REGEX: [&str; 6] = ["match", "subst", "substcont", "split", "qr", "regcomp"];

impl Operation {
    /// It is a regular expression's.
    pub fn is_regex(&self) -> bool {
        REGEX.contains(&&*self.name)
    }
}

/// Names of one process.
#[derive(Debug)]
pub(crate) struct Names {
    process: Process,
    operations: Vec<Arc<str>>,
    files: HashMap<u64, Arc<str>>,
    subs: HashMap<[u64; 3], Arc<str>>,
    xsubs: HashMap<u64, Option<Arc<str>>>,
}

/// A statement, as far as it is looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Statement {
    file: u64,
    line: u32,
}

impl Names {
    /// Reads what perl calls its operations.
    pub(crate) fn new(process: Process) -> Self {
        let layout = process.layout.clone();
        let pointers = process.bytes(layout.op_names_at, layout.op_names as usize * 8).unwrap_or_default();
        let name = |at: u32| process.text_at(word64(&pointers, at * 8));
        let operations = (0..layout.op_names).map(name).collect();
        Self { operations, process, files: HashMap::new(), subs: HashMap::new(), xsubs: HashMap::new() }
    }

    /// The frames of a picture, the innermost first; none when one of them is gone, or was never there.
    pub(crate) fn frames(&mut self, picture: &Picture) -> Option<Vec<Frame>> {
        self.forget();
        let layout = self.process.layout.clone();
        let (count, size) = (picture.calls.len(), layout.cop_size as usize);
        let (mut statements, mut heads) = (vec![0; count * size], vec![0; count * HEAD]);
        // The first statement is the one that runs, each other one is where a frame called the one before it.
        let callers = picture.calls.iter().map(|call| call.caller);
        let places = std::iter::once(picture.statement).chain(callers);
        let mut pieces: Vec<_> = places.zip(statements.chunks_exact_mut(size)).collect();
        pieces.extend(picture.calls.iter().map(|call| call.cv).zip(heads.chunks_exact_mut(HEAD)));
        self.process.fill(&mut pieces).ok().filter(|&there| there)?;
        let (bodies, body) = self.bodies(&heads)?;
        let both = statements.chunks_exact(size).zip(bodies.chunks_exact(body));
        Some(both.map(|(statement, body)| self.frame(&layout, statement, body)).collect())
    }

    /// The bodies of CVs, one behind the other, and the size of each.
    fn bodies(&self, heads: &[u8]) -> Option<(Vec<u8>, usize)> {
        let layout = &self.process.layout;
        let ends = [layout.cv_flags + 4, layout.cv_gv + 8, layout.cv_stash + 8, layout.cv_start + 8];
        let size = ends.into_iter().max().filter(|&size| size <= 4096)? as usize;
        let mut bodies = vec![0; heads.len() / HEAD * size];
        let addresses = heads.chunks_exact(HEAD).map(|head| word64(head, layout.sv_any));
        let mut pieces: Vec<_> = addresses.zip(bodies.chunks_exact_mut(size)).collect();
        self.process.fill(&mut pieces).ok().filter(|&there| there)?;
        drop(pieces);
        Some((bodies, size))
    }

    fn frame(&mut self, layout: &PerlLayout, statement: &[u8], body: &[u8]) -> Frame {
        let statement =
            Statement { file: word64(statement, layout.cop_file), line: word32(statement, layout.cop_line) };
        Frame { sub: self.sub(body), file: self.file(statement.file), line: statement.line }
    }

    /// By the body of a CV.
    fn sub(&mut self, body: &[u8]) -> Arc<str> {
        let layout = self.process.layout.clone();
        let flags = word32(body, layout.cv_flags) & (layout.cv_anon | layout.cv_named);
        let key = [word64(body, layout.cv_gv), word64(body, layout.cv_start), u64::from(flags)];
        if let Some(known) = self.subs.get(&key) {
            return known.clone();
        }
        let Some(name) = self.read_sub(body, &layout).map(Arc::<str>::from) else { return UNKNOWN.into() };
        self.subs.insert(key, name.clone());
        name
    }

    fn read_sub(&mut self, body: &[u8], layout: &PerlLayout) -> Option<String> {
        let flags = word32(body, layout.cv_flags);
        let from = word64(body, layout.cv_gv);
        if flags & layout.cv_named != 0 {
            let package = self.stash(word64(body, layout.cv_stash)).unwrap_or_default();
            return Some(format!("{package}::{}", self.hek(from)?));
        }
        let name = self.glob(from)?;
        if flags & layout.cv_anon == 0 {
            return Some(name);
        }
        // Many have the name __ANON__; where each begins tells them apart.
        let start = self.statement_at(word64(body, layout.cv_start)).filter(|start| start.line != 0);
        Some(match start.map(|start| (self.file(start.file), start.line)) {
            Some((file, line)) => format!("{name}({}:{line})", base(&file)),
            None => name,
        })
    }

    /// A statement at an address, if there is one that looks like it.
    fn statement_at(&self, address: u64) -> Option<Statement> {
        let layout = &self.process.layout;
        let bytes = self.process.bytes(address, layout.cop_size as usize)?;
        let kind = self.kind(&bytes);
        let is_statement = kind.ends_with("state") || *kind == *"null";
        let statement =
            Statement { file: word64(&bytes, layout.cop_file), line: word32(&bytes, layout.cop_line) };
        is_statement.then_some(statement)
    }

    /// `PACKAGE::NAME` of a GV.
    fn glob(&self, gv: u64) -> Option<String> {
        let layout = &self.process.layout;
        let body = self.process.pointer(at(gv, layout.sv_any))?;
        let name = self.hek(self.process.pointer(at(body, layout.gv_name))?)?;
        let stash = self.process.pointer(at(body, layout.gv_stash));
        let package = stash.and_then(|stash| self.stash(stash)).unwrap_or_else(|| "__ANON__".to_owned());
        Some(format!("{package}::{name}"))
    }

    fn stash(&self, stash: u64) -> Option<String> {
        let layout = &self.process.layout;
        let body = self.process.pointer(at(stash, layout.sv_any))?;
        let place = match layout.hv_aux_behind {
            0 => body,
            _ => {
                let array = self.process.pointer(at(stash, layout.sv_u))?;
                let last = word64(&self.process.bytes(at(body, layout.hv_max), 8)?, 0);
                array.checked_add(last.checked_add(1)?.checked_mul(8)?)?
            }
        };
        let name = self.process.pointer(at(place, layout.hv_name))?;
        match self.process.number(at(place, layout.hv_name_count))? {
            0 => self.hek(name),
            _ => self.hek(self.process.pointer(name)?),
        }
    }

    fn hek(&self, hek: u64) -> Option<String> {
        let layout = &self.process.layout;
        let length = self.process.number(hek.checked_add(u64::from(layout.hek_length))?)?;
        self.process.text(at(hek, layout.hek_key), length as usize)
    }

    /// A file by the address that a statement has of it.
    fn file(&mut self, address: u64) -> Arc<str> {
        if let Some(known) = self.files.get(&address) {
            return known.clone();
        }
        let read = match self.process.layout.cop_file_is_gv {
            0 => self.process.string(address),
            // main::_<FILE
            _ => self.glob(address).and_then(|name| Some(name.split_once("_<")?.1.to_owned())),
        };
        let file: Arc<str> = read.unwrap_or_else(|| "?".into()).into();
        self.files.insert(address, file.clone());
        file
    }

    /// Of a copy of an operation.
    fn kind(&self, operation: &[u8]) -> Arc<str> {
        let layout = &self.process.layout;
        let kind = word32(operation, layout.op_type) & layout.op_type_mask;
        let number = kind.checked_shr(layout.op_type_mask.trailing_zeros()).unwrap_or_default();
        self.operations.get(number as usize).cloned().unwrap_or_default()
    }

    /// What a picture's operation is.
    pub(crate) fn operation(&mut self, picture: &Picture) -> Operation {
        let Some(bytes) = self.process.bytes(picture.op, OPERATION) else { return Operation::default() };
        let name = self.kind(&bytes);
        let xsub = (*name == *"entersub").then(|| self.xsub(picture, &bytes)).flatten();
        Operation { name, xsub }
    }

    fn xsub(&mut self, picture: &Picture, entersub: &[u8]) -> Option<Arc<str>> {
        if let Some(known) = self.xsubs.get(&picture.op) {
            return known.clone();
        }
        let name = self.read_xsub(picture.pad, entersub).map(Arc::from);
        self.xsubs.insert(picture.op, name.clone());
        name
    }

    /// The operation that names the sub is the last child, or the child of that.
    fn read_xsub(&mut self, pad: u64, entersub: &[u8]) -> Option<String> {
        let mut last = self.last_sibling(word64(entersub, self.process.layout.op_first))?;
        for _ in 0..4 {
            match &*self.kind(&last) {
                "null" => last = self.last_sibling(word64(&last, self.process.layout.op_first))?,
                "gv" => return self.called(self.value(pad, &last, self.process.layout.gv_in_pad != 0)?),
                kind if kind.starts_with("method") => return self.method(self.value(pad, &last, false)?),
                _ => return None,
            }
        }
        None
    }

    fn last_sibling(&self, first: u64) -> Option<Vec<u8>> {
        let layout = &self.process.layout;
        let mut operation = self.process.bytes(first, OPERATION)?;
        for _ in 0..MOST_SIBLINGS {
            let flag = word32(&operation, layout.op_type) & layout.op_moresib_mask;
            let next = word64(&operation, layout.op_sibling);
            if next == 0 || (layout.op_moresib_mask != 0 && flag == 0) {
                return Some(operation);
            }
            operation = self.process.bytes(next, OPERATION)?;
        }
        None
    }

    /// What an operation refers to: by itself, or by a place in the pad.
    fn value(&self, pad: u64, operation: &[u8], by_place: bool) -> Option<u64> {
        let layout = &self.process.layout;
        let value = word64(operation, layout.op_value);
        let place = if by_place { value } else { word64(operation, layout.op_targ) };
        match value {
            value if value != 0 && !by_place => Some(value),
            _ => self.process.pointer(pad.checked_add(place.checked_mul(8)?)?),
        }
    }

    /// Of a GV, or of a reference to a CV in its place, the sub's own name, if that is C.
    fn called(&mut self, sv: u64) -> Option<String> {
        let layout = self.process.layout.clone();
        let flags = self.process.number(at(sv, layout.sv_flags))?;
        let to = self.process.pointer(at(sv, layout.sv_u))?;
        let cv = if flags & layout.sv_rok != 0 { to } else { self.process.pointer(at(to, layout.gp_cv))? };
        let (body, _) = self.bodies(&self.process.bytes(cv, HEAD)?)?;
        (word32(&body, layout.cv_flags) & layout.cv_is_xsub != 0)
            .then(|| self.read_sub(&body, &layout))
            .flatten()
    }

    /// Of a method only its name is known.
    fn method(&self, sv: u64) -> Option<String> {
        let layout = &self.process.layout;
        let body = self.process.pointer(at(sv, layout.sv_any))?;
        let length = self.process.bytes(at(body, layout.pv_cur), 8)?;
        let text = self.process.pointer(at(sv, layout.sv_u))?;
        let name = self.process.text(text, usize::try_from(word64(&length, 0)).ok()?)?;
        Some(format!("->{name}"))
    }

    fn forget(&mut self) {
        if self.files.len() + self.subs.len() + self.xsubs.len() > MOST_NAMES {
            self.files.clear();
            self.subs.clear();
            self.xsubs.clear();
        }
    }
}

/// A field of what lies at an address, which may be any number.
fn at(address: u64, offset: u32) -> u64 {
    address.wrapping_add(offset.into())
}

impl Process {
    fn text_at(&self, address: u64) -> Arc<str> {
        self.string(address).unwrap_or_default().into()
    }
}

/// The last part of a path.
pub(crate) fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}
