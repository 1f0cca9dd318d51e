//! A path becomes a script, or a refusal.
//!
//! SCRIPT_NAME is the longest prefix of the path that is a file; since nothing lies below a file, that is the first one on the
//! way down. [`walk`] goes that way, a directory at a time, each held open, so that nobody can exchange one behind its back.
//! Names that begin with a dot and `..` are refused wherever a script could be, and `..` behind it too: scripts put PATH_INFO
//! behind the name of a directory. [`shebang`] reads which perl a script names.

mod script;
mod walk;
mod shebang;
mod refusal;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat, open};

use crate::spec::Spec;
pub use refusal::Refusal;
pub use script::{Script, Version};
pub use shebang::Perl;
use walk::{File, Node, Walk};

/// The directory of a mount, or its one script.
#[derive(Debug)]
pub struct Mount {
    /// Without a slash at its end.
    path: Vec<u8>,
    root: PathBuf,
    index: Vec<String>,
    is_one_script: bool,
}

impl Mount {
    /// Looks at what the specification names.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(spec: &Spec) -> io::Result<Self> {
        Ok(Self {
            path: spec.mount.trim_end_matches('/').as_bytes().to_vec(),
            root: spec.root.clone(),
            index: spec.index.clone(),
            is_one_script: !fs::metadata(&spec.root)?.is_dir(),
        })
    }

    /// The script for a path, which is decoded and begins with the mount's.
    ///
    /// # Errors
    /// [`Refusal`] with status and reason.
    pub fn find(&self, path: &[u8]) -> Result<Script, Refusal> {
        let rest = self.below(path)?;
        if self.is_one_script { self.one(rest) } else { self.search(rest) }
    }

    /// What lies below the mount; empty, or with a slash at its beginning.
    fn below<'a>(&self, path: &'a [u8]) -> Result<&'a [u8], Refusal> {
        let rest = path.strip_prefix(self.path.as_slice()).filter(|rest| matches!(rest, [] | [b'/', ..]));
        let rest = rest.ok_or_else(|| Refusal::missing("the path is not below that of the mount"))?;
        if rest.contains(&0) {
            return Err(Refusal::missing("the path has a NUL"));
        }
        if rest.split(|&byte| byte == b'/').any(|segment| segment == b"..") {
            return Err(Refusal::forbidden("the path has a \"..\""));
        }
        Ok(rest)
    }

    /// The mount is a script, wherever its name leads.
    fn one(&self, path_info: &[u8]) -> Result<Script, Refusal> {
        let real = self.root.canonicalize().map_err(|error| Refusal::of(&error, &self.root))?;
        let (parent, name) = (real.parent().unwrap_or(&real), real.file_name().unwrap_or_default());
        let mut walk = self.walk(parent)?;
        let node = walk.enter(name.as_bytes()).map_err(|error| error.about(&self.root, &self.path))?;
        self.run(node, self.root.clone(), self.path.clone(), path_info)
    }

    /// A script somewhere below the mount's directory.
    fn search(&self, rest: &[u8]) -> Result<Script, Refusal> {
        let mut walk = self.walk(&self.root)?;
        let (mut filename, mut name) = (self.root.clone(), self.path.clone());
        let mut left = rest;
        while let Some((segment, behind)) = next_segment(left) {
            add(&mut filename, &mut name, segment);
            if segment.starts_with(b".") {
                return Err(Refusal::forbidden(format!("{} is hidden", filename.display())));
            }
            let node = walk.enter(segment).map_err(|error| error.about(&filename, &name))?;
            if !matches!(node, Node::Directory) {
                return self.run(node, filename, name, behind);
            }
            left = behind;
        }
        self.find_index(&mut walk, &filename, &name)
    }

    /// The first of the index scripts that a directory has.
    fn find_index(&self, walk: &mut Walk, directory: &Path, name: &[u8]) -> Result<Script, Refusal> {
        for index in &self.index {
            let (mut filename, mut name) = (directory.to_owned(), name.to_vec());
            add(&mut filename, &mut name, index.as_bytes());
            match walk.enter(index.as_bytes()) {
                Ok(node) => return self.run(node, filename, name, b""),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error.about(&filename, &name)),
            }
        }
        let way_out = if self.index.is_empty() { "see --cgi-index" } else { "and it has no index script" };
        Err(Refusal::forbidden(format!("{} is a directory; {way_out}", directory.display())))
    }

    fn walk(&self, directory: &Path) -> Result<Walk, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            open(directory, flags, Mode::empty()).map_err(|error| Refusal::of(&error.into(), directory))?;
        Ok(Walk::new(root, directory.to_owned()))
    }

    fn run(&self, node: Node, filename: PathBuf, name: Vec<u8>, path_info: &[u8]) -> Result<Script, Refusal> {
        let shown = filename.display();
        let file = match node {
            Node::File(file) => file,
            Node::Directory => return Err(Refusal::forbidden(format!("{shown} is a directory"))),
            Node::Special => return Err(Refusal::forbidden(format!("{shown} is not a regular file"))),
        };
        if !is_executable(&file) {
            return Err(Refusal::forbidden(format!("{shown} is not executable: see chmod +x")));
        }
        Ok(Script::new(&file, filename, name, path_info))
    }
}

/// The next segment that is not empty, and what follows it.
fn next_segment(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = path.iter().position(|&byte| byte != b'/')?;
    let length = path[start..].iter().position(|&byte| byte == b'/').unwrap_or(path.len() - start);
    Some(path[start..].split_at(length))
}

fn add(filename: &mut PathBuf, name: &mut Vec<u8>, segment: &[u8]) {
    filename.push(OsStr::from_bytes(segment));
    name.push(b'/');
    name.extend_from_slice(segment);
}

fn is_executable(file: &File) -> bool {
    accessat(&file.directory, OsStr::from_bytes(&file.name), Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A directory of scripts, with one beside it that is nobody's business.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for directory in
            ["cgi/sub/deep", "cgi/.hidden", "cgi/empty", "cgi/full", "cgi/odd\u{e9} name", "outside"]
        {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for file in [
            "cgi/a.cgi",
            "cgi/nph-a",
            "cgi/sub/b.pl",
            "cgi/sub/deep/c",
            "cgi/.hidden/d",
            "cgi/.e",
            "cgi/full/index.cgi",
            "cgi/odd\u{e9} name/f",
            "cgi/plain",
            "cgi/%2e%2e",
            "outside/secret",
        ] {
            fs::write(at(file), "#!/usr/bin/perl -T\n").unwrap();
            let mode = if file == "cgi/plain" { 0o644 } else { 0o755 };
            fs::set_permissions(at(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        for (link, target) in [
            ("cgi/near", "a.cgi"),
            ("cgi/sub/up", "../a.cgi"),
            ("cgi/there", "sub/deep"),
            ("cgi/there-and-back", "sub/../sub/b.pl"),
            ("cgi/out", "../outside"),
            ("cgi/out-file", "../outside/secret"),
            ("cgi/out-and-in", "../cgi/a.cgi"),
            ("cgi/sub/far-out", "../../../../../../etc/passwd"),
            ("cgi/loop", "loop"),
            ("cgi/chain", "near"),
            ("cgi/dangling", "nothing"),
            ("cgi/through-file", "a.cgi/x"),
            ("cgi/hides", ".hidden/d"),
            ("cgi/dot", "."),
            ("cgi/dots", ".."),
            ("outside/back", "../cgi"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        symlink(at("cgi/sub/b.pl"), at("cgi/absolute")).unwrap();
        symlink(at("cgi/a.cgi"), at("cgi/sub/absolute")).unwrap();
        symlink(at("cgi/../outside/secret"), at("cgi/absolute-out")).unwrap();
        symlink("/etc/passwd", at("cgi/absolute-far")).unwrap();
        symlink("/proc/self/root/etc/passwd", at("cgi/magic")).unwrap();
        let _ = UnixListener::bind(at("cgi/socket")).unwrap();
        root
    }

    fn mount(root: &Path, mount: &str, index: &[&str]) -> Mount {
        let index = index.iter().map(ToString::to_string).collect();
        Mount::open(&Spec { mount: mount.into(), root: root.to_owned(), index, ..Spec::default() }).unwrap()
    }

    /// SCRIPT_FILENAME below the tree, SCRIPT_NAME and PATH_INFO; or the refusal, without the tree's name.
    fn found(tree: &tempfile::TempDir, mount: &Mount, path: &str) -> String {
        let top = format!("{}/", tree.path().display());
        match mount.find(path.as_bytes()) {
            Ok(script) => {
                assert_eq!(script.filename.parent(), Some(script.directory.as_path()));
                let file = fs::metadata(&script.filename).unwrap();
                assert_eq!((file.dev(), file.ino()), script.version.file, "{path}: what was checked");
                let [name, info] =
                    [script.name, script.path_info].map(|bytes| String::from_utf8(bytes).unwrap());
                format!("{} {name} {info}", script.filename.display()).replace(&top, "")
            }
            Err(refusal) => format!("{} {}", refusal.status, refusal.reason).replace(&top, ""),
        }
    }

    #[test]
    fn the_first_file_on_the_way_is_the_script() {
        let tree = tree();
        let mount = mount(&tree.path().join("cgi"), "/cgi-bin", &[]);
        for (path, expected) in [
            ("/cgi-bin/a.cgi", "cgi/a.cgi /cgi-bin/a.cgi "),
            ("/cgi-bin/a.cgi/", "cgi/a.cgi /cgi-bin/a.cgi /"),
            ("/cgi-bin/a.cgi/x/y", "cgi/a.cgi /cgi-bin/a.cgi /x/y"),
            ("/cgi-bin/a.cgi//x/./.y", "cgi/a.cgi /cgi-bin/a.cgi //x/./.y"),
            ("/cgi-bin//a.cgi", "cgi/a.cgi /cgi-bin/a.cgi "),
            ("/cgi-bin/sub/b.pl/c", "cgi/sub/b.pl /cgi-bin/sub/b.pl /c"),
            ("/cgi-bin/sub/deep/c", "cgi/sub/deep/c /cgi-bin/sub/deep/c "),
            ("/cgi-bin/odd\u{e9} name/f", "cgi/odd\u{e9} name/f /cgi-bin/odd\u{e9} name/f "),
            ("/cgi-bin/%2e%2e", "cgi/%2e%2e /cgi-bin/%2e%2e "),
            ("/cgi-bin/near/x", "cgi/near /cgi-bin/near /x"),
            ("/cgi-bin/chain", "cgi/chain /cgi-bin/chain "),
            ("/cgi-bin/sub/up", "cgi/sub/up /cgi-bin/sub/up "),
            ("/cgi-bin/there/c", "cgi/there/c /cgi-bin/there/c "),
            ("/cgi-bin/there-and-back", "cgi/there-and-back /cgi-bin/there-and-back "),
            ("/cgi-bin/dot/sub/b.pl", "cgi/dot/sub/b.pl /cgi-bin/dot/sub/b.pl "),
            ("/cgi-bin/absolute", "cgi/absolute /cgi-bin/absolute "),
            ("/cgi-bin/sub/absolute", "cgi/sub/absolute /cgi-bin/sub/absolute "),
            ("/cgi-bin/hides", "cgi/hides /cgi-bin/hides "),
        ] {
            assert_eq!(found(&tree, &mount, path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_script_is_refused_and_told_why() {
        let tree = tree();
        let mount = mount(&tree.path().join("cgi"), "/cgi-bin", &[]);
        let long = format!("/cgi-bin/{}", "x".repeat(300));
        for (path, expected) in [
            ("/cgi-bin", "403 cgi is a directory; see --cgi-index"),
            ("/cgi-bin/sub/", "403 cgi/sub is a directory; see --cgi-index"),
            ("/cgi-bin/none", "404 cgi/none: No such file"),
            ("/cgi-bin/none/a.cgi", "404 cgi/none: No such file"),
            ("/cgi-bin/sub/a.cgi", "404 cgi/sub/a.cgi: No such file"),
            ("/cgi-bin/dangling", "404 cgi/dangling: No such file"),
            ("/cgi-bin/through-file", "404 cgi/through-file: Not a directory"),
            (&long, "404 cgi/xxx"),
            ("/cgi-bin/plain", "403 cgi/plain is not executable: see chmod +x"),
            ("/cgi-bin/socket", "403 cgi/socket is not a regular file"),
            ("/cgi-bin/.e", "403 cgi/.e is hidden"),
            ("/cgi-bin/.hidden/d", "403 cgi/.hidden is hidden"),
            ("/cgi-bin/.none", "403 cgi/.none is hidden"),
            ("/cgi-bin/./a.cgi", "403 cgi/. is hidden"),
            ("/cgi-bin/../outside/secret", "403 the path has a \"..\""),
            ("/cgi-bin/sub/../a.cgi", "403 the path has a \"..\""),
            ("/cgi-bin/a.cgi/../../x", "403 the path has a \"..\""),
            ("/cgi-bin/..", "403 the path has a \"..\""),
            ("/cgi-bin/a.cgi\0", "404 the path has a NUL"),
            ("/cgi-bin2/a.cgi", "404 the path is not below that of the mount"),
            ("*", "404 the path is not below that of the mount"),
            (
                "/cgi-bin/out/secret",
                "403 cgi/out is a symbolic link out of the directory: give it a mount of its own, \
                 --cgi /cgi-bin/out=cgi/out",
            ),
            ("/cgi-bin/out", "403 cgi/out is a symbolic link out of the directory"),
            ("/cgi-bin/out-file", "403 cgi/out-file is a symbolic link out"),
            ("/cgi-bin/out-and-in", "403 cgi/out-and-in is a symbolic link out"),
            ("/cgi-bin/dots/outside/secret", "403 cgi/dots is a symbolic link out"),
            ("/cgi-bin/sub/far-out", "403 cgi/sub/far-out is a symbolic link out"),
            ("/cgi-bin/absolute-out", "403 cgi/absolute-out is a symbolic link out"),
            ("/cgi-bin/absolute-far", "403 cgi/absolute-far is a symbolic link out"),
            ("/cgi-bin/magic", "403 cgi/magic is a symbolic link out"),
            ("/cgi-bin/loop", "403 cgi/loop leads through too many symbolic links"),
        ] {
            let refusal = found(&tree, &mount, path);
            assert!(refusal.starts_with(expected), "{path}: {refusal}");
        }
    }

    #[test]
    fn a_directory_may_have_an_index_script() {
        let tree = tree();
        let mount = mount(&tree.path().join("cgi"), "/", &["index.pl", "index.cgi"]);
        for (path, expected) in [
            ("/full/", "cgi/full/index.cgi /full/index.cgi "),
            ("/full", "cgi/full/index.cgi /full/index.cgi "),
            ("/full/none", "404 cgi/full/none: No such file or directory (os error 2)"),
            ("/empty/", "403 cgi/empty is a directory; and it has no index script"),
            ("/a.cgi/x", "cgi/a.cgi /a.cgi /x"),
            ("/", "403 cgi is a directory; and it has no index script"),
        ] {
            assert_eq!(found(&tree, &mount, path), expected, "{path}");
        }
    }

    #[test]
    fn a_mount_may_be_one_script_wherever_that_lies() {
        let tree = tree();
        for (at, root, path, expected) in [
            ("/gitweb", "cgi/a.cgi", "/gitweb", "cgi/a.cgi /gitweb "),
            ("/gitweb", "cgi/a.cgi", "/gitweb/x/y", "cgi/a.cgi /gitweb /x/y"),
            ("/gitweb", "cgi/a.cgi", "/gitweb/../x", "403 the path has a \"..\""),
            ("/gitweb", "cgi/a.cgi", "/gitwebs", "404 the path is not below that of the mount"),
            ("/", "cgi/a.cgi", "/x", "cgi/a.cgi  /x"),
            ("/x", "cgi/out-file", "/x", "cgi/out-file /x "),
            ("/x", "cgi/.hidden/d", "/x/y", "cgi/.hidden/d /x /y"),
            ("/x", "cgi/plain", "/x", "403 cgi/plain is not executable: see chmod +x"),
            ("/x", "cgi/socket", "/x", "403 cgi/socket is not a regular file"),
        ] {
            let mount = mount(&tree.path().join(root), at, &[]);
            assert_eq!(found(&tree, &mount, path), expected, "{at} {root} {path}");
        }
    }

    #[test]
    fn what_is_known_of_a_script_is_its_own() {
        let tree = tree();
        let root = tree.path().join("cgi");
        let mount = mount(&root, "/c", &[]);
        let plain = mount.find(b"/c/near").unwrap();
        assert_eq!(plain.perl.as_ref().unwrap().switches[0].to_str(), Ok("-T"));
        assert!(!plain.nph && mount.find(b"/c/nph-a").unwrap().nph);
        assert_eq!(plain.version, mount.find(b"/c/a.cgi").unwrap().version, "a link is what it leads to");
        fs::write(root.join("a.cgi"), "#!/bin/sh\n").unwrap();
        let changed = mount.find(b"/c/near").unwrap();
        assert!(changed.version != plain.version && changed.perl.is_none());
    }

    #[test]
    fn a_mount_whose_directory_is_exchanged_serves_the_new_one() {
        let tree = tree();
        let (first, second, current) =
            (tree.path().join("cgi"), tree.path().join("cgi/sub"), tree.path().join("current"));
        symlink(&first, &current).unwrap();
        let mount = mount(&current, "/c", &[]);
        assert_eq!(mount.find(b"/c/a.cgi").unwrap().filename, current.join("a.cgi"));
        assert_eq!(mount.find(b"/c/absolute").unwrap().filename, current.join("absolute"));
        fs::remove_file(&current).unwrap();
        symlink(second, &current).unwrap();
        assert_eq!(mount.find(b"/c/b.pl").unwrap().filename, current.join("b.pl"));
        assert_eq!(mount.find(b"/c/a.cgi").unwrap_err().status, 404);
        fs::remove_file(&current).unwrap();
        assert_eq!(mount.find(b"/c/a.cgi").unwrap_err().status, 404);
    }
}
