//! What a script's zygote loads before the script. Two files are Howdah's, Howdah/CGI/Fork.pm and the object that it loads:
//! perl knows where they are; it is asked once. The others are those of `--cgi-preload`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::spec::Spec;

/// See the module.
#[derive(Debug)]
pub struct Modules {
    perl: PathBuf,
    inc: Vec<PathBuf>,
    /// Code that loads the others.
    others: String,
    preamble: OnceLock<Result<OsString, String>>,
}

/// Prints the first of each that @INC has.
const FIND: &str = "for my $file (qw(Howdah/CGI/Fork.pm auto/Howdah/CGI/Fork/Fork.so)) {\
    my ($found) = grep { -e } map { qq($_/$file) } @INC; print $found // '', qq(\\0) }";

impl Modules {
    /// Those of a specification.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        let (perl, inc) = (spec.perl.clone(), spec.inc.clone());
        Self { perl, inc, others: spec.preload_code(), preamble: OnceLock::new() }
    }

    /// perl's argument that stops it behind the script's last line. It names no module of Howdah's, so that %INC has none and
    /// no directory has to be in @INC.
    ///
    /// # Errors
    /// The text says why there is none. Whether it can be found counts once for all; that perl cannot be run does not, which may be
    /// for lack of descriptors or processes.
    pub(super) fn preamble(&self) -> Result<&OsString, String> {
        let known = match self.preamble.get() {
            Some(known) => known,
            None => {
                let printed = self.ask()?;
                self.preamble.get_or_init(|| self.find(&printed))
            }
        };
        known.as_ref().map_err(Clone::clone)
    }

    fn find(&self, printed: &[u8]) -> Result<OsString, String> {
        let perl = self.perl.display();
        let found = printed.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        // A directory of PERL5LIB may be relative to where we are, and scripts run elsewhere.
        let mut found = found.map(|path| std::path::absolute(OsStr::from_bytes(path)));
        let (Some(Ok(module)), Some(Ok(object))) = (found.next(), found.next()) else {
            return Err(format!(
                "{perl} does not find Howdah/CGI/Fork.pm and its object: install Howdah for this perl"
            ));
        };
        let text = [
            b"-M5;BEGIN{(require'",
            &*quoted(module.as_os_str().as_bytes()),
            b"')->('",
            &*quoted(object.as_os_str().as_bytes()),
            b"')}",
            self.others.as_bytes(),
        ]
        .concat();
        Ok(OsString::from_vec(text))
    }

    fn ask(&self) -> Result<Vec<u8>, String> {
        let flags = self.inc.iter().map(|dir| {
            let mut flag = OsString::from("-I");
            flag.push(dir.as_os_str());
            flag
        });
        let perl = self.perl.display();
        let output = Command::new(&self.perl).args(flags).args(["-e", FIND]).output();
        let output = output.map_err(|error| format!("cannot run {perl}: {error}"))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!("{perl} fails: {}", output.status))
        }
    }
}

/// For a string of Perl between single quotes.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    for &byte in path {
        if matches!(byte, b'\'' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text
}
