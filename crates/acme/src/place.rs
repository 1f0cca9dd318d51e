//! The files of an authority's certificates, in a directory for it alone below --acme-dir: another authority has other
//! accounts, and one that is for tests has certificates that nobody is to be shown once there are real ones. Each set of names
//! has a file of its own, since servers that share the directory may serve different ones.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// Bytes that a certificate with its chain and key may have.
const ROOM: usize = 16 * 1024;
/// Letters of names that a file's name has; what is more is told apart by a number.
const NAMES: usize = 180;

/// See the module.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
    certificate: PathBuf,
}

/// No other process orders a certificate as long as the value lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Place {
    /// Below `all`, for the authority at that URL and a certificate with these names, which are sorted.
    #[must_use]
    pub fn of(all: &Path, authority: &str, names: &[String]) -> Self {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let name = authority.strip_prefix("https://").unwrap_or(authority);
        let name: String = name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect();
        let directory = all.join(name.trim_start_matches('.'));
        Self { certificate: directory.join(file_name(names)), directory }
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// The system's.
    pub fn make(&self) -> Result<(), Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| Error::File("make the directory", self.directory.clone(), error))
    }

    /// The certificate with its chain, and its key.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.certificate.clone()
    }

    /// Certificates for other names.
    #[must_use]
    pub fn others(&self) -> Vec<PathBuf> {
        let files =
            std::fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_other =
            |path: &PathBuf| path.extension().is_some_and(|end| end == "pem") && *path != self.certificate;
        files.filter(is_other).collect()
    }

    pub(crate) fn account(&self) -> PathBuf {
        self.directory.join("account.json")
    }

    /// Of an order that is begun.
    pub(crate) fn order(&self) -> PathBuf {
        self.certificate.with_extension("order")
    }

    /// Of tries that have failed.
    pub(crate) fn tries(&self) -> PathBuf {
        self.certificate.with_extension("tries")
    }

    /// The address by which the authority reaches who has the account.
    pub(crate) fn contact(&self) -> PathBuf {
        self.directory.join("contact")
    }

    /// Writes the certificate with its key.
    ///
    /// # Errors
    /// The system's; then the old one is there still.
    pub fn keep(&self, pem: &str) -> Result<(), Error> {
        write(&self.certificate(), pem.as_bytes())
    }

    /// As [`Self::keep`], when the file whose path is given to `fits` is good enough to take the old one's place.
    ///
    /// # Errors
    /// The system's, and those of `fits`; then the old one is there still.
    pub(crate) fn keep_if<T>(
        &self,
        pem: &str,
        fits: impl FnOnce(&Path) -> Result<T, Error>,
    ) -> Result<T, Error> {
        write_if(&self.certificate(), pem.as_bytes(), fits)
    }

    /// Whether a certificate could be written, asked before one is ordered: what is issued and then lost counts with the authority.
    ///
    /// # Errors
    /// As [`Place::keep`].
    pub fn try_room(&self) -> Result<(), Error> {
        let path = self.directory.join("room");
        let written = write(&path, &[0; ROOM]);
        let _ = std::fs::remove_file(&path);
        written
    }

    /// None while another process has it.
    ///
    /// # Errors
    /// When the file cannot be had.
    pub fn lock(&self) -> Result<Option<Lock>, Error> {
        let path = self.directory.join("lock");
        let failed = |error| Error::File("lock", path.clone(), error);
        let file = secret().create(true).truncate(false).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// Of the file for a certificate with these names.
fn file_name(names: &[String]) -> String {
    let mut all = names.join("+");
    if all.len() > NAMES {
        let number = fnv1a(all.as_bytes());
        all.truncate(NAMES);
        all = format!("{all}+{number:016x}");
    }
    all + ".pem"
}

/// The same for ever, as a file's name has to be.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn secret() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Beside the file first, so that whoever reads it finds the old one or the new one, whole, also after a power cut.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_if(path, bytes, |_| Ok(()))
}

fn write_if<T>(path: &Path, bytes: &[u8], fits: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
    let failed = |error| Error::File("write", path.to_owned(), error);
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let written = write_new(&beside, bytes).map_err(failed).and_then(|()| fits(&beside));
    let moved = |found| std::fs::rename(&beside, path).map_err(failed).map(|()| found);
    written.and_then(moved).inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that is left from a crash may have another's mode.
    let _ = std::fs::remove_file(path);
    let mut file = secret().create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(all: &Path) -> Place {
        Place::of(all, "https://x", &["a.example".to_owned()])
    }

    #[test]
    fn each_set_of_names_has_a_file() {
        let all = tempfile::tempdir().unwrap();
        let names = |names: &str| names.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let files = |names: &[String]| Place::of(all.path(), "https://x", names);
        let (one, two) = (files(&names("a.example")), files(&names("a.example b.example")));
        assert_eq!(one.certificate().file_name().unwrap(), "a.example.pem");
        assert_eq!(two.certificate().file_name().unwrap(), "a.example+b.example.pem");
        one.make().unwrap();
        assert!(two.others().is_empty());
        one.keep("one").unwrap();
        two.keep("two").unwrap();
        let _lock = one.lock().unwrap();
        assert_eq!((one.others(), two.others()), (vec![two.certificate()], vec![one.certificate()]));
        let many: Vec<_> = (0..100).map(|n| format!("{n}.{}.example", "x".repeat(60))).collect();
        let file = files(&many);
        file.keep("many").unwrap();
        assert_ne!(file.certificate(), files(&many[..99]).certificate());
    }

    #[test]
    fn each_authority_has_a_directory_by_its_name() {
        for (authority, name) in [
            ("https://acme-v02.api.letsencrypt.org/directory", "acme-v02.api.letsencrypt.org_directory"),
            ("https://localhost:14000/dir", "localhost_14000_dir"),
            ("https://../../etc", "_.._etc"),
        ] {
            let place = Place::of("/var/lib".as_ref(), authority, &["a.example".to_owned()]);
            assert_eq!(place.directory, PathBuf::from("/var/lib").join(name), "{authority}");
        }
    }

    #[test]
    fn what_is_written_is_whole_and_for_nobody_else() {
        let all = tempfile::tempdir().unwrap();
        let place = place(&all.path().join("a/b"));
        place.make().unwrap();
        place.make().unwrap();
        for text in ["first", "second"] {
            place.keep(text).unwrap();
            assert_eq!(std::fs::read_to_string(place.certificate()).unwrap(), text);
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&place.certificate()), mode(&place.directory)), (0o600, 0o700));
        assert_eq!(std::fs::read_dir(&place.directory).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_does_not_fit_leaves_the_old_one() {
        let all = tempfile::tempdir().unwrap();
        let place = place(all.path());
        place.make().unwrap();
        place.keep("old").unwrap();
        let refused = place.keep_if::<()>("rubbish", |file| {
            assert_eq!(std::fs::read_to_string(file).unwrap(), "rubbish");
            Err(Error::Useless("no".to_owned()))
        });
        assert!(matches!(refused, Err(Error::Useless(_))));
        assert_eq!(std::fs::read_to_string(place.certificate()).unwrap(), "old");
        assert_eq!(std::fs::read_dir(&place.directory).unwrap().count(), 1, "nothing is left beside it");
        place.keep_if("new", |_| Ok(())).unwrap();
        assert_eq!(std::fs::read_to_string(place.certificate()).unwrap(), "new");
    }

    #[test]
    fn room_is_tried_and_left() {
        let all = tempfile::tempdir().unwrap();
        let place = place(all.path());
        assert!(place.try_room().unwrap_err().to_string().starts_with("cannot write "), "no directory");
        place.make().unwrap();
        place.try_room().unwrap();
        assert_eq!(std::fs::read_dir(&place.directory).unwrap().count(), 0);
    }

    #[test]
    fn one_process_has_the_lock() {
        let all = tempfile::tempdir().unwrap();
        let place = place(all.path());
        place.make().unwrap();
        let lock = place.lock().unwrap();
        assert!(lock.is_some() && place.lock().unwrap().is_none());
        drop(lock);
        assert!(place.lock().unwrap().is_some());
    }
}
