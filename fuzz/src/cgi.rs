//! CGI: what a script prints, and what path a client asks for.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use howdah_cgi::environment::{Environment, arguments};
use howdah_cgi::head::{Answer, Head, Reader};
use howdah_cgi::place::{Mount, Script};
use howdah_cgi::request::Request;
use howdah_cgi::spec::Spec;

/// What a script prints, after a byte that says whether it is an nph- script and how its output is split.
///
/// # Panics
/// When a split changes the answer, or a head that was passed could not be sent.
pub fn head(data: &[u8]) {
    let [options, output @ ..] = data else { return };
    let (nph, size) = (options & 1 == 1, usize::from(options >> 1) + 1);
    let whole = read(nph, [output]);
    assert_eq!(whole, read(nph, output.chunks(1)), "single bytes change the answer");
    assert_eq!(whole, read(nph, output.chunks(size)), "a split changes the answer");
    match whole {
        Ok((Answer::Response(head), used)) => check_head(&head, used, output),
        Ok((Answer::Redirect(path), _)) => {
            assert!(path.starts_with(b"/") && path.iter().all(u8::is_ascii_graphic) && !path.contains(&b'#'));
            assert!(!nph);
        }
        Err(why) => assert!(why.len() < 1000 && !why.contains(char::is_control), "{why}"),
    }
}

fn read<'a>(nph: bool, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(Answer, usize), String> {
    let (mut reader, mut before) = (Reader::new(nph), 0);
    for piece in pieces {
        match reader.take(piece).map_err(|fault| fault.to_string())? {
            Some((answer, used)) => return Ok((answer, before + used)),
            None => before += piece.len(),
        }
    }
    Err(reader.ended().to_string())
}

fn check_head(head: &Head, used: usize, output: &[u8]) {
    assert!((200..1000).contains(&head.status) && used <= output.len());
    assert!(output[..used].ends_with(b"\n"), "a head ends with a line");
    for (name, value) in &head.fields {
        assert!(
            !name.is_empty() && !name.iter().any(|byte| b" :\t".contains(byte) || byte.is_ascii_control())
        );
        assert!(!value.is_empty() && !value.iter().any(|byte| b"\r\n\0".contains(byte)));
    }
    for name in ["Status", "Content-Length", "Connection", "Transfer-Encoding", "Upgrade"] {
        assert!(!head.has(name), "{name}");
    }
    assert_eq!(head.lines().split(|&byte| byte == b'\n').count(), head.fields.len() + 1);
}

/// A path and behind a `?` a query, below a mount of a directory or of one script.
///
/// # Panics
/// When a script is found that does not lie in the directory, or is not what the path names.
pub fn place(data: &[u8]) {
    let [options, rest @ ..] = data else { return };
    let (tree, mounts) = tree();
    let (path, query) = rest.split_at(rest.iter().position(|&byte| byte == b'?').unwrap_or(rest.len()));
    let path = [b"/c/", path].concat();
    let mount = &mounts[usize::from(options & 1)];
    let request =
        Request { method: b"GET".to_vec(), query: query.to_vec(), path: path.clone(), ..Request::default() };
    assert!(arguments(&request).len() <= query.len() + 1);
    let Ok(script) = mount.find(&path) else { return };
    check_script(&script, &path, &tree.join("cgi"));
    let variables = Environment::new(&Spec::default()).variables(&request, &script);
    assert!(variables.iter().all(|variable| variable.to_bytes().contains(&b'=')));
}

fn check_script(script: &Script, path: &[u8], top: &Path) {
    let real = script.filename.canonicalize().expect("what was found is there");
    assert!(real.starts_with(top) && real.is_file(), "{}", real.display());
    assert!(path.ends_with(&script.path_info), "PATH_INFO is the path's end");
    assert!(matches!(script.path_info.first(), None | Some(b'/')));
    assert!(!script.path_info.split(|&byte| byte == b'/').any(|segment| segment == b".."));
    assert!(
        !script.name.windows(2).any(|two| two == b"/." || two == b"//"),
        "{}",
        script.name.escape_ascii()
    );
    let name = script.filename.file_name().expect("a name").as_bytes();
    assert!(script.name.ends_with(name) || script.name == b"/c");
}

/// One for all inputs, which change nothing in it. It stays until the process ends.
fn tree() -> &'static (PathBuf, [Mount; 2]) {
    static TREE: OnceLock<(PathBuf, [Mount; 2])> = OnceLock::new();
    TREE.get_or_init(|| make().expect("a directory of scripts"))
}

fn make() -> io::Result<(PathBuf, [Mount; 2])> {
    let top = tempfile::tempdir()?.keep().canonicalize()?;
    for directory in ["cgi/a/b", "cgi/.h", "out"] {
        fs::create_dir_all(top.join(directory))?;
    }
    for file in ["cgi/x", "cgi/a/x", "cgi/a/b/..x", "cgi/.h/x", "cgi/.x", "out/x", "cgi/a/index"] {
        fs::write(top.join(file), "#!/usr/bin/perl\n")?;
        fs::set_permissions(top.join(file), fs::Permissions::from_mode(0o755))?;
    }
    for (link, to) in [
        ("l", "a"),
        ("o", "../out"),
        ("u", ".."),
        ("d", "."),
        ("p", "/"),
        ("a/u", ".."),
        ("a/o", "../../out/x"),
        ("y", "y"),
    ] {
        symlink(to, top.join("cgi").join(link))?;
    }
    let spec = |root: &str| Spec {
        mount: "/c".into(),
        root: top.join(root),
        index: vec!["index".into()],
        ..Spec::default()
    };
    let mounts = [Mount::open(&spec("cgi"))?, Mount::open(&spec("cgi/x"))?];
    Ok((top, mounts))
}
